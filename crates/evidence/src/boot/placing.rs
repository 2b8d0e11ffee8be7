//! A boot whose evidence is being placed: its timeline, and what one piece of evidence leaves for the next.

use super::found::Found;
use crate::boot::clocks::Clocks;
use crate::boot::printed::Printed;
use crate::formats::ftrace::PortEvent;
use std::ops::Deref;
use timeline::{Ns, Os, Phase, SpanKind, Ticks, Timeline, TrackId, TrackKind};

/// The machine of a recorded boot, before the kernel runs on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    /// The track of the program that starts it; `None` for a board.
    pub monitor: Option<TrackId>,
    /// The track of what runs on it before the kernel.
    pub firmware: TrackId,
    /// The time of its first instruction.
    pub first_instruction: Option<Ns>,
}

/// A boot whose files are read, and whose evidence is being placed.
pub(crate) struct Placing<'f> {
    /// The facts, for code that borrows `timeline` at the same time.
    pub found: &'f Found<'f>,
    pub timeline: Timeline,
    pub clocks: Clocks,
    /// The time from power-on to the zero of the kernel's clock, if evidence taken elsewhere has it.
    pub kernel_clock_after: Ns,
    /// The instant at which several messages stand because the kernel's clock did not run yet. They are in order, but the time that
    /// each took is unknown.
    pub clock_stood_at: Option<Ns>,
    /// The resolution of the kernel's stamps.
    pub stamp_resolution: Ns,
    /// The largest error of the stamps that a logger or journald put before imported lines.
    pub logger_error: Ns,
    /// The last line of the boot in an imported log that goes on much later.
    pub booted_at: Option<Ns>,
    /// The error of an event's time in the scheduler's evidence.
    pub trace_error: Ns,
    /// The thread that the kernel starts in; see [`Placing::first_thread`].
    first_thread: Option<TrackId>,
    /// The delay from the zero of the kernel log's clock to the zero of the clock that programs read: a kernel that does not know its
    /// counter yet loses time on the first.
    pub monotonic_after: Ns,
    /// systemd's own state says of each unit when it started.
    pub units_told: bool,
    /// Only messages of programs show that process 1 runs: it began before the first of them.
    pub is_start_of_process_1_unknown: bool,
    /// Process 1's track.
    pub init: Option<TrackId>,
    /// The changes of the guest's sockets, in order of time.
    pub ports: Vec<PortEvent>,
    /// The kernel's first switch from one thread to another.
    pub first_switch: Option<Ns>,
    /// The times at which functions ran that print a known message.
    pub printed: Printed,
    /// The levels of initcalls are the kernel log's, not a trace's.
    pub are_levels_logged: bool,
    /// The error of the first initcall's start in the kernel's log.
    pub initcall_error: Ns,
    /// The first record of a kernel that keeps an event log.
    pub logged_from: Option<Ns>,
    /// Calls say which function ran when.
    pub calls_placed: bool,
    /// The last stretch of user space before the end mark: its start and track, if calls were followed.
    pub user_space: Option<(Ns, TrackId)>,
    /// Set where a machine was recorded.
    pub machine: Option<Machine>,
    /// The track that ran before the kernel.
    pub before: Option<TrackId>,
    /// The kernel's start, by the arrival of its first message.
    pub kernel_heard: Option<Ns>,
}

impl<'f> Deref for Placing<'f> {
    type Target = Found<'f>;

    /// The facts. No pass can change them.
    fn deref(&self) -> &Found<'f> {
        self.found
    }
}

