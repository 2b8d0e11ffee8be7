//! Waits for a process of the guest by name: polls the guest's list of processes while the guest runs.

use recording::{End, EndMark};

use crate::memory::{PhysicalMemory, TaskList, Tasks};

/// Pause between two looks at the list.
const LOOK_NS: i64 = 5_000_000;
/// Pause between two searches of memory, while the kernel's address is not known.
const FIND_PAUSE_NS: i64 = 500_000_000;

/// The wait for a process.
#[derive(Debug)]
pub(super) struct ProcessWatch {
    name: String,
    list: TaskList,
    tasks: Option<Tasks>,
    next_ns: i64,
    /// The start of the last look that did not find the process.
    absent_ns: i64,
}

impl ProcessWatch {
    pub(super) fn new(name: &str, list: TaskList) -> ProcessWatch {
        ProcessWatch { name: name.to_owned(), list, tasks: None, next_ns: 0, absent_ns: 0 }
    }

    /// The time at which the next look is due.
    pub(super) fn next_ns(&self) -> i64 {
        self.next_ns
    }

    /// Looks for the process, if that is due. `now` returns the present time.
    pub(super) fn look(&mut self, ram: &dyn PhysicalMemory, now: &dyn Fn() -> i64) -> Option<End> {
        let began_ns = now();
        if began_ns < self.next_ns {
            return None;
        }
        self.tasks = self.tasks.take().or_else(|| self.list.find(ram));
        let is_running = self.tasks.as_ref().is_some_and(|tasks| tasks.has(ram, &self.name).unwrap_or(false));
        let at_ns = now();
        self.next_ns = at_ns + if self.tasks.is_some() { LOOK_NS } else { FIND_PAUSE_NS };
        if !is_running {
            self.absent_ns = began_ns;
            return None;
        }
        let error_ns = Some(at_ns - self.absent_ns);
        Some(End { mark: Some(EndMark::Process), what: self.name.clone(), at_ns, error_ns, printk_ns: None })
    }
}
