//! The model of a boot: what every reader produces and every analysis consumes.
//!
//! A time or a length is an [`Ns`]: nanoseconds, the time since *time zero*, unless the timeline's [`Unit`] says ticks,
//! instructions or a count. Raw counter values ([`Ticks`]) become time only through a [`Clock`]. Work is [`Spans`] on [`Tracks`]; who ran where is [`Running`]; who
//! waited for whom is [`Wait`]; where one phase of the boot gives way to the next is [`Boundary`].
//! Each span is one record, and names are interned: a boot of a million spans is normal.
//!
//! This crate does no I/O and knows no operating system and no file format. Input that does not
//! add up (an exit without an entry, a clock that steps back) becomes a counted
//! [`Diagnostics`] entry: never a panic, never silence.
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)]

pub mod amount;
mod builder;
mod clock;
mod diagnostics;
mod end;
mod milestone;
mod milestones;
mod names;
mod nest;
mod os;
mod phase;
mod profile;
mod rate;
mod sampled;
mod silence;
mod span;
mod span_kind;
mod time;
mod track;
mod warning;
mod watched;

use std::collections::BTreeMap;

pub use builder::SpanBuilder;
pub use clock::{Clock, Delay, SyncPoint};
pub use diagnostics::{Diagnostic, DiagnosticKind, Diagnostics, Figures, Severity};
pub use end::{End, EndEvidence, ProcessOf};
pub use milestone::{Milestone, MilestoneKind};
pub use names::{NameId, Names};
pub use os::Os;
pub use phase::{Initcalls, Phase};
pub use profile::{Children, FunctionRow, NodeId, Profile, ProfileNode, Weight};
pub use rate::{RateLine, RateSource};
pub use sampled::{
    Sample, Sampled, SampledEvent, SampledFrame, SampledFunction, SampledOn, SampledPart, SampledThread, SampledTrack,
    SamplingIntervals,
};
pub use silence::{MostlyAt, Silence, Silences, Stop, StoppedCpu, StoppedIn};
pub use span::{SPAN_NAMES_MAX, SpanId, SpanRow, Spans};
pub use span_kind::SpanKind;
pub use time::{Ns, Ticks, point_and_two_digits, rounded, rounded_count, truncated};
pub use track::{Hold, InterruptKind, Occupancy, OffCpu, Running, Track, TrackId, TrackKind, Tracks, Wait, WaitedOn};
pub use warning::{FileLoss, LastSign, LogEnd, ManifestFault, ProcessNamed, Warning};
pub use watched::{Reading, Watched};

/// Where the zero of a timeline is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeBase {
    /// The moment the host started the virtual machine monitor.
    Host,
    /// The reset vector, in guest-virtual time (deterministic boots: one instruction, one nanosecond).
    GuestVirtual,
    /// The first event of evidence that was taken elsewhere.
    #[default]
    Evidence,
}

/// Converts a place in a list to the 32-bit number by which its entry is known. A list that grows checks the limit
/// itself. A list that is read from a file has no more entries than the file has bytes, at most 1 GiB.
#[expect(clippy::cast_possible_truncation, reason = "the list checked it when it grew, or its file is shorter")]
#[inline]
pub const fn number(place: usize) -> u32 {
    place as u32
}

/// The time in which at least one of these stretches lasts, as stretches apart from each other, in order. `O(n log n)`.
pub fn merged(mut stretches: Vec<(Ns, Ns)>) -> Vec<(Ns, Ns)> {
    stretches.sort_unstable();
    let mut merged: Vec<(Ns, Ns)> = Vec::new();
    for (from, to) in stretches {
        match merged.last_mut() {
            Some((_, until)) if from <= *until => *until = to.max(*until),
            _ => merged.push((from, to)),
        }
    }
    merged
}

/// An instant with a name, such as a line on the console.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mark {
    /// When.
    pub at: Ns,
    /// What happened.
    pub name: NameId,
    /// On which line of execution.
    pub track: TrackId,
}

/// A message of which nothing says when it was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unplaced {
    /// What it says.
    pub name: NameId,
    /// When the next message of its log was that has a time; none at the log's end.
    pub before: Option<Ns>,
}

/// What a track of [`TrackKind::Interrupts`] is called.
pub const INTERRUPTS: &str = "interrupts";

/// How a row says that its call went through a pointer: [`NameId::INDIRECT`].
pub const INDIRECT: &str = "(indirect call)";

