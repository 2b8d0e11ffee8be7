//! Detects a container, and its start.
//!
//! A container has its own namespace of processes, with its own process 1. The start of that process is the container's
//! start. A container that shares the host's processes also shares the host's boot.

use super::processes::Stat;
use super::wall_s;
use crate::bounded;
use rustix::time::ClockId;
use std::fmt;
use std::fs;
use std::path::Path;

/// The number of the first namespace of processes on every Linux (`PROC_PID_INIT_INO`, include/linux/proc_ns.h).
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";
const MAX_ENVIRONMENT_BYTES: usize = 1 << 16;

/// The container in which this program runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Container {
    /// The program that runs it; empty if it is unknown.
    manager: String,
    /// The start of its process 1, in seconds of the wall clock.
    pub began: Option<u64>,
}

impl fmt::Display for Container {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.manager.as_str() {
            "" => out.write_str("a container"),
            manager => write!(out, "a container ({manager})"),
        }
    }
}

pub(crate) fn detect() -> Option<Container> {
    let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
    if namespace == Path::new(FIRST_PID_NAMESPACE) {
        return None;
    }
    let stat = bounded::read("/proc/1/stat", 4096).ok().and_then(|stat| Stat::parse(&stat.bytes));
    let began = stat.map(|stat| wall_s(ClockId::Boottime, stat.start / rustix::param::clock_ticks_per_second()));
    Some(Container { manager: manager(Path::new("/")), began })
}

/// The manager, by its traces in its containers: systemd's convention first, then those of others.
fn manager(root: &Path) -> String {
    let environment = bounded::read(root.join("proc/1/environ"), MAX_ENVIRONMENT_BYTES).unwrap_or_default().bytes;
    let mut variables =
        environment.split(|byte| *byte == 0).filter_map(|variable| variable.strip_prefix(b"container="));
    let files = [(".dockerenv", "docker"), ("run/.containerenv", "podman")];
    let named = variables.next().map(|name| String::from_utf8_lossy(name).into_owned());
    let named = named.or_else(|| bounded::line(root.join("run/systemd/container")));
    let by_file = || files.iter().find(|(file, _)| root.join(file).exists()).map(|(_, manager)| (*manager).to_owned());
    let name = named.filter(|name| !name.is_empty()).or_else(by_file).unwrap_or_default();
    name.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn managers_by_what_they_leave() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert_eq!(manager(root.path()), "");
        put(".dockerenv", "");
        assert_eq!(manager(root.path()), "docker");
        put("run/systemd/container", "systemd-nspawn\n");
        assert_eq!(manager(root.path()), "systemd-nspawn");
        put("proc/1/environ", "PATH=/bin\0container=lxc\x1b[31m\0TERM=x\0");
        assert_eq!(manager(root.path()), "lxc31m");
        let named = Container { manager: "lxc".to_owned(), began: None };
        assert_eq!(
            (named.to_string(), Container::default().to_string()),
            ("a container (lxc)".to_owned(), "a container".to_owned())
        );
    }
}
