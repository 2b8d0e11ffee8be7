//! The evidence that detectors read: a boot's timeline, the rules of its rows, and facts about its machine.

use crate::facts::Stretch;
use analysis::Groups;
use hashbrown::HashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use timeline::{Mark, NameId, Ns, Os, Phase, SpanId, SpanKind, SpanRow, Timeline, TrackId, TrackKind, WaitedOn};

/// Facts about a boot that are not in its timeline.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machine {
    pub os: Os,
    /// The version of the kernel, as far as rules need it: see [`kernel_version`]. `None` if unknown.
    pub kernel_version: Option<(u32, u32)>,
    /// The number of virtual CPUs; 0 if unknown.
    pub cpus: u32,
    /// Size of memory; 0 if unknown.
    pub memory_bytes: u64,
    /// Memory that was available at the end of the boot, after a workload if there was one; `None` if unknown.
    pub memory_available: Option<u64>,
    /// The words of the kernel's command line that the user gave; `None` if unknown.
    pub command_line: Option<Vec<String>>,
    /// The machine monitor; `None` if unknown.
    pub vmm: Option<Vmm>,
}

/// Facts about QEMU's start that remedies need.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Vmm {
    /// The machine type, with properties.
    pub machine_type: String,
    /// Further arguments that the user gave.
    pub arguments: Vec<String>,
    /// True if QEMU was given the kernel; otherwise the firmware looks for one on a disk.
    pub has_kernel: bool,
    /// True if it starts unpacked kernels of the guest's architecture, as ELF images.
    pub starts_unpacked: bool,
    /// Compression of the user's initrd, as the recording names it; `None` if there is no initrd, or if it is unknown.
    pub initrd_compression: Option<String>,
}

/// The first two numbers of a kernel's release: `6.1.0-50-cloud-amd64` is (6, 1).
pub fn kernel_version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// The evidence of a boot, for detectors.
pub struct Seen<'a> {
    /// The finalized timeline.
    pub timeline: &'a Timeline,
    /// The rules that put the boot path in rows.
    pub groups: &'a Groups,
    pub machine: &'a Machine,
    /// The instant at which the boot was done.
    pub end: Ns,
    kinds: Vec<SpanKind>,
    /// Spans that only let time pass, ordered by track and time.
    delays: Vec<SpanId>,
    /// For each track, the stretches in which it waited for other threads: without overlaps, ordered by time.
    for_others: HashMap<TrackId, Vec<(Ns, Ns)>>,
    /// For each wait, the instant at which it and all waits that overlap it are over.
    waits_over: Vec<Ns>,
}

impl<'a> Seen<'a> {
    /// Goes once over all spans and waits. `O(n)`.
    pub fn new(timeline: &'a Timeline, groups: &'a Groups, machine: &'a Machine) -> Seen<'a> {
        let end = analysis::total(timeline);
        let mut kinds = Vec::new();
        let mut known: HashMap<(SpanKind, NameId, NameId), bool> = HashMap::new();
        let mut delays = Vec::new();
        for (id, row) in timeline.spans.iter().filter(|(_, row)| row.start < end) {
            if !kinds.contains(&row.kind) {
                kinds.push(row.kind);
            }
            let what = (row.kind, row.name, row.detail);
            let is_delay = || groups.is_delay(row.kind, timeline.names.get(row.name), detail(timeline, row.detail));
            if *known.entry(what).or_insert_with(is_delay) {
                delays.push(id);
            }
        }
        Seen {
            timeline,
            groups,
            machine,
            end,
            kinds,
            delays,
            for_others: for_others(timeline),
            waits_over: waits_over(timeline),
        }
    }

    /// True if a span of that kind began before the end mark.
    pub fn has_kind(&self, kind: SpanKind) -> bool {
        self.kinds.contains(&kind)
    }

    /// Calls that only let time pass and that no other such call made, each with its caller. A call in which its thread waited for another
    /// thread is left out: it lasts as long as the other thread takes.
    pub fn delays(&self) -> impl Iterator<Item = (SpanRow, SpanRow)> + '_ {
        let spans = &self.timeline.spans;
        let outermost = self.delays.iter().filter_map(|&id| {
            let caller = spans.parent(id)?;
            self.delays.binary_search(&caller).is_err().then(|| (spans.get(id), spans.get(caller)))
        });
        outermost.filter(|(delay, _)| delay.end <= self.end && !self.waits_for_another(delay))
    }

