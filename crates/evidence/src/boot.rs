//! The boot as it is being put together: the timeline, and what one reader says that others build on.
//!
//! It speaks of the boot (its clocks, its first thread, the stages of its machine, the names of its functions) and of no
//! format, so that a reader need not know who said it.

pub(crate) mod arch;
pub(crate) mod clocks;
pub mod followed;
pub(crate) mod linux;
pub(crate) mod lists;
pub(crate) mod offers;
pub(crate) mod ports;
pub(crate) mod printed;
pub mod regions;
pub(crate) mod stage;
pub(crate) mod subject;

use crate::boot::clocks::Clocks;
use crate::boot::lists::Lists;
use crate::boot::printed::Printed;
use crate::boot::regions::Region;
use crate::boot::subject::Subject;
use crate::formats::first_executions::FirstExecutions;
use crate::formats::ftrace::PortEvent;
use crate::formats::kernel_log::KernelLog;
use recording::{Input, InputRole, Manifest};
use std::rc::Rc;
use timeline::{Ns, Os, Phase, Ticks, Timeline, TrackId, TrackKind};

/// A moment, how far off it may be, and what shows it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Moment {
    pub at: Ns,
    pub error: Ns,
    pub evidence: String,
}

/// The machine of a recorded boot, before the kernel runs on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    /// The track of what starts it; a board has none.
    pub monitor: Option<TrackId>,
    /// The track of what runs on it before the kernel.
    pub firmware: TrackId,
    /// When it ran its first instruction.
    pub first_instruction: Option<Ns>,
}

pub(crate) struct Boot<'f> {
    pub manifest: &'f Manifest,
    pub timeline: Timeline,

    // Said while files are read.
    /// What the evidence says of the machine and its system.
    pub subject: Subject,
    /// Names of functions.
    pub lists: Lists<'f>,
    /// When each block of code ran first.
    pub first_executions: Option<Rc<FirstExecutions>>,
    /// The stages of the machine before the kernel, told by the code that ran.
    pub stages: Vec<Region>,
    /// Somebody heard the machine's lines, and knows when the kernel's first one came.
    pub is_heard: bool,
    /// The kernel's messages among them.
    pub heard_messages: Option<(String, KernelLog)>,
    /// The kernel's messages in a journal, and its file.
    pub journal_messages: Option<(String, KernelLog)>,
    /// When the host heard that the virtual CPUs were started.
    pub cpus_started: Option<Moment>,
    /// Process 1 spoke to the host.
    pub process_1_spoke: bool,
    /// The firmware printed something.
    pub firmware_spoke: bool,
    /// It did so on a port of its own.
    pub firmware_has_port: bool,

    // Said while evidence is placed.
    pub clocks: Clocks,
    /// How long after power-on the kernel's clock was 0, if evidence taken elsewhere says so.
    pub kernel_clock_after: Ns,
    /// How far off the time of an event of the scheduler's evidence may be.
    pub trace_error: Ns,
    /// The thread that the kernel starts in; see [`Boot::first_thread`].
    first_thread: Option<TrackId>,
    /// How much later than the kernel log's clock the one that programs read was 0: a kernel that does not know its counter yet
    /// loses time on the first.
    pub monotonic_after: Ns,
    /// In a container: when it began, on the clock that programs read. Its kernel ran long before.
    pub container_began: Option<Ns>,
    /// systemd's own state says of each unit when it started.
    pub units_told: bool,
    /// Only messages of programs show that process 1 runs: it began before the first of them.
    pub is_start_of_process_1_unknown: bool,
    /// Process 1's track.
    pub init: Option<TrackId>,
    /// What became of the guest's sockets, in order of time.
    pub ports: Vec<PortEvent>,
    /// When the kernel first went from one thread to another.
    pub first_switch: Option<Ns>,
    /// When functions ran that print a known message.
    pub printed: Printed,
    /// How far off the first initcall's start may be, by the kernel's log.
    pub initcall_error: Ns,
    /// The first record of a kernel that keeps an event log.
    pub logged_from: Option<Ns>,
    /// Calls say which function ran when.
    pub calls_placed: bool,
    /// Where user space ran, and since when it last did before the end mark, where calls tell.
    pub user_space: Option<(Ns, TrackId)>,
    /// Set where a machine was recorded.
    pub machine: Option<Machine>,
    /// Who ran before the kernel.
    pub before: Option<TrackId>,
    /// When the kernel began, by who heard its first message.
    pub kernel_heard: Option<Ns>,
}

