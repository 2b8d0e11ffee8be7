//! The model of a boot: every reader produces it, and every analysis consumes it.
//!
//! A time or a length is an [`Ns`]: nanoseconds since *time zero*, unless the timeline's [`Unit`] is ticks or a count.
//! In a deterministic boot, a length has instructions and timed waits ([`Cost`]). Raw counter values ([`Ticks`]) become time only through a [`Clock`]. Work is [`Spans`] on
//! [`Tracks`]. [`Running`] is the CPU of a track over time, [`Wait`] what a track waited for. A [`Boundary`] is the
//! start of a phase. Each span is one record, and names are interned: a boot of a million spans is normal.
//!
//! This crate does no I/O and depends on no operating system and no file format. Inconsistent input (an exit without an
//! entry, a clock that steps back) becomes a counted [`Diagnostics`] entry. It never causes a panic, and it is never
//! dropped silently.
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)]

pub mod amount;
mod builder;
mod clock;
mod deferral;
mod diagnostics;
mod end;
mod exits;
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
mod timed_waits;
mod track;
mod warning;
mod watched;

use std::collections::BTreeMap;

pub use builder::SpanBuilder;
pub use clock::{Clock, Delay, SyncPoint};
pub use deferral::Deferral;
pub use diagnostics::{Diagnostic, DiagnosticKind, Diagnostics, Figures, Severity};
pub use end::{End, EndEvidence, ProcessOf};
pub use exits::{ExitKind, ExitPath, ExitRow, ExitRun, Exits};
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
pub use timed_waits::{Cost, TimedWaits};
pub use track::{Hold, InterruptKind, Occupancy, OffCpu, Running, Track, TrackId, TrackKind, Tracks, Wait, WaitedOn};
pub use warning::{FileLoss, LastSign, LogEnd, ManifestFault, ProcessNamed, Warning};
pub use watched::{Reading, Watched};

/// The origin of a timeline's times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeBase {
    /// The moment the host started the virtual machine monitor.
    Host,
    /// The reset vector, in guest-virtual time (deterministic boots: one instruction, one nanosecond).
    GuestVirtual,
    /// The first event of evidence that was recorded elsewhere.
    #[default]
    Evidence,
}

impl TimeBase {
    /// The unit of a timeline's times, unless a clock of unknown rate stamped them. A deterministic boot's times are
    /// instructions only if its waits are known.
    pub fn unit(self) -> Unit {
        match self {
            TimeBase::GuestVirtual => Unit::GuestTime,
            TimeBase::Host | TimeBase::Evidence => Unit::Nanoseconds,
        }
    }
}

/// Converts an index in a list to the 32-bit number of its entry. A growing list checks the limit itself. A list read
/// from a file has no more entries than the file has bytes, at most 1 GiB.
#[expect(clippy::cast_possible_truncation, reason = "the list checked it when it grew, or its file is shorter")]
#[inline]
pub const fn number(place: usize) -> u32 {
    place as u32
}

/// The union of these stretches, as disjoint stretches in order. `O(n log n)`.
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
    pub at: Ns,
    /// The event, such as the line's text.
    pub name: NameId,
    /// The line of execution.
    pub track: TrackId,
}

/// A message of unknown time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unplaced {
    /// Its text.
    pub name: NameId,
    /// The time of the next message of its log that has one; `None` at the log's end.
    pub before: Option<Ns>,
}

/// The name of a track of [`TrackKind::Interrupts`].
pub const INTERRUPTS: &str = "interrupts";

/// The detail of a call through a function pointer: [`NameId::INDIRECT`].
pub const INDIRECT: &str = "(indirect call)";

/// The name shown for all names beyond a bound: [`NameId::OTHERS`].
pub const OTHERS: &str = "(others)";

/// The beginning of the name of a decompressor's span; the rest is what it unpacks.
pub const DECOMPRESS: &str = "decompress the kernel";
/// The name of a kernel's own UEFI program.
pub const EFI_STUB: &str = "EFI stub";

/// The start of a phase of the boot, as one piece of evidence shows it.
///
/// Several readers may report the same phase; the analysis takes the one with the smallest error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Boundary {
    /// The phase that begins here.
    pub phase: Phase,
    pub at: Ns,
    /// The largest error of `at`.
    pub error: Ns,
    /// The evidence for it, in words.
    pub evidence: NameId,
}

/// The unit that [`Ns`] counts on a timeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    #[default]
    Nanoseconds,
    /// Ticks of a counter of unknown rate.
    Ticks,
    /// Nanoseconds of the guest's clock in a deterministic boot: instructions and timed waits, which nothing tells apart.
    GuestTime,
    /// Nanoseconds of the same clock. The timed waits are known ([`Timeline::timed_waits`]); the rest is instructions,
    /// each of which takes one nanosecond.
    Instructions,
    /// Nanoseconds of a deterministic boot on the machine of a model.
    Priced,
    /// Occurrences of something.
    Count,
}

impl Unit {
    /// Formats a length for people: three significant digits and a unit (`9.77 ms`, `1.24 Mticks`).
    pub fn show(self, length: Ns) -> String {
        let mut text = String::with_capacity(16);
        self.show_in(length, &mut text);
        text
    }