    /// Lines that the kernel printed before the end mark, in order.
    pub fn lines(&self) -> impl Iterator<Item = Mark> + '_ {
        let tracks = &self.timeline.tracks;
        let before = self.timeline.marks.iter().copied().filter(|mark| mark.at <= self.end);
        before.filter(|mark| tracks.get(mark.track).kind == TrackKind::Console)
    }

    /// Spans that ended before the end mark, ordered by track and time.
    pub fn spans(&self) -> impl Iterator<Item = (SpanId, SpanRow)> + '_ {
        self.timeline.spans.iter().filter(|(_, row)| row.end <= self.end)
    }

    /// The innermost span at an instant of a track, except spans that only let time pass.
    pub fn at_work(&self, track: TrackId, at: Ns) -> Option<SpanRow> {
        let spans = &self.timeline.spans;
        let mut open = spans.open_at(track, at).0;
        while let Some(delay) = open.filter(|id| self.delays.binary_search(id).is_ok()) {
            open = spans.parent(delay);
        }
        open.map(|id| spans.get(id))
    }

    /// The parts of a span that are neither a delay nor a wait.
    pub fn work(&self, row: &SpanRow) -> Vec<Stretch> {
        let spans = &self.timeline.spans;
        let first = self.delays.partition_point(|&id| {
            let delay = spans.get(id);
            (delay.track, delay.start) < (row.track, row.start)
        });
        let delays = self.delays[first..].iter().map(|&id| spans.get(id));
        let delays = delays.take_while(|delay| delay.track == row.track && delay.start < row.end);
        let waits = &self.timeline.waits;
        let first = waits.partition_point(|wait| (wait.track, wait.from) < (row.track, row.start));
        let waits = waits[first..].iter().take_while(|wait| wait.track == row.track && wait.from < row.end);
        let mut idle: Vec<(Ns, Ns)> = waits.map(|wait| (wait.from, wait.until)).collect();
        idle.extend(delays.map(|delay| (delay.start, delay.end)));
        idle.sort_unstable();
        let (mut at, mut work) = (row.start, Vec::new());
        for (from, to) in idle.into_iter().chain([(row.end, row.end)]) {
            if at < from {
                work.push(Stretch { from: at, to: from, ..self.stretch(row) });
            }
            at = at.max(to).min(row.end);
        }
        work
    }

    /// The end of the last wait that begins in a stretch, with all waits that overlap it; at least the end of the stretch.
    pub(crate) fn waits_until(&self, track: TrackId, from: Ns, to: Ns) -> Ns {
        let waits = &self.timeline.waits;
        let [first, after] = [from, to].map(|at| waits.partition_point(|wait| (wait.track, wait.from) < (track, at)));
        if first < after { to.max(self.waits_over[after - 1]) } else { to }
    }

    fn waits_for_another(&self, row: &SpanRow) -> bool {
        let waits = self.for_others.get(&row.track).map_or(&[][..], Vec::as_slice);
        let next = waits.get(waits.partition_point(|&(_, until)| until <= row.start));
        next.is_some_and(|&(from, _)| from < row.end)
    }

    /// The texts of a name and a detail in the evidence.
    pub fn texts(&self, (name, detail): (NameId, NameId)) -> (&'a str, &'a str) {
        (self.timeline.names.get(name), self::detail(self.timeline, detail))
    }

    /// A name and a detail, as tables print them.
    pub fn called(&self, what: (NameId, NameId)) -> String {
        let (name, detail) = self.texts(what);
        if detail.is_empty() { name.to_owned() } else { format!("{name} {detail}") }
    }

    /// A span as a stretch to open in a viewer.
    pub fn stretch(&self, row: &SpanRow) -> Stretch {
        Stretch { track: row.track, from: row.start, to: row.end, name: row.name, detail: row.detail, purpose: "" }
    }

    /// The outermost spans of a kind that have one of these names and ended before the end mark, ordered by track and time. A function is
    /// identified by its name, an initcall and a work item by their detail.
    pub fn outermost(&self, kind: SpanKind, known: &[&str]) -> Vec<SpanRow> {
        let known = self.names(known);
        let name_of = |row: &SpanRow| if kind == SpanKind::Call { row.name } else { row.detail };
        let all = self.timeline.spans.iter().map(|(_, row)| row).filter(|row| row.kind == kind && row.end <= self.end);
        let mut found: Vec<SpanRow> = all.filter(|row| known.contains(&name_of(row))).collect();
        found.sort_by_key(|row| (row.track, row.start, Reverse(row.end)));
        let mut over: Option<(TrackId, Ns)> = None;
        found.retain(|row| {
            let is_outermost = over.is_none_or(|(track, end)| track != row.track || end <= row.start);
            over = if is_outermost { Some((row.track, row.end)) } else { over };
            is_outermost
        });
        found
    }

    /// The outermost spans of a kind with one of these names, as stretches.
    pub fn stretches(&self, kind: SpanKind, known: &[&str]) -> Vec<Stretch> {
        self.outermost(kind, known).iter().map(|row| self.stretch(row)).collect()
    }

    /// The track of process 1. A log alone does not distinguish threads; then it is the track that reached the end.
    pub fn process_1(&self) -> Option<TrackId> {
        let process_1 = self.timeline.tracks.find(TrackKind::Thread, 1);
        process_1.or(self.timeline.end.and_then(|end| end.track))
    }

    /// All threads with a name, each from its first run until its last one before the end mark.
    pub fn threads(&self, name: &str) -> Vec<Stretch> {
        let Some(name) = self.timeline.names.find(name) else { return Vec::new() };
        let tracks = self.timeline.tracks.iter();
        let named = tracks.filter(|(_, track)| track.kind == TrackKind::Thread && track.name == name);
        let run_of = |track: TrackId| {
            let running = &self.timeline.running;
            let first = running.partition_point(|ran| ran.track < track);
            let ran = running[first..].iter().take_while(|ran| ran.track == track && ran.from < self.end);
            let (from, to) = ran.fold((Ns::MAX, Ns::MIN), |(from, to), ran| (from.min(ran.from), to.max(ran.to)));
            (from < to).then(|| Stretch { track, from, to: to.min(self.end), name, detail: NameId::EMPTY, purpose: "" })
        };
        named.filter_map(|(track, _)| run_of(track)).collect()
    }

    /// The parts of a stretch in which its track had a CPU; the whole stretch if there is no evidence of that.
    pub fn ran(&self, stretch: &Stretch) -> Vec<Stretch> {
        let running = &self.timeline.running;
        let of_track = &running[running.partition_point(|ran| ran.track < stretch.track)..];
        let of_track = &of_track[..of_track.partition_point(|ran| ran.track == stretch.track)];
        if of_track.is_empty() {
            return vec![*stretch];
        }
        let first = of_track.partition_point(|ran| ran.to <= stretch.from);
        let within = of_track[first..].iter().take_while(|ran| ran.from < stretch.to);
        within.map(|ran| Stretch { from: ran.from.max(stretch.from), to: ran.to.min(stretch.to), ..*stretch }).collect()
    }

    /// The stretches of a phase before the kernel, on the tracks that ran in it, the longest first. If all calls were followed, each stack
    /// of the firmware has a track.
    pub fn phase(&self, what: Phase) -> Vec<Stretch> {
        let Some(phase) = analysis::phases(self.timeline).into_iter().find(|phase| phase.what == what) else {
            return Vec::new();
        };
        let (from, to) = (phase.start, phase.end);
        let mut ran: BTreeMap<TrackId, (Ns, Ns)> = BTreeMap::new();
        for piece in self.timeline.running.iter().filter(|piece| piece.from < to && from < piece.to) {
            if self.timeline.tracks.get(piece.track).kind == TrackKind::Firmware {
                let known = ran.entry(piece.track).or_insert((piece.from, piece.to));
                *known = (known.0.min(piece.from), known.1.max(piece.to));
            }
        }
        if ran.is_empty() {
            let first = self.timeline.tracks.iter().find(|(_, track)| track.kind == TrackKind::Firmware);
            ran.extend(first.map(|(track, _)| (track, (from, to))));
        }
        let stretch_of = |(track, (ran_from, ran_to)): (TrackId, (Ns, Ns))| {
            let (name, detail) = (self.timeline.tracks.get(track).name, NameId::EMPTY);
            let at = Stretch { track, from: from.max(ran_from), to: to.min(ran_to), name, detail, purpose: "" };
            // A span that ran there has a better name, unless it is only a small part of the phase, or one of many calls.
            let spans = self.timeline.spans.iter().filter(|&(id, _)| self.timeline.spans.node(id).is_none());
            let spans = spans.map(|(_, row)| row).filter(|row| row.track == track);
            let within = |row: &SpanRow| (row.end.min(at.to) - row.start.max(at.from)).max(Ns::ZERO);
            let most = spans.max_by_key(within).filter(|row| within(row).0 * 2 > at.length().0);
            most.map_or(at, |row| Stretch { name: row.name, detail: row.detail, ..at })
        };
        let mut found: Vec<Stretch> = ran.into_iter().map(stretch_of).collect();
        found.sort_by_key(|stretch| (Reverse(stretch.length()), stretch.track));
        found
    }

    /// True if the kernel's command line has this word.
    pub fn was_given(&self, word: &str) -> bool {
        self.machine.command_line.as_ref().is_some_and(|words| words.iter().any(|given| given == word))
    }

    /// True if the machine is known to be virtual: bootscope started it, or the kernel printed that it found a hypervisor.
    pub fn is_virtual(&self) -> bool {
        let names_hypervisor = |line: Mark| self.timeline.names.get(line.name).starts_with("Hypervisor detected: ");
        self.machine.vmm.is_some() || self.lines().any(names_hypervisor)
    }

    /// True if the kernel has this version or a later one; `otherwise` if its version is unknown.
    pub fn is_since(&self, version: (u32, u32), otherwise: bool) -> bool {
        self.machine.kernel_version.map_or(otherwise, |known| known >= version)
    }

    /// The ids of those names that the boot has.
    pub fn names(&self, known: &[&str]) -> Vec<NameId> {
        known.iter().filter_map(|name| self.timeline.names.find(name)).collect()
    }
}

