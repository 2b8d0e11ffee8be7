//! CPU time that a VMM's threads have used on the host, from `/proc/PID/task`.
//!
//! A vCPU is a thread (or shares one, if the VMM takes turns), and on a busy host it runs only part of the time. The time that it *ran*
//! shows how much it could do. The values come in ticks of 10 ms. A thread that cannot be read is left out.

use std::collections::BTreeMap;
use std::fs;

use rustix::param::clock_ticks_per_second;
use rustix::process::Pid;

/// User and system time of each thread so far, in ns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuTimes(BTreeMap<String, i64>);

impl CpuTimes {
    /// The CPU times of this process now.
    pub(crate) fn of(pid: Pid) -> CpuTimes {
        let threads = fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())).into_iter().flatten().flatten();
        let hz = i64::try_from(clock_ticks_per_second()).unwrap_or(100).max(1);
        let time = |thread: fs::DirEntry| {
            let ticks = ticks(&fs::read_to_string(thread.path().join("stat")).ok()?)?;
            Some((thread.file_name().to_string_lossy().into_owned(), ticks.saturating_mul(1_000_000_000 / hz)))
        };
        CpuTimes(threads.filter_map(time).collect())
    }

    /// CPU time in ns of the thread that used most since `earlier`.
    pub(crate) fn busiest_since(&self, earlier: &CpuTimes) -> i64 {
        let used = self.0.iter().map(|(thread, ns)| ns - earlier.0.get(thread).unwrap_or(&0));
        used.max().unwrap_or(0)
    }

    #[cfg(test)]
    pub(crate) fn of_one_thread(ns: i64) -> CpuTimes {
        CpuTimes(BTreeMap::from([("1".to_owned(), ns)]))
    }
}

/// The sum of fields 14 and 15 (utime and stime) of a `stat` line; field 2, the name, is any text in brackets.
fn ticks(stat: &str) -> Option<i64> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let user: i64 = fields.nth(11)?.parse().ok()?;
    let system: i64 = fields.next()?.parse().ok()?;
    user.checked_add(system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threads_name_may_be_anything() {
        let stat = "58 (CPU 0) R 1 (TCG) R 5945 5945 23708 0 -1 4194304 100 0 0 0 17 25 0 0 20 0 1 0 712339";
        assert_eq!(ticks(stat), Some(42));
        for damaged in ["", "58 (x)", "58 (x) R 1 2", "58 (x) R 1 1 1 0 -1 0 0 0 0 0 a b 0"] {
            assert_eq!(ticks(damaged), None, "{damaged}");
        }
    }

    #[test]
    fn the_busiest_thread_counts_from_when_it_was_looked_at_first() {
        let earlier = CpuTimes(BTreeMap::from([("1".to_owned(), 100), ("2".to_owned(), 5)]));
        let later = CpuTimes(BTreeMap::from([("1".to_owned(), 101), ("2".to_owned(), 12), ("3".to_owned(), 3)]));
        assert_eq!(later.busiest_since(&earlier), 7);
        assert_eq!(CpuTimes::default().busiest_since(&earlier), 0);
    }

    #[test]
    fn work_is_seen() {
        let before = CpuTimes::of(rustix::process::getpid());
        let began = std::time::Instant::now();
        // Far more than a tick, even on a busy host.
        while CpuTimes::of(rustix::process::getpid()).busiest_since(&before) < 50_000_000 {
            assert!(began.elapsed().as_secs() < 60, "nothing was used in a minute of work");
        }
    }
}