    /// Formats a length in its parts: `1.53 G instr + 340 ms timed waits`.
    pub fn show_cost(self, cost: Cost) -> String {
        match self {
            Unit::Instructions if cost.waited == Ns::ZERO => self.show(cost.length),
            Unit::Instructions if cost.waited == cost.length => format!("{} timed waits", cost.waited),
            Unit::Instructions => format!("{} + {} timed waits", self.show(cost.instructions()), cost.waited),
            _ => self.show(cost.length),
        }
    }

    /// The unit of instants, and of lengths whose timed waits are not told apart: guest time in place of instructions.
    pub fn with_waits(self) -> Unit {
        if self == Unit::Instructions { Unit::GuestTime } else { self }
    }

    /// Formats an instant. In a deterministic boot this is the time on the guest's clock.
    pub fn show_at(self, at: Ns) -> String {
        self.with_waits().show(at)
    }

    /// Appends a length to a text. In instructions, it has no timed waits.
    pub fn show_in(self, length: Ns, text: &mut String) {
        let units = match self {
            Unit::Nanoseconds | Unit::GuestTime | Unit::Priced => time::NANOSECONDS,
            Unit::Ticks => ["ticks", "kticks", "Mticks", "Gticks"],
            Unit::Instructions => ["instr", "k instr", "M instr", "G instr"],
            Unit::Count => ["", "k", "M", "G"],
        };
        time::three_digits(length.0, units, text);
    }

    /// Its name in JSON and CSV.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Nanoseconds => "ns",
            Unit::Ticks => "ticks",
            Unit::GuestTime => "guest-time",
            Unit::Instructions => "instructions",
            Unit::Priced => "priced",
            Unit::Count => "count",
        }
    }

    /// The unit of that name in a document; nanoseconds if the name is unknown.
    pub fn named(name: &str) -> Unit {
        let all = [Unit::Ticks, Unit::GuestTime, Unit::Instructions, Unit::Priced, Unit::Count];
        all.into_iter().find(|unit| unit.name() == name).unwrap_or_default()
    }
}

/// A user process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Process {
    pub pid: u64,
    /// Its parent's `pid`.
    pub parent: u64,
    /// The number of its known ancestors.
    pub depth: u32,
    /// The program that it ran, or its best known name.
    pub name: NameId,
    /// The time of its fork.
    pub start: Ns,
    /// The time of its exit; `None` if it was alive when the evidence was taken.
    pub end: Option<Ns>,
}

/// A unit that a service manager starts: a service, a mount, a socket, a target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceUnit {
    pub name: NameId,
    /// The beginning of its start; `None` for a unit that is there at once, such as a target.
    pub start: Option<Ns>,
    /// The time at which it became active or failed; `None` if it was still starting when the evidence was taken.
    pub settled: Option<Ns>,
    pub failed: bool,
    /// Units that settle before it starts, if they start at all. Empty where the evidence does not list them.
    pub after: Vec<NameId>,
    /// Units that it needs. This alone implies no order.
    pub requires: Vec<NameId>,
    /// Units that are started with it but that it does not need.
    pub wants: Vec<NameId>,
    /// The `pid` of a service's main process.
    pub main_pid: Option<u64>,
    /// The control group of its processes, as a path from the root of control groups; empty where it is unknown.
    pub control_group: NameId,
}

/// A program that starts units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Manager {
    #[default]
    Systemd,
    /// sysvinit, or another program that runs scripts of `/etc/init.d`.
    SysvInit,
    OpenRc,
    Runit,
    S6,
    Daemontools,
    /// Android's init.
    Android,
}

