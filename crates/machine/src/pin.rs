//! Restricts the host's CPUs that a machine may run on.
//!
//! Linux gives a new thread or process the CPUs of the thread that starts it. So bootscope restricts the one thread that starts the VMM and
//! the threads that stamp its output. Lists of CPUs are written as Linux writes them: `0-3,8`.

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::Error;

/// Restricts the calling thread, and everything that it starts from now on, to these CPUs.
///
/// # Errors
/// If the text is no list of CPUs, or the host does not have these CPUs.
pub fn pin(list: &str) -> Result<(), Error> {
    let cpus = parse(list).ok_or_else(|| {
        Error::Unusable(format!("write the host's CPUs as Linux does, 0-3 or 0,2, below {}", CpuSet::MAX_CPU))
    })?;
    let mut set = CpuSet::new();
    cpus.into_iter().for_each(|cpu| set.set(cpu));
    sched_setaffinity(None, &set).map_err(|why| {
        let allowed = allowed();
        Error::Unusable(format!("the system refuses ({why}): this process may run on CPUs {allowed}"))
    })
}

/// The CPUs that the calling thread may run on; empty if unknown.
#[must_use]
pub fn allowed() -> String {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.unwrap_or_default().trim().to_owned()
}

fn parse(list: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= CpuSet::MAX_CPU {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_linux_writes_them() {
        assert_eq!(parse("0-2,5"), Some(vec![0, 1, 2, 5]));
        assert_eq!(parse("3"), Some(vec![3]));
        for wrong in ["", "a", "2-1", "0-", "0-99999999", "-1"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_pinned_thread_says_so_and_no_other_is() {
        let before = allowed();
        let first = parse(&before).unwrap()[0];
        let pinned = std::thread::spawn(move || {
            pin(&first.to_string()).unwrap();
            allowed()
        });
        assert_eq!(pinned.join().unwrap(), first.to_string());
        assert_eq!(allowed(), before);
        assert!(pin("x").unwrap_err().to_string().contains("as Linux does"));
    }
}
