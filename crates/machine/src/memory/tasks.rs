//! The processes of a Linux guest by name, out of its memory while it runs: its list of tasks, walked from the first one.
//!
//! The guest changes the list meanwhile. A walk that goes astray ends where nothing can be read, where it comes back to its start, or
//! after as many steps as there can be processes; the next one sees more.

use std::collections::HashMap;
use std::io;

use super::PhysicalMemory;
use super::kernel_log::{Located, located};
use super::kernel_trace::Btf;
use crate::arch::paging::{View, is_kernel};

/// No machine that boots has so many processes, and a walk of so many steps is over in some ten milliseconds.
const STEPS_MAX: usize = 1 << 16;
/// A thread's name and its end (include/linux/sched.h: TASK_COMM_LEN).
const NAME_BYTES: usize = 16;

/// Where a kernel's image says that its processes are.
#[derive(Clone, Debug)]
pub(crate) struct TaskList {
    first: u64,
    tasks: u64,
    name: u64,
}

/// The kernel of a guest that runs, and its processes.
#[derive(Debug)]
pub(crate) struct Tasks {
    list: TaskList,
    located: Located,
}

impl TaskList {
    /// By an image's variables and types.
    pub(super) fn of(btf: &Btf, variables: &HashMap<String, u64>) -> Option<TaskList> {
        let at = |field: &str| btf.field("task_struct", field).map(|field| field.offset as u64);
        Some(TaskList { first: *variables.get("init_task")?, tasks: at("tasks")?, name: at("comm")? })
    }

    /// Looks for the kernel in a guest's memory. None before it has said where it runs. Linear in the memory that was touched.
    pub(crate) fn find(&self, memory: &dyn PhysicalMemory) -> Option<Tasks> {
        Some(Tasks { list: self.clone(), located: located(memory)? })
    }
}

impl Tasks {
    /// Whether a process has this name, of which the kernel keeps 15 bytes. Linear in the processes.
    ///
    /// # Errors
    /// If the walk led to what is no memory, because the guest changed the list.
    pub(crate) fn has(&self, memory: &dyn PhysicalMemory, name: &str) -> io::Result<bool> {
        let view = View::new(memory, &self.located.space);
        let wanted = &name.as_bytes()[..name.len().min(NAME_BYTES - 1)];
        let head = self.list.first.wrapping_add(self.located.moved_by).wrapping_add(self.list.tasks);
        let mut at = view.read_u64(head)?;
        for _ in 0..STEPS_MAX {
            if at == head || !is_kernel(at) {
                break;
            }
            let mut found = [0; NAME_BYTES];
            view.read(at.wrapping_sub(self.list.tasks).wrapping_add(self.list.name), &mut found)?;
            if found.split(|&byte| byte == 0).next() == Some(wanted) {
                return Ok(true);
            }
            at = view.read_u64(at)?;
        }
        Ok(false)
    }
}