impl<'f> Boot<'f> {
    pub fn new(manifest: &'f Manifest, timeline: Timeline) -> Boot<'f> {
        Boot {
            manifest,
            timeline,
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
            clocks: Clocks::default(),
            kernel_clock_after: Ns::ZERO,
            trace_error: Ns::ZERO,
            first_thread: None,
            monotonic_after: Ns::ZERO,
            container_began: None,
            units_told: false,
            is_start_of_process_1_unknown: false,
            init: None,
            ports: Vec::new(),
            first_switch: None,
            printed: Printed::default(),
            initcall_error: Ns::ZERO,
            logged_from: None,
            calls_placed: false,
            user_space: None,
            machine: None,
            before: None,
            kernel_heard: None,
        }
    }

    /// Whether times are on the host's clock.
    pub fn is_hosted(&self) -> bool {
        self.manifest.time_base == recording::TimeBase::Host
    }

    /// How far off arrivals are where a board was heard; none where a VMM's guest was.
    pub fn board_error(&self) -> Option<Ns> {
        self.manifest.arrival_error_ns.filter(|_| self.is_hosted()).map(Ns)
    }

    /// How far off arrivals are.
    pub fn arrival_error(&self) -> Ns {
        self.board_error().unwrap_or(Ns::from_ms(1))
    }

    /// Whether the evidence was taken elsewhere.
    pub fn is_imported(&self) -> bool {
        self.manifest.time_base == recording::TimeBase::Evidence
    }

    /// When the kernel's clock was 0; time zero where nothing is stamped with it.
    pub fn kernel_clock_zero(&self) -> Ns {
        self.clocks.printk.as_ref().map_or(Ns::ZERO, |clock| clock.to_ns(Ticks(0)))
    }

    /// When the clock was 0 that programs read (`CLOCK_MONOTONIC`). A container's boot counts from when the container began.
    pub fn monotonic_zero(&self) -> Ns {
        match self.container_began {
            Some(began) => Ns::ZERO - began,
            None => self.kernel_clock_zero() + self.monotonic_after,
        }
    }

    /// Whether it is a deterministic boot's, of which the host's clock says nothing.
    pub fn is_virtual(&self) -> bool {
        self.manifest.time_base == recording::TimeBase::GuestVirtual
    }

    /// What the kernel that unpacked itself was compressed with; empty where that is not known.
    pub fn compression(&self) -> String {
        let kernel = |input: &&Input| InputRole::Kernel.is(&input.role);
        self.manifest.inputs.iter().filter(kernel).map(|input| input.compression.as_str()).collect()
    }

    /// The thread that the kernel starts in: process id 0, before it becomes the idle loop.
    pub fn first_thread(&mut self) -> TrackId {
        if let Some(known) = self.first_thread {
            return known;
        }
        let tracks = &self.timeline.tracks;
        let creator = self.init.and_then(|init| tracks.get(init).created);
        let known = creator.map(|(_, by)| by).or_else(|| {
            tracks.iter().find(|(_, t)| t.kind == TrackKind::Thread && t.id == 0 && !t.idle).map(|(id, _)| id)
        });
        let first = known.unwrap_or_else(|| {
            let is_other = self.subject.os.is_known() && self.subject.os != Os::Linux;
            let name = self.timeline.names.intern(if is_other { "kernel" } else { "swapper/0" });
            self.timeline.tracks.add(name, TrackKind::Thread, 0)
        });
        *self.first_thread.insert(first)
    }

    /// Process 1's track; the first thread's where nothing tells them apart.
    pub fn init(&mut self) -> TrackId {
        let first = self.first_thread();
        self.init.unwrap_or(first)
    }

    /// Whether nothing but calls says what ran when.
    pub fn is_by_calls_alone(&self) -> bool {
        self.timeline.cpus_followed_until == Some(Ns::MAX)
    }

    /// When a phase begins, by the first evidence that has it.
    pub fn start_of(&self, phase: Phase) -> Option<Ns> {
        self.timeline.boundaries.iter().find(|b| b.phase == phase).map(|b| b.at)
    }
}
