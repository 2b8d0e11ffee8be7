//! The processes of user space that run now, and when each was started.
//!
//! ```text
//! # bootscope.processes/1 100              ticks of the clock in a second; then `container`, if it is one
//! 1    0    0    /init.scope    /usr/lib/systemd/systemd
//! 235    1    10515    /system.slice/ssh.service    /usr/sbin/sshd
//! ```
//! Number, parent, start in ticks since the machine booted, control group, program, with tabs between them (proc(5)). Arguments and
//! environments are not taken: they may have secrets. Whose program cannot be read is called as the kernel calls its first thread.

use crate::bounded::{self, Cut};
use crate::gather::{File, Given};
use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::time::Instant;

/// A kernel's own thread (`PF_KTHREAD`, include/linux/sched.h).
const KERNEL_THREAD: u64 = 0x0020_0000;
const PROCESSES_MAX: usize = 200_000;

pub(crate) fn ask(is_contained: bool, until: Instant) -> Given {
    let mut given = Given::default();
    let folder = match fs::read_dir("/proc") {
        Ok(folder) => folder,
        Err(e) => {
            given.missing("processes", format!("/proc: {e}"));
            return given;
        }
    };
    let pids = folder.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u64>().ok());
    let mut pids: Vec<u64> = pids.take(PROCESSES_MAX).collect();
    pids.sort_unstable();
    let contained = if is_contained { " container" } else { "" };
    let (mut text, mut nameless) =
        (format!("# bootscope.processes/1 {}{contained}\n", rustix::param::clock_ticks_per_second()), 0);
    for (done, pid) in pids.iter().enumerate() {
        if Instant::now() >= until {
            given.missing(
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
        // One that has ended since has no program any more.
        nameless += usize::from(program.as_ref().is_err_and(|e| e.kind() == ErrorKind::PermissionDenied));
        let program = program.map_or(one.name, |path| path.to_string_lossy().into_owned());
        let group = bounded::read(format!("/proc/{pid}/cgroup"), 1 << 16).map(|content| group(&content.bytes));
        let group = group.unwrap_or_default();
        let _ = writeln!(text, "{pid}\t{}\t{}\t{}\t{}", one.parent, one.start, printable(&group), printable(&program));
    }
    if nameless > 0 {
        given.missing(
            "programs of processes",
            format!("{nameless} could not be read; a short name stands for each{}", bounded::as_root()),
        );
    }
    given.put(File::evidence("processes.txt", text.into_bytes(), "/proc/*/stat, cgroup and exe"), Cut::No);
    given
}

fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// What is used of `/proc/PID/stat`.
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

/// The control group that systemd made: of the one hierarchy, or of that by its name.
fn group(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let of = |begin: &str| text.lines().find_map(|line| line.split_once(':')?.1.strip_prefix(begin).map(str::to_owned));
    of("name=systemd:").or_else(|| of(":")).unwrap_or_default()
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