fn waits_over(timeline: &Timeline) -> Vec<Ns> {
    let mut over: Vec<Ns> = Vec::with_capacity(timeline.waits.len());
    let mut rest = timeline.waits.as_slice();
    while let Some(first) = rest.first() {
        let (mut until, mut count) = (first.until, 1);
        while let Some(next) = rest.get(count).filter(|next| next.track == first.track && next.from < until) {
            until = until.max(next.until);
            count += 1;
        }
        over.resize(over.len() + count, until);
        rest = &rest[count..];
    }
    over
}

fn for_others(timeline: &Timeline) -> HashMap<TrackId, Vec<(Ns, Ns)>> {
    let mut found: HashMap<TrackId, Vec<(Ns, Ns)>> = HashMap::new();
    let by_other = |by: &WaitedOn| matches!(by, WaitedOn::Thread(_) | WaitedOn::Holders(_));
    for wait in timeline.waits.iter().filter(|wait| by_other(&wait.by) && wait.from < wait.until) {
        let of_track = found.entry(wait.track).or_default();
        match of_track.last_mut().filter(|last| wait.from <= last.1) {
            Some(last) => last.1 = last.1.max(wait.until),
            None => of_track.push((wait.from, wait.until)),
        }
    }
    found
}

/// The mark of an indirect call is no part of the name.
fn detail(timeline: &Timeline, detail: NameId) -> &str {
    if detail == NameId::INDIRECT { "" } else { timeline.names.get(detail) }
}

