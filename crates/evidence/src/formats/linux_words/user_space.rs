//! Messages in a kernel's log that show where the kernel ends and user space begins.
//!
//! Wordings changed over the years, and a log may lack any of them. So each boundary has several, and programs that print prove
//! that process 1 runs, whatever the kernel printed before.

use crate::formats::systemd_span::span;
use timeline::Ns;

/// Beginnings of the message after the kernel has freed its own initialization code, which is the last before process 1.
const FREES_INIT: [&str; 3] = [
    // Since 2.2 on x86; since 3.10 everywhere. "image (initmem)" was added in 4.20.
    "Freeing unused kernel ",
    // ARM until 3.9, and others of that time.
    "Freeing init memory: ",
    "Freeing kernel init memory",
];

/// Beginnings of messages of process 1 itself, by implementation. A name in brackets with the number 1 needs none.
const PROCESS_1: [&str; 8] = [
    // Android's init and Upstart.
    "init: ",
    // OpenWrt.
    "procd: ",
    "preinit: ",
    "OpenRC ",
    " * OpenRC",
    // sysvinit.
    "INIT: version ",
    // The banner of systemd and of OpenRC.
    "Welcome to ",
    "runit: ",
];
/// Beginnings of lines that programs print on the console without any stamp: systemd's status lines, sysvinit's and BusyBox'
/// scripts, an initrd's, udev's, a shell's.
const GREETINGS: [&str; 14] = [
    "[  OK  ] ",
    "[FAILED] ",
    "[DEPEND] ",
    "[ ok ] ",
    "[....] ",
    "INIT: ",
    "Starting version ",
    "Starting syslogd",
    "Starting logging: ",
    "Starting network: ",
    "Begin: ",
    "Please press Enter to activate this console",
    "/ # ",
    "login: ",
];

/// Messages of the kernel about what a program did.
const BY_A_PROGRAM: [(&str, &str); 2] = [("Adding ", "k swap on "), ("EXT4-fs (", "): re-mounted")];
/// The kernel starts these helpers itself, before process 1.
const HELPERS: [&str; 3] = ["modprobe", "request-key", "core_pattern"];

/// True if the kernel says that it has freed its initialization code.
pub(crate) fn frees_init(text: &str) -> bool {
    FREES_INIT.iter().any(|begin| text.starts_with(begin))
}

/// True if the kernel says that it starts process 1.
pub(crate) fn starts_process_1(text: &str) -> bool {
    text.starts_with("Run ") && text.ends_with(" as init process")
}

/// True if process 1 itself printed the message.
pub(crate) fn is_of_process_1(text: &str) -> bool {
    PROCESS_1.iter().any(|begin| text.starts_with(begin))
        || text.find("[1]: ").is_some_and(|at| program(text) == Some(&text[..at]))
}

/// True if a message ends a wait of user space: for random numbers, or for something that did not come in time.
pub(crate) fn ends_a_wait(text: &str) -> bool {
    const WORDS: [&str; 7] =
        ["crng init done", "timed out", "timeout", "time-out", "Timed out", "Direct firmware load", "giving up"];
    WORDS.iter().any(|words| text.contains(words))
}

/// True if a program printed the message, or did what it reports: then process 1 runs.
pub(crate) fn is_of_a_program(text: &str) -> bool {
    PROCESS_1.iter().any(|begin| text.starts_with(begin))
        || BY_A_PROGRAM.iter().any(|(begin, word)| text.starts_with(begin) && text.contains(word))
        || program(text).is_some_and(|name| !HELPERS.contains(&name))
}

/// True if a line without a stamp is a program's greeting.
pub(crate) fn greets(text: &str) -> bool {
    GREETINGS.iter().any(|begin| text.starts_with(begin)) || status(text).is_some() || asks_for_login(text)
}

/// The job in a status line of systemd's: `[ ***  ] A start job is running for …`. Its stars move.
fn status(text: &str) -> Option<&str> {
    let (stars, job) = text.strip_prefix('[')?.split_once("] ")?;
    let is_moving = stars.contains('*') && stars.bytes().all(|b| b == b'*' || b == b' ');
    let is_job = job.starts_with("A start job is running for ") || job.starts_with("A stop job is running for ");
    (is_moving && is_job).then_some(job)
}

/// systemd cuts its status lines at the width of the terminal.
const JOB_BYTES_MAX: usize = 512;

/// The job in a status line of systemd's, and how long it has run: `A start job is running for wlan0 (9s / 1min 30s)`.
pub(crate) fn running_job(text: &str) -> Option<(&str, Ns)> {
    let (job, times) = status(text)?.rsplit_once(" (")?;
    let (ran, rest) = span(times.as_bytes())?;
    (rest.starts_with(b" / ") && job.len() <= JOB_BYTES_MAX).then_some((job, ran))
}

