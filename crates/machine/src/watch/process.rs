//! A process of the guest's that is waited for by name: its list of processes is looked at while the guest runs.

use recording::{End, EndMark};

use crate::memory::{PhysicalMemory, TaskList, Tasks};

/// How soon the list is looked at again.
const LOOK_NS: i64 = 5_000_000;
/// How soon memory is searched again for a kernel that has not said where it runs.
const FIND_NS: i64 = 500_000_000;

/// The wait.
#[derive(Debug)]
pub(super) struct ProcessWatch {
    name: String,
    list: TaskList,
    tasks: Option<Tasks>,
    next_ns: i64,
    /// When the last look began that did not find it.
    absent_ns: i64,
}

impl ProcessWatch {
    /// For a process of this name.
    pub(super) fn new(name: &str, list: TaskList) -> ProcessWatch {
        ProcessWatch { name: name.to_owned(), list, tasks: None, next_ns: 0, absent_ns: 0 }
    }

    /// When the next look is due.
    pub(super) fn next_ns(&self) -> i64 {
        self.next_ns
    }

    /// Looks, if that is due. `now` says what time it is.
    pub(super) fn look(&mut self, ram: &dyn PhysicalMemory, now: &dyn Fn() -> i64) -> Option<End> {
        let began_ns = now();
        if began_ns < self.next_ns {
            return None;
        }
        self.tasks = self.tasks.take().or_else(|| self.list.find(ram));
        let found = self.tasks.as_ref().is_some_and(|tasks| tasks.has(ram, &self.name).unwrap_or(false));
        let at_ns = now();
        self.next_ns = at_ns + if self.tasks.is_some() { LOOK_NS } else { FIND_NS };
        if !found {
            self.absent_ns = began_ns;
            return None;
        }
        let error_ns = Some(at_ns - self.absent_ns);
        Some(End { mark: Some(EndMark::Process), what: self.name.clone(), at_ns, error_ns, printk_ns: None })
    }
}