#[cfg(test)]
pub mod testing {
    //! A boot for the detectors' tests: one thread that takes one step after the other.

    use super::*;
    use crate::find::{Found, find_by};
    use timeline::{Deferral, End, EndEvidence, Hold, Names, OffCpu, Running, SpanBuilder, TimeBase, Unit, Wait};

    pub fn ms(ms: i64) -> Ns {
        Ns::from_ms(ms)
    }

    /// A log of steps, each of which calls functions.
    pub struct Log {
        timeline: Timeline,
        spans: SpanBuilder,
        track: TrackId,
        now: Ns,
        pub machine: Machine,
    }

    impl Log {
        pub fn new() -> Log {
            let mut timeline = Timeline::new(TimeBase::GuestVirtual);
            let name = timeline.names.intern("thread0");
            let track = timeline.tracks.add(name, TrackKind::Thread, 1);
            Log { timeline, spans: SpanBuilder::default(), track, now: Ns::ZERO, machine: Machine::default() }
        }

        /// A log of Linux in a virtual machine.
        pub fn linux() -> Log {
            let mut log = Log::new();
            (log.machine.os, log.timeline.os) = (Os::Linux, Os::Linux);
            log.machine.cpus = 1;
            log.machine.vmm = Some(Vmm::default());
            log.machine.kernel_version = Some((6, 1));
            log
        }