/// One boot, as far as the evidence shows it.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// All strings, each stored once.
    pub names: Names,
    pub time_base: TimeBase,
    /// The clocks that stamped the evidence.
    pub clocks: Vec<Clock>,
    pub tracks: Tracks,
    /// Work, as nested intervals.
    pub spans: Spans,
    /// Instants.
    pub marks: Vec<Mark>,
    /// The kernel's messages about probes that it put off, in order of time.
    pub deferrals: Vec<Deferral>,
    /// Messages of unknown time, in the order of their log.
    pub unplaced: Vec<Unplaced>,
    /// Stretches in which a track did not run.
    pub waits: Vec<Wait>,
    /// The sources of the interrupts that ended waits, by the interrupt's name. If a name is missing, only the name is
    /// known.
    pub interrupt_kinds: BTreeMap<NameId, InterruptKind>,
    /// Tracks that held what others waited for.
    pub holds: Vec<Hold>,
    /// The CPU that ran each track.
    pub running: Vec<Running>,
    /// The thread on each CPU, by a kernel's own log.
    pub occupancy: Occupancy,
    /// The number of CPUs of the machine; 0 if it is unknown.
    pub cpu_count: u32,
    /// Until this time, `running` shows what each CPU ran, but nothing shows which thread woke which. The boot path
    /// then follows the CPU and not the wake-ups. `None`: it never follows the CPU.
    pub cpus_followed_until: Option<Ns>,
    /// The end of the evidence of running and waiting threads, if it is before the end mark. It is unknown what the
    /// boot waited for after this. `None`: the evidence reaches to the end mark.
    pub threads_seen_until: Option<Ns>,
    /// Every call until the end mark. Its weights are nanoseconds. The bottom of each path has the name of the track
    /// that it ran on. Empty where calls were not followed.
    pub profile: Profile,
    /// The name of the steps of the kernel's decompressor: [`DECOMPRESS`], and what it unpacks. `None` where no
    /// evidence names them.
    pub decompressor: Option<NameId>,
    /// Samples of its CPUs; `None` if there are no samples.
    pub sampled: Option<Sampled>,
    /// The places of its CPUs while its console was silent; `None` if they were not recorded.
    pub silences: Option<Silences>,
    /// The values of a guest variable at the entries of functions; `None` if the user requested none.
    pub watched: Option<Watched>,
    /// The accesses that leave the guest; `None` if they were not counted.
    pub exits: Option<Exits>,
    /// The guest's waits for its clock; `None` if the evidence does not show them.
    pub timed_waits: Option<TimedWaits>,
    /// The starts of phases.
    pub boundaries: Vec<Boundary>,
    pub end: Option<End>,
    /// Milestones that no other part of the timeline shows: see [`Timeline::milestones`].
    pub passed: Vec<Milestone>,
    /// User processes: each after its parent, siblings by `pid`.
    pub processes: Vec<Process>,
    /// Units of its service manager, in the order of their first appearance.
    pub units: Vec<ServiceUnit>,
    /// The managers that started the units of these names; systemd started the others.
    pub unit_managers: BTreeMap<NameId, Manager>,
    /// The unit of its times.
    pub unit: Unit,
    /// The operating system, as the evidence shows it.
    pub os: Os,
    /// Facts that every view shows first, such as that the evidence ends too early, or that times are ticks.
    pub warnings: Vec<Warning>,
    pub diagnostics: Diagnostics,
}

impl Timeline {
    /// An empty timeline with its zero at `time_base`.
    pub fn new(time_base: TimeBase) -> Self {
        Timeline { time_base, unit: time_base.unit(), ..Timeline::default() }
    }

    /// Adds the start of a phase.
    pub fn boundary(&mut self, phase: Phase, at: Ns, error: Ns, evidence: &str) {
        let evidence = self.names.intern(evidence);
        self.boundaries.push(Boundary { phase, at, error, evidence });
    }

    /// A stretch of a recorded boot in its parts.
    pub fn cost(&self, from: Ns, to: Ns) -> Cost {
        let waited = self.timed_waits.as_ref().map_or(Ns::ZERO, |waits| waits.within(from, to));
        Cost { length: to - from, waited }
    }

    /// A stretch of a track in its parts.
    pub fn cost_on(&self, track: TrackId, from: Ns, to: Ns) -> Cost {
        let waited = self.timed_waits.as_ref().map_or(Ns::ZERO, |waits| waits.within_on(track, from, to));
        Cost { length: to - from, waited }
    }

    /// The source of the interrupt of that name.
    pub fn interrupt_kind(&self, name: NameId) -> InterruptKind {
        self.interrupt_kinds.get(&name).copied().unwrap_or_default()
    }

    /// Completes the timeline. Spans with a name beyond [`SPAN_NAMES_MAX`] get a common one. Waits, running stretches
    /// and occupancy are sorted by track and time, holds by topic and time, marks by time. All spans are nested (see
    /// [`Spans::nest`], also for `tolerance`). Call it once, after all evidence is in. `O(n log n)`.
    pub fn finalize(&mut self, tolerance: Ns) {
        if self.unit == Unit::GuestTime && self.timed_waits.is_some() {
            self.unit = Unit::Instructions;
        }
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
        assert_eq!(Unit::Instructions.show(Ns(877_000_000)), "877 M instr");
        assert_eq!(Unit::Instructions.show(Ns(12)), "12 instr");
        let cost = |length, waited| Cost { length: Ns(length), waited: Ns(waited) };
        let show_cost = |unit: Unit, length, waited| unit.show_cost(cost(length, waited));
        assert_eq!(show_cost(Unit::Instructions, 1_870_000_000, 340_000_000), "1.53 G instr + 340 ms timed waits");
        assert_eq!(show_cost(Unit::Instructions, 7, 0), "7 instr");
        assert_eq!(show_cost(Unit::Instructions, 150_000_000, 150_000_000), "150 ms timed waits");
        assert_eq!(show_cost(Unit::GuestTime, 1_870_000_000, 0), "1.87 s");
        assert_eq!(Unit::Instructions.show_at(Ns(1_870_000_000)), "1.87 s");
        assert_eq!(show(999), "999 ticks");
        assert_eq!(show(1_234), "1.23 kticks");
        assert_eq!(show(999_499), "999 kticks");
        assert_eq!(show(999_500), "1.00 Mticks");
        assert_eq!(show(-76_540_000), "-76.5 Mticks");
        assert_eq!(show(14_119_002_000), "14.1 Gticks");
        assert_eq!(Unit::Nanoseconds.show(Ns(1_500)), "1.50 µs");
    }
}
