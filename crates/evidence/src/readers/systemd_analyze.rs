//! systemd's own account as evidence of a boot: its stages are phases, its units are lines of execution that start each other.
//!
//! A unit's track has one span, from when it was started until it was active. It is begun by what it waited for, where the
//! chain says so, else by systemd. systemd itself waits for the head of the chain.

use crate::boot::offers::Offers;
use crate::boot::{Found, Placing};
use crate::formats::systemd_analyze::{Analysis, Link, NAME, Resolution, Stage, is_line, is_state_line, units};
use crate::formats::systemd_words::MILESTONES;
use crate::input::text::Line;
use crate::input::{File, Input};
use crate::readers::reader::{EndCandidate, EndRank, Evidence, Reader};
use hashbrown::HashMap;
use std::cmp::Reverse;
use std::rc::Rc;
use timeline::{
    DiagnosticKind, Diagnostics, EndEvidence, Mark, NameId, Ns, Os, Phase, SpanKind, SpanRow, Ticks, Timeline, TrackId,
    TrackKind, Wait, WaitedOn,
};

impl Resolution {
    /// The error of the sum of this number of figures, each cut to this unit.
    fn cut(self, figures: usize) -> Ns {
        let one = match self {
            Resolution::Milliseconds => Ns::from_ms(1),
            Resolution::Microseconds => Ns::from_us(1),
            Resolution::TensOfMicroseconds => Ns::from_us(10),
            Resolution::Seconds => Ns::from_ms(1000),
        };
        Ns(one.0.saturating_mul(i64::try_from(figures).unwrap_or(i64::MAX)))
    }
}

/// Units have no process id: theirs is above all of these.
const FIRST_ID: u64 = 1 << 32;
/// At most this number of units that could not be placed are named.
const NAMED: usize = 5;

/// Each file may have a part.
#[derive(Default)]
pub(crate) struct Files {
    files: Vec<Rc<File>>,
}

impl Reader for Files {
    fn kinds(&self) -> &'static [&'static str] {
        &["systemd-analyze output", "systemd units"]
    }

    fn is_line(&self, line: Line<'_>) -> Option<usize> {
        if is_state_line(line.bytes) { Some(1) } else { is_line(line.bytes).then_some(0) }
    }

    fn add(&mut self, _own: Option<usize>, input: Input, _diagnostics: &mut Diagnostics) {
        self.files.push(input.file);
    }

    fn has_boot(&self) -> bool {
        !self.files.is_empty()
    }

    fn read<'f>(&'f mut self, found: &mut Found<'f>, timeline: &mut Timeline) -> Option<Box<dyn Evidence + 'f>> {
        let mut analysis = Analysis::default();
        for file in &self.files {
            analysis.read(&file.name, &file.bytes, &mut timeline.diagnostics);
            analysis.keep_boot(&file.name, found.manifest.boot, &mut timeline.diagnostics);
        }
        if analysis.is_empty() {
            return None;
        }
        // systemd itself may not have noticed.
        let manager = &mut analysis.state.exact.manager;
        manager.is_contained |= found.container_began.is_some();
        if manager.is_contained {
            *found.container_began = manager.userspace.or(*found.container_began);
        }
        if let Some(release) = analysis.plot.release.take().filter(|_| found.subject.kernel.is_empty()) {
            (found.subject.os, found.subject.kernel) = (Os::Linux, release);
        }
        analysis.settle(&mut timeline.diagnostics);
        Some(Box::new(Startup { analysis, origin: Ns::ZERO }))
    }
}

pub(crate) struct Startup {
    pub analysis: Analysis,
    /// The zero of systemd's stamps, on the timeline.
    pub origin: Ns,
}

/// A unit on the timeline.
#[derive(Clone, Copy)]
struct Unit {
    track: TrackId,
    start: Ns,
    end: Ns,
}