        /// Adds phases before the kernel, from time zero on.
        pub fn before_the_kernel(&mut self, phases: &[(Phase, Ns)]) {
            let name = self.timeline.names.intern("firmware");
            let (track, boot) = (self.timeline.tracks.add(name, TrackKind::Firmware, 0), self.track);
            self.track = track;
            for &(phase, length) in phases {
                self.timeline.boundary(phase, self.now, Ns::ZERO, "test");
                self.call(phase.name(&Names::default()).as_ref(), length);
            }
            self.timeline.boundary(Phase::EarlyKernel, self.now, Ns::ZERO, "test");
            self.track = boot;
            self.timeline.tracks.get_mut(boot).created = Some((self.now, track));
        }

        /// Adds a line that a boot loader printed before the kernel, and the time until the next one.
        pub fn firmware_line(&mut self, line: &str, lasts: Ns) {
            let name = self.timeline.names.intern("firmware");
            let (track, boot) = (self.timeline.tracks.add(name, TrackKind::Firmware, 0), self.track);
            self.timeline.boundary(Phase::Loader, self.now, Ns::ZERO, "test");
            let (name, start) = (self.timeline.names.intern(line), self.now);
            self.now += lasts;
            let (detail, kind) = (NameId::EMPTY, SpanKind::Message);
            self.timeline.spans.push(SpanRow { name, detail, start, end: self.now, track, kind }, None);
            self.timeline.boundary(Phase::EarlyKernel, self.now, Ns::ZERO, "test");
            self.timeline.tracks.get_mut(boot).created = Some((self.now, track));
        }

        /// Adds a phase before the kernel on two stacks of a firmware whose calls were followed: one half on each.
        pub fn followed_before_the_kernel(&mut self, phase: Phase, length: Ns) {
            let boot = self.track;
            self.timeline.boundary(phase, self.now, Ns::ZERO, "test");
            let mut by = None;
            for _ in 0..2 {
                let name = self.timeline.names.intern("firmware");
                let track = self.timeline.tracks.add(name, TrackKind::Firmware, 0);
                self.timeline.tracks.get_mut(track).created = by.map(|by| (self.now, by));
                (self.track, by) = (track, Some(track));
                let (from, call) = (self.now, self.timeline.names.intern("firmware 0xedf07"));
                self.now += Ns(length.0 / 2);
                let (kind, detail) = (SpanKind::Call, NameId::EMPTY);
                let row = SpanRow { name: call, detail, start: from, end: self.now, track, kind };
                let (pushed, node) = (self.timeline.spans.push(row, None), self.timeline.profile.node(None, call));
                self.timeline.spans.set_node(pushed, Some(node));
                self.timeline.running.push(Running { track, cpu: 0, from, to: self.now });
            }
            self.timeline.boundary(Phase::EarlyKernel, self.now, Ns::ZERO, "test");
            self.track = boot;
            self.timeline.tracks.get_mut(boot).created = by.map(|by| (self.now, by));
        }

        /// Adds a thread that runs while this one waits for it.
        pub fn awaited(&mut self, name: &str, length: Ns) {
            let (track, from, until) = (self.track, self.now, self.now + length);
            let other = self.thread_beside(name, length);
            self.timeline.waits.push(Wait {
                track,
                from,
                woken: until,
                until,
                by: WaitedOn::Thread(other),
                uninterruptible: false,
            });
            self.now = until;
        }