/// True if a line says that a user logged in: the kernel's audit record of it (AUDIT_LOGIN, kernel/auditsc.c), which has had
/// two forms, or logind's message.
pub(crate) fn opens_a_session(text: &str) -> bool {
    const OF_NOBODY: &str = "auid=4294967295 ";
    let is_login = text.contains("type=1006 audit(") && (text.contains("old auid=") || text.contains("old-auid="));
    (is_login && text.matches(OF_NOBODY).count() == 1)
        || (text.starts_with("systemd-logind[") && text.contains("]: New session "))
}

/// True if a line is a login prompt: `debian login:`.
pub(crate) fn asks_for_login(text: &str) -> bool {
    let Some((before, _)) = text.split_once("login:") else { return false };
    // "Last login: …" is printed behind the prompt.
    before.is_empty()
        || before.strip_suffix(' ').is_some_and(|host| !host.is_empty() && !host.contains(' ') && host != "Last")
}

/// The program in `systemd-udevd[123]: …`.
fn program(text: &str) -> Option<&str> {
    const MAX_NAME_BYTES: usize = 32;
    let (name, rest) = text.split_once('[')?;
    let (number, _) = rest.split_once("]: ")?;
    let is_name = (1..=MAX_NAME_BYTES).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.()".contains(&b));
    let is_number = (1..=7).contains(&number.len()) && number.bytes().all(|b| b.is_ascii_digit());
    (is_name && is_number).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_a_session() {
        for line in [
            "type=1006 audit(1397127782.936:2): pid=294 uid=0 old auid=4294967295 new auid=1000 old ses=4294967295 new ses=1 res=1",
            "audit: type=1006 audit(1600000000.1:9): pid=9 uid=0 old-auid=4294967295 auid=0 tty=(none) old-ses=4294967295 ses=1 res=1",
            "systemd-logind[310]: New session 1 of user a.",
        ] {
            assert!(opens_a_session(line), "{line}");
        }
        for line in ["type=2000 audit(1397127765.416:1): initialized", "systemd-logind[310]: New seat seat0."] {
            assert!(!opens_a_session(line), "{line}");
        }
    }

    #[test]
    fn programs_prove_that_process_1_runs() {
        for text in [
            "systemd[1]: Set hostname to <localhost>.",
            "systemd-udevd[123]: starting version 229",
            "init: init first stage started!",
            "procd: - early -",
            "Adding 102396k swap on /var/swap.  Priority:-2 extents:1 across:102396k SSFS",
            "EXT4-fs (sda1): re-mounted. Opts: errors=remount-ro",
            "plymouthd[88]: segfault at 0",
        ] {
            assert!(is_of_a_program(text), "{text}");
        }
        for text in [
            "modprobe[45]: segfault at 0",
            "usb 1-1: new high-speed USB device number 2",
            "EXT4-fs (sda1): mounted filesystem with ordered data mode",
            "pci 0000:00:1f.2: [8086:2922] type 00",
            "BIOS-e820: [mem 0x0000000000000000-0x000000000009fbff] usable",
            "x[1]",
            "init_module: y",
        ] {
            assert!(!is_of_a_program(text), "{text}");
        }
    }

    #[test]
    fn status_lines_of_systemd_are_greetings() {
        for text in [
            "[*     ] A start job is running for dev-sda1.device (9s / 1min 30s)",
            "[ ***  ] A stop job is running for x",
        ] {
            assert!(greets(text), "{text}");
        }
        for text in ["[*] A starter", "[ 1.0 ] A start job is running for x", "[      ] A start job is running for x"] {
            assert!(!greets(text), "{text}");
        }
    }

    #[test]
    fn a_status_line_says_how_long_its_job_has_run() {
        let job = "A start job is running for /sys/subsystem/net/devices/wlan0";
        let line = |times: &str| format!("[ ***  ] {job} ({times})");
        let found = |text: &str| running_job(text).map(|(job, ran)| (job.to_owned(), ran.0 / 1_000_000));
        assert_eq!(found(&line("13s / 1min 30s")), Some((job.to_owned(), 13_000)));
        assert_eq!(found(&line("1min 2s / no limit")), Some((job.to_owned(), 62_000)));
        for times in ["", "13s", "x / 1min", "99999999999999999999s / 1min"] {
            assert_eq!(found(&line(times)), None, "{times}");
        }
        assert_eq!(found(job), None);
    }

    #[test]
    fn a_login_prompt_may_have_its_answer_behind_it() {
        for text in ["login:", "login: ", "debian login:", "bpir4 login: nixos", "box login: root (automatic login)"] {
            assert!(asks_for_login(text), "{text}");
        }
        for text in ["Last login: Tue Nov 3", "there is no login: x", "systemd-logind: up", "login"] {
            assert!(!asks_for_login(text), "{text}");
        }
    }

    #[test]
    fn wordings_of_all_generations() {
        for text in [
            "Freeing unused kernel memory: 272k freed",
            "Freeing unused kernel image (initmem) memory: 2048K",
            "Freeing init memory: 272K",
        ] {
            assert!(frees_init(text), "{text}");
        }
        assert!(!frees_init("Freeing initrd memory: 4096K") && !frees_init("Freeing SMP alternatives memory: 32K"));
    }
}