/// What names beyond a bound are shown as: [`NameId::OTHERS`].
pub const OTHERS: &str = "(others)";

/// What the span of a kernel's decompressor is called, before what it unpacks.
pub const DECOMPRESS: &str = "decompress the kernel";
/// What a kernel's own UEFI program is called.
pub const EFI_STUB: &str = "EFI stub";

/// The start of a phase of the boot, as one piece of evidence shows it.
///
/// Several readers may report the same phase; the analysis takes the one with the smallest error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Boundary {
    /// The phase that begins here.
    pub phase: Phase,
    /// When it begins.
    pub at: Ns,
    /// How far off `at` may be.
    pub error: Ns,
    /// What shows it, in words.
    pub evidence: NameId,
}

/// What [`Ns`] counts on a timeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    #[default]
    Nanoseconds,
    /// Ticks of a counter of which nobody knows the rate.
    Ticks,
    /// Instructions of a deterministic boot.
    Instructions,
    /// How often something happened.
    Count,
}

impl Unit {
    /// A length for people: three significant digits and a unit (`9.77 ms`, `1.24 Mticks`).
    pub fn show(self, length: Ns) -> String {
        let mut text = String::with_capacity(16);
        self.show_in(length, &mut text);
        text
    }

    /// The same at the end of a text.
    pub fn show_in(self, length: Ns, text: &mut String) {
        let units = match self {
            Unit::Nanoseconds => time::NANOSECONDS,
            Unit::Ticks => ["ticks", "kticks", "Mticks", "Gticks"],
            Unit::Instructions | Unit::Count => ["", "k", "M", "G"],
        };
        time::three_digits(length.0, units, text);
    }

    /// How a document calls it.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Nanoseconds => "ns",
            Unit::Ticks => "ticks",
            Unit::Instructions => "instructions",
            Unit::Count => "count",
        }
    }
}

/// A user process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Process {
    /// Its number.
    pub pid: u64,
    /// Its parent's number.
    pub parent: u64,
    /// How many known ancestors it has.
    pub depth: u32,
    /// What it ran, or what it is best known by.
    pub name: NameId,
    /// When it was forked.
    pub start: Ns,
    /// When it exited; none if it was alive when the evidence was taken.
    pub end: Option<Ns>,
}

/// What a manager of services starts: a service, a mount, a socket, a target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceUnit {
    /// Its name.
    pub name: NameId,
    /// When its start began; none for what is there at once, as a target is.
    pub start: Option<Ns>,
    /// When it was active, or had failed; none if it was still starting when the evidence was taken.
    pub settled: Option<Ns>,
    /// Whether it failed.
    pub failed: bool,
    /// Units that settle before it starts, if they start at all. Empty where nothing says.
    pub after: Vec<NameId>,
    /// Units that it cannot do without. That alone says nothing of the order.
    pub requires: Vec<NameId>,
    /// Units that are started with it, and that it can do without.
    pub wants: Vec<NameId>,
    /// The number of its main process, of a service that has one.
    pub main_pid: Option<u64>,
    /// The control group of its processes, as a path from the root of control groups; empty where nothing says.
    pub control_group: NameId,
}

/// Who starts units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Manager {
    /// systemd.
    #[default]
    Systemd,
    /// sysvinit, or what else runs scripts of `/etc/init.d`.
    SysvInit,
    /// OpenRC.
    OpenRc,
    /// runit.
    Runit,
    /// s6.
    S6,
    /// daemontools.
    Daemontools,
    /// Android's init.
    Android,
}