impl<'f> Placing<'f> {
    /// Nothing is placed yet.
    pub(crate) fn new(found: &'f Found<'f>, timeline: Timeline) -> Placing<'f> {
        Placing {
            found,
            timeline,
            clocks: Clocks::default(),
            kernel_clock_after: Ns::ZERO,
            clock_stood_at: None,
            stamp_resolution: Ns::ZERO,
            logger_error: Ns::ZERO,
            booted_at: None,
            trace_error: Ns::ZERO,
            first_thread: None,
            monotonic_after: Ns::ZERO,
            units_told: false,
            is_start_of_process_1_unknown: false,
            init: None,
            ports: Vec::new(),
            first_switch: None,
            printed: Printed::default(),
            are_levels_logged: false,
            initcall_error: Ns::ZERO,
            logged_from: None,
            calls_placed: false,
            user_space: None,
            machine: None,
            before: None,
            kernel_heard: None,
        }
    }

    /// The error of arrival times, and of a logger's stamps.
    pub(crate) fn arrival_error(&self) -> Ns {
        self.board_error().unwrap_or(Ns::from_ms(1)).max(self.logger_error)
    }

    /// The smallest error of a time that is made of the stamps of imported lines.
    pub(crate) fn line_error(&self) -> Ns {
        self.stamp_resolution.max(self.logger_error)
    }

    /// Gives process 1 a track from then on. Initcalls are process 1's, too: where they are known, so is its track.
    pub(crate) fn process_1_from(&mut self, at: Ns) {
        let has_initcalls = self.timeline.spans.iter().any(|(_, span)| span.kind == SpanKind::Initcall);
        if self.init.is_none() && !has_initcalls {
            let first = self.first_thread();
            let name = self.timeline.names.intern("init");
            let init = self.timeline.tracks.add(name, TrackKind::Thread, 1);
            self.timeline.tracks.get_mut(init).created = Some((at, first));
            self.init = Some(init);
        }
    }

    /// The zero of the kernel's clock; time zero if nothing is stamped with it.
    pub(crate) fn kernel_clock_zero(&self) -> Ns {
        self.clocks.printk.as_ref().map_or(Ns::ZERO, |clock| clock.to_ns(Ticks(0)))
    }

    /// The zero of the clock that programs read (`CLOCK_MONOTONIC`). A container's boot counts from the start of the container.
    pub(crate) fn monotonic_zero(&self) -> Ns {
        match *self.container_began {
            Some(began) => Ns::ZERO - began,
            None => self.kernel_clock_zero() + self.monotonic_after,
        }
    }

    /// The thread that the kernel starts in: process id 0, before it becomes the idle loop.
    pub(crate) fn first_thread(&mut self) -> TrackId {
        if let Some(known) = self.first_thread {
            return known;
        }
        let tracks = &self.timeline.tracks;
        let creator = self.init.and_then(|init| tracks.get(init).created);
        let known = creator.map(|(_, by)| by).or_else(|| {
            tracks.iter().find(|(_, t)| t.kind == TrackKind::Thread && t.id == 0 && !t.idle).map(|(id, _)| id)
        });
        let first = known.unwrap_or_else(|| {
            let is_only_heard = self.is_imported() && self.clocks.printk.is_none() && !self.calls_placed;
            let name = match &self.found.subject.os {
                Os::Unknown if is_only_heard => "unknown",
                Os::Unknown | Os::Linux => "swapper/0",
                _ => "kernel",
            };
            let name = self.timeline.names.intern(name);
            self.timeline.tracks.add(name, TrackKind::Thread, 0)
        });
        *self.first_thread.insert(first)
    }

    /// Process 1's track; the first thread's where nothing tells them apart.
    pub(crate) fn init(&mut self) -> TrackId {
        let first = self.first_thread();
        self.init.unwrap_or(first)
    }

    /// True if only calls show which function ran at a time.
    pub(crate) fn is_by_calls_alone(&self) -> bool {
        self.timeline.cpus_followed_until == Some(Ns::MAX)
    }

    /// The start of a phase, by the first evidence that has it.
    pub(crate) fn start_of(&self, phase: Phase) -> Option<Ns> {
        self.timeline.boundaries.iter().find(|b| b.phase == phase).map(|b| b.at)
    }
}