        /// Adds a thread that runs beside this one from now on, on another CPU.
        pub fn thread_beside(&mut self, name: &str, length: Ns) -> TrackId {
            let (created, from, to) = (Some((self.now, self.track)), self.now, self.now + length);
            let name = self.timeline.names.intern(name);
            let id = 100 + self.timeline.tracks.len() as u64;
            let track = self.timeline.tracks.add(name, TrackKind::Thread, id);
            self.timeline.tracks.get_mut(track).created = created;
            self.timeline.running.push(Running { track, cpu: track.0, from, to });
            track
        }

        /// Adds a thread that this one creates now.
        pub fn thread(&mut self, name: &str) -> TrackId {
            let name = self.timeline.names.intern(name);
            let id = 100 + self.timeline.tracks.len() as u64;
            let track = self.timeline.tracks.add(name, TrackKind::Thread, id);
            self.timeline.tracks.get_mut(track).created = Some((self.now, self.track));
            track
        }

        /// The thread of that name.
        pub fn named(&mut self, name: &str) -> TrackId {
            let name = self.timeline.names.intern(name);
            self.timeline.tracks.named(name, TrackKind::Thread)
        }

        /// Lets a thread hold a topic that others may wait for.
        pub fn holds(&mut self, track: TrackId, topic: &str, from: Ns, to: Ns) {
            let topic = self.timeline.names.intern(topic);
            self.timeline.holds.push(Hold { topic, track, from, to });
        }

        /// Lets a thread wait until all holders of a topic have released it.
        pub fn waited(&mut self, track: TrackId, topic: &str, from: Ns, until: Ns) {
            let by = self.topic(topic);
            self.timeline.waits.push(Wait { track, from, woken: until, until, by, uninterruptible: false });
        }

        /// Lets a thread wait in functions, the outermost first, until another thread wakes it.
        pub fn waited_in(&mut self, track: TrackId, functions: &[&str], (from, until): (Ns, Ns), by: TrackId) {
            for function in functions {
                let name = self.timeline.names.intern(function);
                let row = SpanRow { name, detail: NameId::EMPTY, start: from, end: until, track, kind: SpanKind::Call };
                self.timeline.spans.push(row, None);
            }
            self.timeline.waits.push(Wait {
                track,
                from,
                woken: until,
                until,
                by: WaitedOn::Thread(by),
                uninterruptible: false,
            });
        }

        /// Lets a thread sleep until a timer wakes it.
        pub fn asleep(&mut self, track: TrackId, from: Ns, until: Ns) {
            let by = WaitedOn::Interrupt(self.timeline.names.intern("timer"));
            self.timeline.waits.push(Wait { track, from, woken: until, until, by, uninterruptible: false });
        }

        /// Lets a thread sleep in a function, which it calls for the first time.
        pub fn asleep_in(&mut self, track: TrackId, function: &str, from: Ns, until: Ns) {
            let name = self.timeline.names.intern(function);
            let row = SpanRow { name, detail: NameId::EMPTY, start: from, end: until, track, kind: SpanKind::Call };
            self.timeline.spans.push(row, None);
            self.asleep(track, from, until);
        }

        /// Lets a thread run a function from now on that only calls DELAY, `count` times.
        pub fn delays_of(&mut self, track: TrackId, function: &str, count: i64, each: Ns) {
            let (boot, now) = (self.track, self.now);
            self.track = track;
            self.within(function, |log| (0..count).for_each(|_| log.call("DELAY", each)));
            (self.track, self.now) = (boot, now);
        }

        /// Lets a thread do one work item after the other from now on; an item without a name is the thread's other time.
        pub fn works_on(&mut self, track: TrackId, items: &[(&str, Ns)]) {
            let (boot, now) = (self.track, self.now);
            self.track = track;
            for &(item, length) in items {
                if item.is_empty() { self.now += length } else { self.work(item, length) }
            }
            (self.track, self.now) = (boot, now);
        }

