//! The current processes of user space, with their start times.
//!
//! ```text
//! # bootscope.processes/1 100              clock ticks per second; then `container` if it is a container
//! 1    0    0    /init.scope    /usr/lib/systemd/systemd
//! 235    1    10515    /system.slice/ssh.service    /usr/sbin/sshd
//! ```
//! The columns are number, parent, start in ticks since the machine booted, control group, and program, separated by
//! tabs (proc(5)). Arguments and environments are not collected: they may have secrets. If a program cannot be read,
//! the kernel's name for its first thread replaces it.

use crate::bounded::{self, Cut};
use crate::gather::{Collected, File};
use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::time::Instant;

/// The flag of a kernel's own thread (`PF_KTHREAD`, include/linux/sched.h).
const KERNEL_THREAD: u64 = 0x0020_0000;
const MAX_PROCESSES: usize = 200_000;

pub(crate) fn collect(is_contained: bool, until: Instant) -> Collected {
    let mut collected = Collected::default();
    let folder = match fs::read_dir("/proc") {
        Ok(folder) => folder,
        Err(e) => {
            collected.missing("processes", format!("/proc: {e}"));
            return collected;
        }
    };
    let pids = folder.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u64>().ok());
    let mut pids: Vec<u64> = pids.take(MAX_PROCESSES).collect();
    pids.sort_unstable();
    let contained = if is_contained { " container" } else { "" };
    let (mut text, mut nameless) =
        (format!("# bootscope.processes/1 {}{contained}\n", rustix::param::clock_ticks_per_second()), 0);
    for (done, pid) in pids.iter().enumerate() {
        if Instant::now() >= until {
            collected.missing(
                "processes",
                format!("{} of {} were not asked for want of time", pids.len() - done, pids.len()),
            );
            break;
        }
        let Some(one) = bounded::read(format!("/proc/{pid}/stat"), 4096).ok().and_then(|stat| Stat::parse(&stat.bytes))
        else {
            continue;
        };
        if one.flags & KERNEL_THREAD != 0 {
            continue;
        }
        let program = fs::read_link(format!("/proc/{pid}/exe"));
        // A process that has ended in the meantime has no program any more.
        nameless += usize::from(program.as_ref().is_err_and(|e| e.kind() == ErrorKind::PermissionDenied));
        let program = program.map_or(one.name, |path| path.to_string_lossy().into_owned());
        let group = bounded::read(format!("/proc/{pid}/cgroup"), 1 << 16).map(|content| group(&content.bytes));
        let group = group.unwrap_or_default();
        let _ = writeln!(text, "{pid}\t{}\t{}\t{}\t{}", one.parent, one.start, printable(&group), printable(&program));
    }
    if nameless > 0 {
        collected.missing(
            "programs of processes",
            format!("{nameless} could not be read; a short name stands for each{}", bounded::root_hint()),
        );
    }
    collected.put(File::evidence("processes.txt", text.into_bytes(), "/proc/*/stat, cgroup and exe"), Cut::No);
    collected
}

fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// The used fields of `/proc/PID/stat`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stat {
    name: String,
    parent: u64,
    flags: u64,
    pub(super) start: u64,
}

impl Stat {
    /// `235 (sshd) S 1 235 235 0 -1 4194560 … 10515 …`: a name may have spaces and brackets.
    pub(super) fn parse(bytes: &[u8]) -> Option<Stat> {
        let text = String::from_utf8_lossy(bytes);
        let (open, close) = (text.find('(')?, text.rfind(')')?);
        let name = text.get(open + 1..close)?.to_owned();
        let fields: Vec<&str> = text.get(close + 1..)?.split_ascii_whitespace().collect();
        let number = |place: usize| fields.get(place)?.parse::<u64>().ok();
        Some(Stat { name, parent: number(1)?, flags: number(6)?, start: number(19)? })
    }
}

/// The control group that systemd made: in the unified hierarchy, or in the one with systemd's name.
fn group(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let with_prefix =
        |begin: &str| text.lines().find_map(|line| line.split_once(':')?.1.strip_prefix(begin).map(str::to_owned));
    with_prefix("name=systemd:").or_else(|| with_prefix(":")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_spaces_and_brackets() {
        let stat = b"42 (a) b (c) S 7 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 10515 99 1\n";
        let name = "a) b (c".to_owned();
        assert_eq!(Stat::parse(stat), Some(Stat { name, parent: 7, flags: 4_194_560, start: 10_515 }));
        assert_eq!(Stat::parse(b"42 (a"), None);
        assert_eq!(Stat::parse(b""), None);
    }

    #[test]
    fn control_groups_of_both_kinds() {
        assert_eq!(group(b"0::/system.slice/ssh.service\n"), "/system.slice/ssh.service");
        assert_eq!(group(b"12:cpu:/\n1:name=systemd:/init.scope\n0::/\n"), "/init.scope");
        assert_eq!(group(b"nonsense"), "");
    }
}