/// One boot, or as much of it as the evidence shows.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// All strings, once each.
    pub names: Names,
    /// Where zero is.
    pub time_base: TimeBase,
    /// The clocks that evidence was stamped with.
    pub clocks: Vec<Clock>,
    /// Lines of execution.
    pub tracks: Tracks,
    /// Work, as nested intervals.
    pub spans: Spans,
    /// Instants.
    pub marks: Vec<Mark>,
    /// Messages of which nothing says when they were, in the order of their log.
    pub unplaced: Vec<Unplaced>,
    /// Stretches in which a track did not run.
    pub waits: Vec<Wait>,
    /// What the interrupts are of that ended waits, by their names; of one that is missing, no more than the name is known.
    pub interrupt_kinds: BTreeMap<NameId, InterruptKind>,
    /// Who held what others waited for.
    pub holds: Vec<Hold>,
    /// Which CPU ran which track.
    pub running: Vec<Running>,
    /// Who had which CPU, by a kernel's own log.
    pub occupancy: Occupancy,
    /// How many CPUs the machine has; 0 if nobody says.
    pub cpu_count: u32,
    /// Until this time `running` says what each CPU ran, and nothing says who woke whom. The boot path then follows the CPU
    /// and not the threads that wake each other. None: it never follows the CPU.
    pub cpus_followed_until: Option<Ns>,
    /// When the evidence of who ran and who waited ends, where that is before the end mark: what the boot waited for after it is
    /// not known. None: it reaches to the end mark.
    pub threads_seen_until: Option<Ns>,
    /// Every call until the end mark; its weights are nanoseconds, and the bottom of each path is called as the track that
    /// it ran on. Empty where calls were not followed.
    pub profile: Profile,
    /// What the steps of its kernel's decompressor are called: [`DECOMPRESS`], and what it unpacks. None where no evidence
    /// names them.
    pub decompressor: Option<NameId>,
    /// Samples of its CPUs; none where none were taken.
    pub sampled: Option<Sampled>,
    /// Where its CPUs were while its console was silent; none where nobody looked.
    pub silences: Option<Silences>,
    /// What a variable of the guest was where functions were entered; none where nobody asked.
    pub watched: Option<Watched>,
    /// Where phases begin.
    pub boundaries: Vec<Boundary>,
    /// When the boot was done.
    pub end: Option<End>,
    /// Milestones that no other part of the timeline tells of: see [`Timeline::milestones`].
    pub passed: Vec<Milestone>,
    /// User processes: each after its parent, siblings by number.
    pub processes: Vec<Process>,
    /// Units of its manager of services, in the order in which they were first heard of.
    pub units: Vec<ServiceUnit>,
    /// Who started the units of these names; the others are systemd's.
    pub unit_managers: BTreeMap<NameId, Manager>,
    /// What its times count.
    pub unit: Unit,
    /// The operating system by what the evidence says.
    pub os: Os,
    /// What every view says first: that the evidence ends too early, that times are ticks.
    pub warnings: Vec<Warning>,
    /// What did not add up.
    pub diagnostics: Diagnostics,
}

impl Timeline {
    /// An empty timeline with its zero at `time_base`.
    pub fn new(time_base: TimeBase) -> Self {
        Timeline { time_base, ..Timeline::default() }
    }

    /// Adds the start of a phase.
    pub fn boundary(&mut self, phase: Phase, at: Ns, error: Ns, evidence: &str) {
        let evidence = self.names.intern(evidence);
        self.boundaries.push(Boundary { phase, at, error, evidence });
    }

    /// What the interrupt of that name is of.
    pub fn interrupt_kind(&self, name: NameId) -> InterruptKind {
        self.interrupt_kinds.get(&name).copied().unwrap_or_default()
    }

    /// Gives spans with a name beyond [`SPAN_NAMES_MAX`] a common one. Then sorts waits, running stretches and occupancy by track and time, holds by topic and time, marks by time, and nests all
    /// spans (see [`Spans::nest`], also for `tolerance`). Call once, when all evidence is in. `O(n log n)`.
    pub fn finalize(&mut self, tolerance: Ns) {
        let renamed = self.spans.bound_names() + self.sampled.as_ref().map_or(0, |sampled| sampled.renamed);
        self.diagnostics.note_many(DiagnosticKind::NamesBeyondBound, renamed, String::new);
        self.waits.sort_by_key(|w| (w.track, w.from));
        self.holds.sort_by_key(|h| (h.topic, h.to, h.from));
        self.running.sort_by_key(|r| (r.track, r.from));
        self.occupancy.sort();
        self.marks.sort_by_key(|m| m.at);
        self.spans.nest(tolerance, &mut self.diagnostics);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_not_shown_as_time() {
        let show = |count| Unit::Ticks.show(Ns(count));
        assert_eq!(Unit::Instructions.show(Ns(877_000_000)), "877 M");
        assert_eq!(Unit::Instructions.show(Ns(12)), "12");
        assert_eq!(show(999), "999 ticks");
        assert_eq!(show(1_234), "1.23 kticks");
        assert_eq!(show(999_499), "999 kticks");
        assert_eq!(show(999_500), "1.00 Mticks");
        assert_eq!(show(-76_540_000), "-76.5 Mticks");
        assert_eq!(show(14_119_002_000), "14.1 Gticks");
        assert_eq!(Unit::Nanoseconds.show(Ns(1_500)), "1.50 µs");
    }
}
