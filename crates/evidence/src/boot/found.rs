//! What readers find in their files: facts that are set while files are read, and only read from then on.

use crate::boot::lists::Lists;
use crate::boot::regions::Region;
use crate::boot::subject::Subject;
use crate::formats::first_executions::FirstExecutions;
use crate::formats::kernel_log::KernelLog;
use recording::{Input, InputRole, Manifest};
use std::rc::Rc;
use timeline::Ns;

/// A moment, how far off it may be, and what shows it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Moment {
    pub at: Ns,
    pub error: Ns,
    pub evidence: String,
}

/// The facts of a boot that one reader finds and others build on.
pub(crate) struct Found<'f> {
    pub manifest: &'f Manifest,
    /// The machine and its system.
    pub subject: Subject,
    /// Names of functions.
    pub lists: Lists<'f>,
    /// The time at which each block of code ran first.
    pub first_executions: Option<Rc<FirstExecutions>>,
    /// The stages of the machine before the kernel, by the code that ran.
    pub stages: Vec<Region>,
    /// True if a reader has arrival times of the machine's lines, and so of the kernel's first one.
    pub(crate) is_heard: bool,
    /// The kernel's messages among those lines, and their file. The reader of kernel logs takes them.
    pub(crate) heard_messages: Option<(String, KernelLog)>,
    /// The kernel's messages in a journal, and its file. The reader of kernel logs takes them.
    pub(crate) journal_messages: Option<(String, KernelLog)>,
    /// The time at which the host heard that the virtual CPUs were started.
    pub(crate) cpus_started: Option<Moment>,
    /// Process 1 spoke to the host.
    pub(crate) process_1_spoke: bool,
    /// The firmware printed something.
    pub(crate) firmware_spoke: bool,
    /// It did so on a port of its own.
    pub(crate) firmware_has_port: bool,
    /// In a container: when it began, on the clock that programs read. Its kernel ran long before.
    pub(crate) container_began: Option<Ns>,
}

impl<'f> Found<'f> {
    /// No fact but the manifest.
    pub(crate) fn new(manifest: &'f Manifest) -> Found<'f> {
        Found {
            manifest,
            subject: Subject::default(),
            lists: Lists::default(),
            first_executions: None,
            stages: Vec::new(),
            is_heard: false,
            heard_messages: None,
            journal_messages: None,
            cpus_started: None,
            process_1_spoke: false,
            firmware_spoke: false,
            firmware_has_port: false,
            container_began: None,
        }
    }

    /// True if times are on the host's clock.
    pub(crate) fn is_hosted(&self) -> bool {
        self.manifest.time_base == recording::TimeBase::Host
    }

    /// The error of arrival times, where a board was heard; `None` where a VMM's guest was.
    pub(crate) fn board_error(&self) -> Option<Ns> {
        self.manifest.arrival_error_ns.filter(|_| self.is_hosted()).map(Ns)
    }

    /// The error of arrival times.
    pub(crate) fn arrival_error(&self) -> Ns {
        self.board_error().unwrap_or(Ns::from_ms(1))
    }

    /// True if the evidence was taken elsewhere.
    pub(crate) fn is_imported(&self) -> bool {
        self.manifest.time_base == recording::TimeBase::Evidence
    }

    /// True if it is a deterministic boot, about which the host's clock says nothing.
    pub(crate) fn is_virtual(&self) -> bool {
        self.manifest.time_base == recording::TimeBase::GuestVirtual
    }

    /// The compression of a kernel that unpacked itself; empty where that is not known.
    pub(crate) fn compression(&self) -> String {
        let kernel = |input: &&Input| InputRole::Kernel.is(&input.role);
        self.manifest.inputs.iter().filter(kernel).map(|input| input.compression.as_str()).collect()
    }
}