impl Evidence for Startup {
    /// Its stamps are the kernel's clock, which is 0 when firmware and loader are done.
    fn offer<'e>(&'e self, offers: &mut Offers<'e>) {
        if self.is_on_the_kernels_clock() {
            offers.kernel_after(self.before_the_kernel());
        }
    }

    fn place(&mut self, boot: &mut Placing<'_>) {
        let clock = boot.clocks.printk.as_ref().filter(|_| self.is_on_the_kernels_clock());
        self.origin = clock.map_or(Ns::ZERO, |clock| clock.to_ns(Ticks(0)));
        if clock.is_some() {
            boot.monotonic_after = units::later(&self.analysis, self.origin, &boot.timeline);
            self.origin += boot.monotonic_after;
        }
        let init = self.systemd(boot);
        let placed = self.units(init, boot);
        self.chain(init, &placed, boot);
        self.work(init, boot);
        units::tell(&self.analysis, self.origin, &mut boot.timeline);
        boot.units_told |= self.analysis.told().is_some();
        self.note_unplaced(&placed, &mut boot.timeline.diagnostics);
        if let Some((unit, after)) = &self.analysis.reached {
            let (at, name) = (self.userspace() + *after, boot.timeline.names.intern(&format!("{unit} reached")));
            boot.timeline.marks.push(Mark { at, name, track: init });
        }
    }

    fn phases(&mut self, boot: &mut Placing<'_>) {
        let Some(finished) = &self.analysis.finished else { return };
        let mut at = self.origin - self.before_the_kernel();
        // The kernel's clock is what all of it is joined by: each stage away from its zero is a millisecond less sure.
        let anchor = finished.stages.iter().position(|(stage, _)| *stage >= Stage::Kernel).unwrap_or(0);
        for (place, (stage, took)) in finished.stages.iter().enumerate() {
            let (phase, word) = match stage {
                Stage::Firmware => (Phase::Firmware, "firmware"),
                Stage::Loader => (Phase::Loader, "loader"),
                Stage::Kernel => (Phase::EarlyKernel, "kernel"),
                Stage::Initrd => (Phase::Initrd, "initrd"),
                Stage::SoftReboot => (Phase::SoftReboot, "soft reboot"),
                Stage::Userspace => (Phase::UserSpace, "userspace"),
            };
            let error = self.analysis.resolution.cut(place.abs_diff(anchor));
            // What comes before systemd is on the clock of the kernel's log.
            let from = if *stage <= Stage::Kernel { at - boot.monotonic_after } else { at };
            boot.timeline.boundary(phase, from, error, &format!("{}: {took} ({word})", self.analysis.says()));
            at += *took;
        }
        self.milestones(boot);
        let sum: Ns = finished.stages.iter().map(|(_, took)| *took).sum();
        let error = self.analysis.resolution.cut(finished.stages.len() + 1);
        if finished.total.is_some_and(|total| (total - sum).abs() > error) {
            boot.timeline.diagnostics.note_about(DiagnosticKind::TermsAreNotTheSum, NAME, String::new);
        }
    }

    /// Firmware and loader, and that the kernel follows them.
    fn around(&mut self, boot: &mut Placing<'_>) {
        let Some(finished) = &self.analysis.finished else { return };
        let mut start = self.origin - boot.monotonic_after - self.before_the_kernel();
        for (stage, took) in finished.stages.iter().filter(|(stage, _)| *stage < Stage::Kernel) {
            let names = &mut boot.timeline.names;
            let track = boot.timeline.tracks.named(names.intern("firmware"), TrackKind::Firmware);
            let name = names.intern(if *stage == Stage::Firmware { "firmware" } else { "loader" });
            let (detail, kind, end) = (NameId::EMPTY, SpanKind::Stage, start + *took);
            boot.timeline.spans.push(SpanRow { name, detail, start, end, track, kind }, None);
            start = end;
            boot.before = boot.before.or(Some(track));
        }
    }

    fn end(&self, boot: &mut Placing<'_>) -> Option<EndCandidate> {
        let analysis = &self.analysis;
        let finished = analysis.finished.as_ref().filter(|finished| finished.has(Stage::Userspace));
        let mut name = |unit: &str| boot.timeline.names.intern(unit);
        let cut = |figures| analysis.resolution.cut(figures);
        let (after, error, evidence) =
            match (finished, &analysis.reached, analysis.chain.iter().find(|link| link.at.is_some())) {
                (Some(finished), ..) => {
                    let took = finished.stages.last().map_or(Ns::ZERO, |(_, took)| *took);
                    (took, cut(finished.stages.len()), EndEvidence::SystemdFinished)
                }
                (None, Some((unit, after)), _) => (*after, cut(1), EndEvidence::SystemdReached(name(unit))),
                (None, None, Some(head)) => (active(head)?, cut(1), EndEvidence::SystemdActive(name(&head.unit))),
                (None, None, None) => return None,
            };
        Some(EndCandidate { rank: EndRank::BootDone, at: self.userspace() + after, error, evidence, track: None })
    }
}

