//! Recognises services of managers other than systemd by the programs that their processes run.
//!
//! sysvinit runs each service's script (`/etc/init.d/ssh`, `/etc/rc2.d/S03ssh`), which ends when the service has
//! started. OpenRC runs such scripts with `openrc-run`, in the script's own process or in its parent. runit, s6 and
//! daemontools keep one process for each service (`runsv`), whose child becomes the service; only the child's program
//! gives its name.

use timeline::Manager;

/// Folders of scripts that start services.
const FOLDERS: [&str; 4] = ["/etc/init.d/", "/etc/rc.d/init.d/", "/etc/rc.d/", "/usr/local/etc/rc.d/"];

/// The service that a script starts, by the script's path.
pub(super) fn script(path: &str) -> Option<&str> {
    let name = of_level(path).or_else(|| FOLDERS.iter().find_map(|folder| path.strip_prefix(folder)))?;
    let name = without_order(name);
    let is_rc = name.strip_prefix("rc").is_some_and(|level| level.len() <= 1);
    (!name.is_empty() && !name.contains('/') && !is_rc && name != "rc.sysinit").then_some(name)
}

/// The script's name in the folder of a run level: `/etc/rc2.d/S03ssh`, `/etc/rc.d/rc2.d/S03ssh`.
fn of_level(path: &str) -> Option<&str> {
    let script_in = |folder| {
        let (level, name) = path.strip_prefix(folder)?.split_once(".d/")?;
        (level.len() == 1 && name.starts_with('S')).then_some(name)
    };
    script_in("/etc/rc").or_else(|| script_in("/etc/rc.d/rc"))
}

/// Removes the prefix that orders scripts: `S03` of `S03ssh`.
fn without_order(name: &str) -> &str {
    let rest = name.strip_prefix('S').unwrap_or(name);
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    if rest.len() < name.len() && (2..=3).contains(&digits) { &rest[digits..] } else { name }
}

/// The last part of a program's path.
pub(super) fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// True if the program is OpenRC's, whose children run the scripts of services.
pub(super) fn is_openrc(path: &str) -> bool {
    matches!(base(path), "openrc" | "openrc-run")
}

/// True if the program is OpenRC's that runs one service.
pub(super) fn runs_one(path: &str) -> bool {
    base(path) == "openrc-run"
}

/// The manager of this supervising program. Each child of such a program is a service.
pub(super) fn supervisor(path: &str) -> Option<Manager> {
    match base(path) {
        "runsv" => Some(Manager::Runit),
        "s6-supervise" => Some(Manager::S6),
        "supervise" => Some(Manager::Daemontools),
        _ => None,
    }
}

/// True if this is the script that a supervisor starts and that then becomes the service.
pub(super) fn is_run_script(path: &str) -> bool {
    matches!(base(path), "run" | "finish" | "log")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scripts_path_gives_its_service() {
        for (path, name) in [
            ("/etc/init.d/ssh", Some("ssh")),
            ("/etc/init.d/hwclock.sh", Some("hwclock.sh")),
            ("/etc/init.d/S50sshd", Some("sshd")),
            ("/etc/rc2.d/S03nginx", Some("nginx")),
            ("/etc/rc.d/rc3.d/S55sshd", Some("sshd")),
            ("/etc/rc2.d/K01nginx", None),
            ("/etc/rcS.d/S01udev", Some("udev")),
            ("/etc/rc.d/sshd", Some("sshd")),
            ("/etc/init.d/rc.local", Some("rc.local")),
            ("/etc/init.d/Samba", Some("Samba")),
            ("/etc/init.d/rc", None),
            ("/etc/init.d/rcS", None),
            ("/etc/init.d/rc2", None),
            ("/etc/init.d/", None),
            ("/etc/init.d/a/b", None),
            ("/usr/sbin/sshd", None),
        ] {
            assert_eq!(script(path), name, "{path}");
        }
    }
}