        /// Lets the boot wait for these until `length` later.
        pub fn waits(&mut self, length: Ns, by: WaitedOn) {
            let (track, from, until) = (self.track, self.now, self.now + length);
            self.timeline.waits.push(Wait { track, from, woken: until, until, by, uninterruptible: false });
            self.now = until;
        }

        /// On the only CPU: the boot waits for a new thread, which works for `works` once it has the CPU. Before that another thread, new
        /// or known, has the CPU.
        pub fn waits_while_another_runs(&mut self, topic: &str, works: Ns, (other, had): (&str, Ns)) {
            let (begun, from, until) = (self.turn_begun(), self.now, self.now + had + works);
            let name = self.timeline.names.find(other);
            let known = self.timeline.tracks.iter().find(|(_, track)| Some(track.name) == name).map(|(id, _)| id);
            let other = known.unwrap_or_else(|| self.thread(other));
            let holder = self.thread("holder");
            self.holds(holder, topic, from, until);
            let boot = self.track;
            let turns = [(boot, begun, from), (other, from, from + had), (holder, from + had, until)];
            let off = [
                OffCpu { track: holder, from, ready: Some(from), until: from + had, by: Some(boot) },
                OffCpu { track: boot, from, ready: Some(until), until, by: Some(holder) },
            ];
            let turns = turns.map(|(track, from, to)| Running { track, cpu: 0, from, to });
            self.timeline.occupancy.turns.extend(turns);
            self.timeline.occupancy.off.extend(off);
            let by = self.topic(topic);
            self.waits(had + works, by);
        }

        /// On the only CPU: the boot could go on, but a new thread has the CPU.
        pub fn is_ready_while_another_runs(&mut self, (other, had): (&str, Ns)) {
            let (begun, track, from, until) = (self.turn_begun(), self.track, self.now, self.now + had);
            let other = self.thread(other);
            let turns = [(track, begun, from), (other, from, until)];
            let turns = turns.map(|(track, from, to)| Running { track, cpu: 0, from, to });
            self.timeline.occupancy.turns.extend(turns);
            self.timeline.occupancy.off.push(OffCpu { track, from, ready: Some(from), until, by: None });
            self.now = until;
        }

        fn turn_begun(&self) -> Ns {
            self.timeline.occupancy.turns.last().map_or(Ns::ZERO, |turn| turn.to)
        }

        /// Lets the kernel hand over to process 1 now.
        pub fn hands_over(&mut self) {
            self.timeline.boundary(Phase::HandOver, self.now, Ns::ZERO, "test");
        }

        /// Makes the host's clock the time base.
        pub fn timed_by_the_host(&mut self) {
            self.timeline.time_base = TimeBase::Host;
        }

        pub fn work(&mut self, name: &str, length: Ns) {
            self.step(SpanKind::Work, "work", name, |log| log.now += length);
        }

        pub fn initcall(&mut self, name: &str, inside: impl FnOnce(&mut Log)) {
            self.step(SpanKind::Initcall, "SYSINIT", name, inside);
        }

        pub fn within(&mut self, name: &str, inside: impl FnOnce(&mut Log)) {
            self.step(SpanKind::Call, name, "", inside);
        }

        /// Adds steps of another thread at the same time, which no thread waits for.
        pub fn beside(&mut self, inside: impl FnOnce(&mut Log)) {
            let (track, now) = (self.track, self.now);
            let name = self.timeline.names.intern("beside");
            self.track = self.timeline.tracks.add(name, TrackKind::Thread, 2);
            self.timeline.tracks.get_mut(self.track).created = Some((now, track));
            inside(self);
            (self.track, self.now) = (track, now);
        }

        pub fn call(&mut self, name: &str, length: Ns) {
            self.step(SpanKind::Call, name, "", |log| log.now += length);
        }

        /// Records in the call profile that this function was called `calls` times.
        pub fn counted(&mut self, name: &str, calls: u64) {
            let name = self.timeline.names.intern(name);
            let node = self.timeline.profile.node(None, name);
            self.timeline.profile.add(node, calls, 0);
        }

        pub fn unit(&mut self, unit: Unit) {
            self.timeline.unit = unit;
        }