/// The time when a link of the chain was active, since user space began.
fn active(link: &Link) -> Option<Ns> {
    link.at.map(|at| at + link.took.unwrap_or(Ns::ZERO))
}

impl Startup {
    /// A container's manager, a user's, and one after a soft reboot count from their own start.
    fn is_on_the_kernels_clock(&self) -> bool {
        match &self.analysis.finished {
            Some(finished) => finished.has(Stage::Kernel),
            None => !self.analysis.times.is_empty(),
        }
    }

    fn before_the_kernel(&self) -> Ns {
        self.analysis.finished.as_ref().map_or(Ns::ZERO, |finished| finished.before_the_kernel())
    }

    /// The time when user space began; time zero if there is no evidence of the time before it.
    fn userspace(&self) -> Ns {
        self.origin + self.analysis.userspace().unwrap_or(Ns::ZERO)
    }

    /// Process 1's track, which begins with the initrd's systemd where there is one.
    fn systemd(&self, boot: &mut Placing<'_>) -> TrackId {
        let first = boot.first_thread();
        let known = boot.init.filter(|init| *init != first);
        let timeline = &mut boot.timeline;
        let init = known.or_else(|| timeline.tracks.find(TrackKind::Thread, 1)).unwrap_or_else(|| {
            let name = timeline.names.intern("systemd");
            timeline.tracks.add(name, TrackKind::Thread, 1)
        });
        let initrd = self.analysis.finished.iter().flat_map(|finished| &finished.stages);
        let initrd: Ns = initrd.filter(|(stage, _)| *stage == Stage::Initrd).map(|(_, took)| *took).sum();
        timeline.tracks.get_mut(init).created.get_or_insert((self.userspace() - initrd, first));
        boot.init = Some(init);
        init
    }

    /// Adds a track for each unit whose start is known: from the JSON, or else from the chain.
    fn units(&self, init: TrackId, boot: &mut Placing<'_>) -> HashMap<&str, Unit> {
        let times = self.analysis.times.iter();
        let times = times.map(|t| (&*t.unit, self.origin + t.activating, self.origin + t.activated, t.stopping));
        let userspace = self.userspace();
        let links = self
            .analysis
            .chain
            .iter()
            .filter_map(|link| Some((&*link.unit, userspace + link.at?, userspace + active(link)?, None)));
        let mut units: HashMap<&str, Unit> = HashMap::new();
        for (unit, start, end, stopping) in times.chain(links) {
            if units.contains_key(unit) {
                continue;
            }
            let timeline = &mut boot.timeline;
            let name = timeline.names.intern(unit);
            let track = timeline.tracks.add(name, TrackKind::Thread, FIRST_ID + units.len() as u64);
            timeline.tracks.get_mut(track).created = Some((start, init));
            if start < end {
                let (detail, kind) = (NameId::EMPTY, SpanKind::Process);
                timeline.spans.push(SpanRow { name, detail, start, end, track, kind }, None);
            } else {
                timeline.marks.push(Mark { at: start, name, track });
            }
            if let Some((from, until)) = stopping {
                let (start, end) = ((self.origin + from).max(end), self.origin + until);
                let (detail, kind) = (timeline.names.intern("stop"), SpanKind::Process);
                timeline.spans.push(SpanRow { name, detail, start, end, track, kind }, None);
            }
            units.insert(unit, Unit { track, start, end });
        }
        units
    }

