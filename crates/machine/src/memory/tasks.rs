//! The processes of a running Linux guest by name: walks the kernel's list of tasks in guest memory, from the first one.
//!
//! The guest changes the list during the walk. A walk that goes astray ends where nothing can be read, where it returns to its start, or
//! after the maximum number of processes; the next walk sees more.

use std::collections::HashMap;
use std::io;

use super::PhysicalMemory;
use super::btf::Btf;
use super::kernel_log::{Located, located};
use crate::arch::paging::{View, is_kernel};

/// Upper bound for steps of a walk: no machine that boots has more processes, and the walk takes at most some ten milliseconds.
const MAX_STEPS: usize = 1 << 16;
/// A thread's name and its end (include/linux/sched.h: TASK_COMM_LEN).
const NAME_BYTES: usize = 16;

/// Places of the task list and its fields, from the kernel's image.
#[derive(Clone, Debug)]
pub(crate) struct TaskList {
    first: u64,
    tasks: u64,
    name: u64,
}

/// The kernel of a running guest, and its processes.
#[derive(Debug)]
pub(crate) struct Tasks {
    list: TaskList,
    located: Located,
}

impl TaskList {
    /// Takes the places from an image's variables and types.
    pub(super) fn of(btf: &Btf, variables: &HashMap<String, u64>) -> Option<TaskList> {
        let at = |field: &str| btf.field("task_struct", field).map(|field| field.offset as u64);
        Some(TaskList { first: *variables.get("init_task")?, tasks: at("tasks")?, name: at("comm")? })
    }

    /// Searches for the kernel in a guest's memory. `None` before its note says where it runs. Linear in the touched memory.
    pub(crate) fn find(&self, memory: &dyn PhysicalMemory) -> Option<Tasks> {
        Some(Tasks { list: self.clone(), located: located(memory)? })
    }
}

impl Tasks {
    /// True if a process has this name, of which the kernel keeps 15 bytes. Linear in the processes.
    ///
    /// # Errors
    /// If the walk led to an address without memory, because the guest changed the list.
    pub(crate) fn has(&self, memory: &dyn PhysicalMemory, name: &str) -> io::Result<bool> {
        let view = View::new(memory, &self.located.space);
        let wanted = &name.as_bytes()[..name.len().min(NAME_BYTES - 1)];
        let head = self.list.first.wrapping_add(self.located.moved_by).wrapping_add(self.list.tasks);
        let mut at = view.read_u64(head)?;
        for _ in 0..MAX_STEPS {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::paging::{IMAGE_START, Space};
    use crate::memory::image::Image;

    /// Start of the kernel's direct map of memory.
    const DIRECT: u64 = 0xffff_8880_0000_0000;
    const LIST: TaskList = TaskList { first: IMAGE_START + 0x1000, tasks: 0x20, name: 0x40 };
    /// Distance of the running kernel from its linked address.
    const MOVED: u64 = 0x0200_0000;
    /// Addresses of the first task, and of other processes.
    const FIRST: u64 = 0x1000;
    const OTHERS: [u64; 2] = [0x3000, 0x5000];

    fn tasks() -> Tasks {
        let space = Space::Shifted { image: Some(IMAGE_START + MOVED), other: Some(DIRECT) };
        Tasks { list: LIST, located: Located { space, moved_by: MOVED } }
    }

    fn head() -> u64 {
        IMAGE_START + MOVED + FIRST + LIST.tasks
    }

    fn link(task: u64) -> u64 {
        DIRECT + task + LIST.tasks
    }

    /// The idle task, `systemd`, and a process whose name is as long as a name can be.
    fn memory() -> Image {
        let mut image = Image::new(0, 0x8000);
        let [second, third] = OTHERS;
        for (task, name, next) in [
            (FIRST, &b"swapper/0"[..], link(second)),
            (second, b"systemd\0rubbish", link(third)),
            (third, b"systemd-journal", head()),
        ] {
            image.put(task + LIST.name, name);
            image.put_u64(task + LIST.tasks, next);
        }
        image
    }

    #[track_caller]
    fn check(image: &Image, expected: &[(&str, bool)]) {
        for &(name, is_there) in expected {
            assert_eq!(tasks().has(image, name).unwrap(), is_there, "{name}");
        }
    }

    #[test]
    fn processes_by_name() {
        // The idle task heads the list and is no process.
        let names = [("systemd", true), ("sshd", false), ("system", false), ("swapper/0", false), ("", false)];
        check(&memory(), &names);
    }

    #[test]
    fn only_15_bytes_of_a_name_count() {
        check(&memory(), &[("systemd-journald", true), ("systemd-journal", true), ("systemd-journa", false)]);
    }

    #[test]
    fn a_list_that_leads_astray_ends() {
        let [second, third] = OTHERS;
        let leads_to = |next: u64| {
            let mut image = memory();
            image.put_u64(second + LIST.tasks, next);
            image
        };
        // To an address outside the kernel's half, and in a circle that leaves out the start: the tasks before it are found.
        for next in [0, 0x7fff_0000_0000, link(second)] {
            check(&leads_to(next), &[("systemd", true), ("systemd-journal", false)]);
        }
        // To an address without memory: this walk does not show which processes are missing.
        let nowhere = leads_to(link(0x0100_0000));
        check(&nowhere, &[("systemd", true)]);
        assert!(tasks().has(&nowhere, "sshd").is_err());
        // A task that lies across the end of memory has a link and no name.
        let mut cut = memory();
        let last = 0x8000 - LIST.tasks - 8;
        cut.put_u64(third + LIST.tasks, link(last));
        check(&cut, &[("systemd-journal", true)]);
        assert!(tasks().has(&cut, "sshd").is_err());
    }
}