        /// Adds a call in which the thread waits.
        pub fn sleep(&mut self, name: &str, length: Ns, by: WaitedOn) {
            let (track, from, until) = (self.track, self.now, self.now + length);
            self.timeline.waits.push(Wait { track, from, woken: until, until, by, uninterruptible: false });
            self.call(name, length);
        }

        /// Adds a thread that does nothing else.
        pub fn other(&mut self) -> TrackId {
            let (track, now) = (self.track, self.now);
            let name = self.timeline.names.intern("other");
            let other = self.timeline.tracks.add(name, TrackKind::Thread, 3);
            self.timeline.tracks.get_mut(other).created = Some((now, track));
            other
        }

        pub fn topic(&mut self, name: &str) -> WaitedOn {
            WaitedOn::Holders(self.timeline.names.intern(name))
        }

        pub fn step(&mut self, kind: SpanKind, name: &str, detail: &str, inside: impl FnOnce(&mut Log)) {
            let [name, detail] = [name, detail].map(|text| self.timeline.names.intern(text));
            let row = SpanBuilder::row(self.track, kind, name, detail, self.now);
            let Timeline { spans, diagnostics, .. } = &mut self.timeline;
            self.spans.begin(spans, row, diagnostics, String::new);
            inside(self);
            let Timeline { spans, diagnostics, .. } = &mut self.timeline;
            self.spans.end(spans, self.track, (name, detail), self.now, diagnostics, |_| String::new());
        }

        /// Lets the kernel print a line.
        pub fn line(&mut self, text: &str) {
            let [name, log] = [text, "kernel log"].map(|text| self.timeline.names.intern(text));
            let track = self.timeline.tracks.named(log, TrackKind::Console);
            self.timeline.marks.push(Mark { at: self.now, name, track });
        }

        /// Lets the kernel put off the probe of a device that began `took` ago, or say what the device waits for.
        pub fn put_off(&mut self, device: &str, supplier: Option<&str>, took: Option<Ns>, is_pending: bool) {
            let names = &mut self.timeline.names;
            let (device, supplier) = (names.intern(device), supplier.map(|supplier| names.intern(supplier)));
            let (at, message) = (self.now, names.intern("put off"));
            self.timeline.deferrals.push(Deferral { at, device, supplier, took, is_pending, message });
        }

        /// The current time of the boot.
        pub fn now(&self) -> Ns {
            self.now
        }

        /// Lets the thread wait from now on, during its next steps.
        pub fn wait(&mut self, length: Ns) {
            let (track, from, until) = (self.track, self.now, self.now + length);
            self.timeline.waits.push(Wait {
                track,
                from,
                woken: until,
                until,
                by: WaitedOn::Unknown,
                uninterruptible: false,
            });
        }

        /// The findings, for a kernel that logs as FreeBSD does.
        pub fn found(self) -> Found {
            self.found_at_most(usize::MAX)
        }

        /// At most this number of findings.
        pub fn found_at_most(self, most: usize) -> Found {
            self.found_in(crate::DETECTORS, most)
        }

        /// The findings of these rules alone.
        pub fn found_by(self, table: &'static [crate::Detector]) -> Found {
            self.found_in(table, usize::MAX)
        }

        fn found_in(mut self, table: &'static [crate::Detector], most: usize) -> Found {
            let (at, track) = (self.now, Some(self.track));
            if !self.timeline.occupancy.is_empty() {
                let turn = Running { track: self.track, cpu: 0, from: self.turn_begun(), to: at };
                self.timeline.occupancy.turns.push(turn);
            }
            self.timeline.end = Some(End { at, error: Ns::ZERO, track, evidence: EndEvidence::LastSign });
            self.timeline.finalize(Ns::ZERO);
            assert!(self.timeline.diagnostics.is_empty(), "{:?}", self.timeline.diagnostics);
            find_by(table, &Seen::new(&self.timeline, &Groups::freebsd(), &self.machine), most, 2)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_has_its_version_in_front() {
        assert_eq!(kernel_version("6.1.0-50-cloud-amd64"), Some((6, 1)));
        assert_eq!(kernel_version("5.10"), Some((5, 10)));
        assert_eq!([kernel_version("vmlinuz"), kernel_version(""), kernel_version("6")], [None; 3]);
    }
}
