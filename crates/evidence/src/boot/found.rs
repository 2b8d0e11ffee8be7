//! The facts that readers find in their files. Readers set them while files are read; from then on they are read-only.

use crate::boot::fact::{Fact, FactKind};
use crate::boot::lists::Lists;
use crate::boot::regions::Region;
use crate::boot::subject::Subject;
use crate::formats::calls::Node;
use crate::formats::exits::Counted;
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
    pub subject: Fact<Subject>,
    /// Names of functions.
    pub lists: Fact<Lists<'f>>,
    /// The time at which each block of code ran first.
    pub first_executions: Fact<Option<Rc<FirstExecutions>>>,
    /// The stages of the machine before the kernel, by the code that ran.
    pub stages: Fact<Vec<Region>>,
    /// True if a reader has arrival times of the machine's lines, and so of the kernel's first one.
    pub is_heard: Fact<bool>,
    /// The kernel's messages among those lines, and their file. The reader of kernel logs takes them.
    pub heard_messages: Fact<Option<(String, KernelLog)>>,
    /// The kernel's messages in a journal, and its file. The reader of kernel logs takes them.
    pub journal_messages: Fact<Option<(String, KernelLog)>>,
    /// The time at which the host heard that the virtual CPUs were started.
    pub cpus_started: Fact<Option<Moment>>,
    /// Process 1 spoke to the host.
    pub process_1_spoke: Fact<bool>,
    /// The firmware printed something.
    pub firmware_spoke: Fact<bool>,
    /// It did so on a port of its own.
    pub firmware_has_port: Fact<bool>,
    /// In a container: when it began, on the clock that programs read. Its kernel ran long before.
    pub container_began: Fact<Option<Ns>>,
    /// The accesses that leave the guest, until they have names.
    pub exits: Fact<Option<Counted>>,
    /// The call paths that these accesses mention.
    pub call_nodes: Fact<Vec<Node>>,
}

impl<'f> Found<'f> {
    /// No fact but the manifest.
    pub(crate) fn new(manifest: &'f Manifest) -> Found<'f> {
        Found {
            manifest,
            subject: Fact::default(),
            lists: Fact::default(),
            first_executions: Fact::default(),
            stages: Fact::default(),
            is_heard: Fact::default(),
            heard_messages: Fact::default(),
            journal_messages: Fact::default(),
            cpus_started: Fact::default(),
            process_1_spoke: Fact::default(),
            firmware_spoke: Fact::default(),
            firmware_has_port: Fact::default(),
            container_began: Fact::default(),
            exits: Fact::default(),
            call_nodes: Fact::default(),
        }
    }

    /// Each fact that was looked at or changed since this was asked before, and true if it was changed.
    pub(crate) fn uses(&mut self) -> Vec<(FactKind, bool)> {
        let uses = [
            (FactKind::Subject, self.subject.forget_use()),
            (FactKind::Lists, self.lists.forget_use()),
            (FactKind::FirstExecutions, self.first_executions.forget_use()),
            (FactKind::FirstExecutions, self.stages.forget_use()),
            (FactKind::HeardMessages, self.is_heard.forget_use()),
            (FactKind::HeardMessages, self.heard_messages.forget_use()),
            (FactKind::JournalMessages, self.journal_messages.forget_use()),
            (FactKind::VcpusStarted, self.cpus_started.forget_use()),
            (FactKind::Process1, self.process_1_spoke.forget_use()),
            (FactKind::Firmware, self.firmware_spoke.forget_use()),
            (FactKind::Firmware, self.firmware_has_port.forget_use()),
            (FactKind::Container, self.container_began.forget_use()),
            (FactKind::Exits, self.exits.forget_use()),
            (FactKind::Exits, self.call_nodes.forget_use()),
        ];
        uses.into_iter()
            .filter(|(_, (read, changed))| *read || *changed)
            .map(|(fact, (_, changed))| (fact, changed))
            .collect()
    }

    /// True if times are on the host's clock.
    pub(crate) fn is_hosted(&self) -> bool {
        self.manifest.time_base == recording::TimeBase::Host
    }

    /// The error of arrival times from a board; `None` for a VMM's guest.
    pub(crate) fn board_error(&self) -> Option<Ns> {
        self.manifest.arrival_error_ns.filter(|_| self.is_hosted()).map(Ns)
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