    /// systemd waits for each unit of the chain while that unit starts. Between them no unit of the chain ran, and nothing says what
    /// did: a unit outside of the chain, or systemd itself.
    fn chain(&self, init: TrackId, units: &HashMap<&str, Unit>, boot: &mut Placing<'_>) {
        let placed = |link: &Link| units.get(&*link.unit).copied();
        // The links above one: those that are less deep.
        let mut above: Vec<&Link> = Vec::new();
        // For each unit that waited, the one that it waited for: of several the one that was active last.
        let mut waited_for: HashMap<TrackId, Unit> = HashMap::new();
        for link in &self.analysis.chain {
            while above.last().is_some_and(|last| last.depth >= link.depth) {
                above.pop();
            }
            let waiting = above.last().and_then(|link| placed(link));
            let unit = placed(link);
            // systemd also names one that was active after what it stands below: nothing waited for that, and what stands below it
            // is what the one above waited for.
            if waiting.zip(unit).is_some_and(|(waiting, unit)| unit.end > waiting.start) {
                continue;
            }
            above.push(link);
            let Some((waiting, unit)) = waiting.zip(unit) else { continue };
            if unit.track != waiting.track {
                let last = waited_for.entry(waiting.track).or_insert(unit);
                if unit.end > last.end {
                    *last = unit;
                }
            }
        }
        // Each unit ends before the one that waited for it starts, so this ends.
        let head = self.analysis.chain.iter().find_map(placed);
        let chain = std::iter::successors(head, |unit| waited_for.get(&unit.track).copied());
        for unit in chain.filter(|unit| unit.start < unit.end) {
            let (from, woken, until, by) = (unit.start, unit.end, unit.end, WaitedOn::Thread(unit.track));
            boot.timeline.waits.push(Wait { track: init, from, woken, until, by, uninterruptible: false });
        }
    }

    /// Places systemd's own work, before it started any unit.
    fn work(&self, track: TrackId, boot: &mut Placing<'_>) {
        for (what, start, end) in self.analysis.work() {
            let timeline = &mut boot.timeline;
            let (name, start, end) = (timeline.names.intern(what), self.origin + start, self.origin + end);
            let (detail, kind) = (NameId::EMPTY, SpanKind::Stage);
            timeline.spans.push(SpanRow { name, detail, start, end, track, kind }, None);
        }
    }

    /// Targets that many wait for.
    fn milestones(&self, boot: &mut Placing<'_>) {
        for (target, phase) in MILESTONES {
            if let Some(at) = self.analysis.active(target) {
                let evidence = format!("{}: {target} is active", self.analysis.says());
                boot.timeline.boundary(phase, self.origin + at, self.analysis.resolution.cut(1), &evidence);
            }
        }
    }

    /// blame says how long, and never when.
    fn note_unplaced(&self, units: &HashMap<&str, Unit>, diagnostics: &mut Diagnostics) {
        let blame = &self.analysis.blame;
        let mut unplaced: Vec<_> = blame.iter().filter(|(unit, ..)| !units.contains_key(&**unit)).collect();
        let Some(first) = unplaced.first().map(|(.., line)| *line) else { return };
        unplaced.sort_by_key(|(_, took, _)| Reverse(*took));
        let named: Vec<String> = unplaced.iter().take(NAMED).map(|(unit, took, _)| format!("{unit} {took}")).collect();
        let count = unplaced.len() as u64;
        let cost = unplaced.iter().map(|(_, took, _)| *took).sum();
        let place = || format!("{NAME} blame, line {first}");
        diagnostics.add(DiagnosticKind::LengthsWithoutTimes, &named.join(", "), count, Some(cost), place);
    }
}
