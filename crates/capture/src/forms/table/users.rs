//! Forms of names of users.

use super::super::Kind;
use super::super::checks::{typed, user};
use super::{Form, form};

pub(super) const USERS: &[Form] = &[
    form(
        "user's folder",
        Kind::User,
        user,
        r#"(?:/+homes?/+|[/\\]+Users[/\\]+|/run/media/|/var/(?:mail|spool/mail|spool/cron(?:/crontabs)?|lib/systemd/linger)/)([^/\s"':,;\\\[\])}<>|*]+)|/media/([^/\s"':,;\\\[\])}<>|*]+)/[^/\s]|(?:^|\s)~([a-z_][0-9a-z_-]*)/"#,
        "exec /home/«anna»/run",
        "/home /usr/lib/systemd",
    ),
    form(
        "user's folder as a unit",
        Kind::User,
        user,
        r"\bhome-([^\s./-]+?)(?:-\S*)?\.(?:mount|automount|device)",
        "home-«anna».mount",
        "home.mount",
    ),
    form(
        "user as a parameter",
        Kind::User,
        user,
        concat!(
            r#"(?i)(?:^|[^0-9a-z]|sudo_|log|run)(?:user(?:name)?|logname|login|acct|owner|identity|ruser|default_user)["']?(?:\s+=\s*["']?|=["']?|=[ \t]+["']|\s*":\s*["']?)"#,
            user!(),
            r#"|\bfull[ _-]?name["']?\s*[=:]\s*(?:"([^"\n]+)"|'([^'\n]+)'|([^\s"',;]+))"#
        ),
        r#"acct="«anna»" SUDO_USER=«anna»"#,
        "user=0 User=root username=(null) logname= uid=0",
    ),
    form(
        "user in a sentence",
        Kind::User,
        user,
        concat!(
            r#"(?:\b(?:opened|closed) for user |\b(?:Accepted|Failed|Postponed) \S+ for (?:(?:invalid|illegal) user )?|\b(?:[Ii]nvalid|illegal|authenticating|unknown|for|of|by) user '?|\buser(?:name)? '|\bUser (?:name )?'|\bsudo(?:\[\d+\])?:\s+|\bsu(?:\[\d+\])?: \(to \S+\) |\b(?:sudo -u|su -|su -l|useradd|adduser|usermod) |\blogged in as |\bLogged in as |\bautologin |\b(?:automatic login|login name|logged in user): ?|\bUser Slice of |\bnew (?:user|group): name=)'?"#,
            user!(),
            r"|\bchown (?:-\w+ )*([a-z_][0-9a-z_.-]*):|\bby ([a-z_][0-9a-z_.-]*)\(uid=|\b[a-z]?[ug]id=\d+\(([a-z_][0-9a-z_.-]*)\)"
        ),
        "New session 1 of user «anna».",
        "pam_unix(sshd:session): session opened for user root, for user space",
    ),
    form(
        "user typed at a login prompt",
        Kind::User,
        typed,
        concat!(r"[0-9A-Za-z] login: ", user!(), r"\s*$"),
        "«web7prod» login: «anna»",
        "Last login: Mon Nov 23",
    ),
    form(
        "user of a prompt or of SSH",
        Kind::User,
        user,
        r"(?:\b([a-z_][\w.-]*)@[0-9A-Za-z][\w.-]*\s*(?::\s*[~/][^\s#$]*|\s[~/][^\s\]]*\])\s*[#$%]|(?i:\b(?:ssh|scp|sftp|rsync|mosh)\s)(?:-\S+\s(?:[^\s@-]\S*\s)?)*([a-z_][\w.-]*)@|\bAAAA[0-9A-Za-z+/=]+ ([a-z_][\w.-]*)@|\bgit@[\w.-]+:([a-z_][\w.-]*)/|\(([a-z_][\w-]*)\) (?:CMD|MAIL|LOGIN))",
        "reached by ssh «anna»@«web7», CRON[7]: («anna») CMD (x)",
        "(root) CMD (x)",
    ),
    form(
        "user and full name in a table of users",
        Kind::User,
        user,
        r"^([a-z_][0-9a-z_.-]*):[^:\s]*:[1-5]\d{3,4}:\d+:([^:,]*)[^:]*:/",
        "«anna»:x:1000:1000:«Anna Berg»,,,:/srv/x:/bin/sh",
        "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin",
    ),
    form(
        "user of a session or a login",
        Kind::User,
        user,
        concat!(
            r#"\b(?:[Ss]ession \S+ of [Uu]ser |LOGIN ON \S+ BY |FAILED LOGIN .*?\bFOR '?|(?:password|account|shell) (?:changed|expired|locked) for (?:user )?'?|login on \S+ as |lingering for |session opened for )"#,
            user!(),
            r"|\blogin: ",
            user!(),
            r" \(automatic login\)"
        ),
        "Started session-3.scope - Session 3 of User «anna». LOGIN ON tty1 BY «anna»",
        "Session 3 of User root. session-3.scope",
    ),
    form(
        "owner of a keyboard, a phone or an earphone",
        Kind::User,
        user,
        concat!(
            r"(?i)(?:\binput: |\[)",
            user!(),
            r"(?:'|\xe2\x80\x99)s (?:Keyboard|Mouse|Trackpad|Magic|Air|i?Phone|i?Pad|MacBook|Galaxy|Pixel|Beats|Bose|Headphones|Buds)\b"
        ),
        "input: «Anna»'s Keyboard as /devices/virtual/misc/uhid/x",
        "input: AT Translated Set 2 keyboard, the driver's Mouse",
    ),
    form(
        "user of a database, a share or a directory",
        Kind::User,
        user,
        concat!(
            r#"\b(?:[Rr]ole +"|[Uu]ser=\[|(?:[Aa]uthentication failed|[Aa]ccess denied) for (?:user )? *["']|uid=)"#,
            user!(),
            r#" *(?:["'\]]|,(?:ou|cn|dc)=)"#
        ),
        r#"FATAL: role "«anna»" does not exist, uid=«anna»,ou=people"#,
        r#"uid=0 role "postgres" "#,
    ),
];
