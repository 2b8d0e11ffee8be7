//! Places a boot chart on the timeline: each process is a track, created by its parent, with a span for each of its
//! names.
//!
//! Inside that span are spans for the time when the process had a CPU or waited for a disk. Between them it waits.
//! Samples do not show what it waits for. Shells and init scripts wait for the processes that they start. So a wait is
//! charged to the child that ended last in it, then to the child that ended last before that child began. Time without
//! such a child is charged to no process. taskstats does not show ends, so its waits are never charged.
//!
//! Nothing waits for bootchart's own collector, for what the collector starts, or for a splash screen that does no work.

use crate::boot::offers::Offers;
use crate::boot::subject::Subject;
use crate::boot::{Found, Placing};
use crate::formats::bootchart::parse::{self, Part, TICK};
use crate::formats::bootchart::{NAME, Process, Samples, Use, part_in_words};
use crate::input::text::{Lines, lossy, whole_number};
use crate::input::{File, Input};
use crate::readers::reader::{EndCandidate, EndRank, Evidence, Reader};
use hashbrown::{HashMap, HashSet};
use std::rc::Rc;
use timeline::{
    DiagnosticKind, Diagnostics, EndEvidence, Mark, NameId, Ns, Os, Phase, SpanKind, SpanRow, Timeline, TrackId,
    TrackKind, Wait, WaitedOn,
};

/// The files of one chart.
#[derive(Default)]
pub(crate) struct Files {
    header: Option<Rc<File>>,
    processes: Vec<Rc<File>>,
}

impl Reader for Files {
    fn kinds(&self) -> &'static [&'static str] {
        &["boot chart"]
    }

    fn is_whole(&self, bytes: &[u8]) -> Option<String> {
        part_in_words(bytes).map(str::to_owned)
    }

    fn add(&mut self, _own: Option<usize>, input: Input, diagnostics: &mut Diagnostics) {
        match parse::part(&input.file.bytes) {
            Some(Part::Header) => _ = self.header.get_or_insert(input.file),
            Some(Part::Processes | Part::Taskstats | Part::Picture) => self.processes.push(input.file),
            Some(Part::Unused(what)) => {
                diagnostics.note_about(DiagnosticKind::BootchartPartUnused, what, || input.file.name.clone());
            }
            None => {}
        }
    }

    fn has_boot(&self) -> bool {
        !self.processes.is_empty()
    }

    fn read<'f>(&'f mut self, found: &mut Found<'f>, timeline: &mut Timeline) -> Option<Box<dyn Evidence + 'f>> {
        let diagnostics = &mut timeline.diagnostics;
        let (first, others) = self.processes.split_first()?;
        for other in others {
            diagnostics.note_about(DiagnosticKind::SecondStatement, NAME, || other.name.clone());
        }
        let samples = Samples::read(&first.name, &first.bytes, diagnostics)?;
        if let Some(header) = &self.header {
            let cpus = cpus(&header.bytes).unwrap_or_default();
            timeline.cpu_count = timeline.cpu_count.max(cpus);
            add_header(&header.bytes, &mut found.subject);
        }
        let every = format!("every {}, at most {} apart", samples.interval(), samples.longest);
        let count = samples.counts.samples;
        diagnostics.add(DiagnosticKind::BootchartSampled, &every, count, None, || first.name.clone());
        Some(Box::new(Chart { samples, init: None }))
    }
}

/// The value of a line of the header.
fn field<'h>(header: &'h [u8], key: &[u8]) -> Option<&'h [u8]> {
    let value = Lines::new(header).find_map(|line| line.bytes.strip_prefix(key)?.strip_prefix(b" = "))?;
    Some(value.trim_ascii()).filter(|value| !value.is_empty())
}

/// `system.cpu.num = 2`, or at the end of `system.cpu = Intel(R) Pentium(R) M (1)`.
fn cpus(header: &[u8]) -> Option<u32> {
    let in_brackets = |cpu: &'_ [u8]| -> Option<u32> {
        let inside = cpu.strip_suffix(b")")?;
        whole_number(&inside[memchr::memrchr(b'(', inside)? + 1..])?.try_into().ok()
    };
    let number = field(header, b"system.cpu.num").and_then(whole_number).and_then(|cpus| cpus.try_into().ok());
    number.or_else(|| in_brackets(field(header, b"system.cpu")?))
}

/// Adds the kernel and its command line.
fn add_header(header: &[u8], subject: &mut Subject) {
    let uname = field(header, b"system.uname").and_then(|uname| uname.strip_prefix(b"Linux "));
    if let Some(release) = uname.and_then(|uname| uname.split(u8::is_ascii_whitespace).next()) {
        subject.os = Os::Linux;
        if subject.kernel.is_empty() {
            subject.kernel = lossy(release).into_owned();
        }
    }
    if let Some(options) = field(header, b"system.kernel.options") {
        subject.command_line.get_or_insert_with(|| lossy(options).into_owned());
    }
    if subject.cpus == 0 {
        subject.cpus = cpus(header).unwrap_or_default();
    }
}

/// Programs that sample for bootchart. Linux cuts names after 15 bytes.
const COLLECTORS: [&str; 4] = ["bootchartd", "bootchart-colle", "bootchart-collector", "systemd-bootcha"];
/// Programs that show a picture until the boot is done.
const SPLASHES: [&str; 7] = ["plymouthd", "plymouth", "rhgb", "usplash", "splashy", "psplash", "bootsplash"];

pub(crate) struct Chart {
    pub samples: Samples,
    /// Process 1's track, after it has been placed.
    pub init: Option<TrackId>,
}

impl Evidence for Chart {
    fn offer<'e>(&'e self, offers: &mut Offers<'e>) {
        offers.kernel_after(Ns::ZERO);
    }

    fn place(&mut self, boot: &mut Placing<'_>) {
        let origin = boot.kernel_clock_zero();
        let tracks = self.tracks(origin, boot);
        self.init = self.samples.processes.iter().position(|process| process.pid == 1).map(|place| tracks[place]);
        boot.init = boot.init.or(self.init);
        let children = self.children(&tracks);
        let none = Vec::new();
        for (number, (process, track)) in self.samples.processes.iter().zip(&tracks).enumerate() {
            place(process, children.get(&number).unwrap_or(&none), *track, origin, boot);
        }
        self.table(origin, boot);
        if let Some((at, track)) = self.samples.idle.zip(self.init) {
            let name = boot.timeline.names.intern("bootchart: idle");
            boot.timeline.marks.push(Mark { at: origin + at, name, track });
        }
    }

    /// Process 1 ran when it was first sampled. The samples do not show when it began.
    fn phases(&mut self, boot: &mut Placing<'_>) {
        let origin = boot.kernel_clock_zero();
        let first = origin + self.samples.first;
        boot.timeline.boundary(Phase::EarlyKernel, origin, TICK, "bootchart counts from the kernel's start");
        boot.timeline.boundary(Phase::Process1, first, self.samples.first, "bootchart's first sample");
    }

    fn end(&self, boot: &mut Placing<'_>) -> Option<EndCandidate> {
        let at = boot.kernel_clock_zero() + self.samples.last;
        let error = self.samples.longest.max(TICK);
        let evidence = EndEvidence::BootchartStopped;
        Some(EndCandidate { rank: EndRank::BootDone, at, error, evidence, track: self.init })
    }
}

impl Chart {
    /// The track of each process, existing or new. Sets the parent that created it.
    fn tracks(&self, origin: Ns, boot: &mut Placing<'_>) -> Vec<TrackId> {
        let first = boot.first_thread();
        let timeline = &mut boot.timeline;
        let threads = timeline.tracks.iter().filter(|(_, track)| track.kind == TrackKind::Thread);
        let mut known: HashMap<u64, TrackId> = threads.map(|(id, track)| (track.id, id)).collect();
        let mut taken: HashMap<TrackId, ()> = HashMap::new();
        let mut all = Vec::with_capacity(self.samples.processes.len());
        for process in &self.samples.processes {
            let last = process.names.last().map_or("", |(_, name)| name);
            let name = timeline.names.intern(last);
            // A number that is used again belongs to another process.
            let track = known.get(&process.pid).copied().filter(|track| taken.insert(*track, ()).is_none());
            let track = track.unwrap_or_else(|| timeline.tracks.add(name, TrackKind::Thread, process.pid));
            known.insert(process.pid, track);
            let parent = if process.pid <= 2 { Some(first) } else { known.get(&process.parent).copied() };
            if let Some(parent) = parent.filter(|parent| *parent != track) {
                let created = &mut timeline.tracks.get_mut(track).created;
                created.get_or_insert((origin + process.from(), parent));
            }
            all.push(track);
        }
        all
    }

    /// For each process, true if nothing of the boot waits for it.
    fn unrelated(&self) -> Vec<bool> {
        let mut of_collector: HashSet<u64> = HashSet::new();
        let is_of = |process: &Process, names: &[&str]| process.names.iter().any(|(_, name)| names.contains(&&**name));
        let unrelated = |process: &Process| {
            let is_collector = is_of(process, &COLLECTORS) || of_collector.contains(&process.parent);
            if is_collector && process.pid != 1 {
                of_collector.insert(process.pid);
                return true;
            }
            of_collector.remove(&process.pid);
            let works = process.stretches.iter().any(|stretch| matches!(stretch.used, Use::Cpu | Use::Disk));
            is_of(process, &SPLASHES) && !works
        };
        self.samples.processes.iter().map(unrelated).collect()
    }

    /// The children of each process that ended, sorted by their end.
    fn children(&self, tracks: &[TrackId]) -> HashMap<usize, Vec<Child>> {
        let processes = &self.samples.processes;
        let unrelated = self.unrelated();
        let mut children: HashMap<usize, Vec<Child>> = HashMap::new();
        let mut known: HashMap<u64, usize> = HashMap::new();
        for (place, (process, track)) in processes.iter().zip(tracks).enumerate() {
            let (from, until, track) = (process.from(), process.until, *track);
            let ended = self.samples.knows_ends && process.is_over && from < until && !unrelated[place];
            if let Some(parent) = known.get(&process.parent).filter(|_| ended) {
                children.entry(*parent).or_default().push(Child { from, until, track });
            }
            known.insert(process.pid, place);
        }
        children.values_mut().for_each(|of_one| of_one.sort_by_key(|child| child.until));
        children
    }

    /// Fills the table of user processes, each after its parent.
    fn table(&self, origin: Ns, boot: &mut Placing<'_>) {
        let timeline = &mut boot.timeline;
        if !timeline.processes.is_empty() {
            return;
        }
        let users: Vec<&Process> = self.samples.processes.iter().filter(|process| !process.is_kernels()).collect();
        let place_of: HashMap<u64, usize> = users.iter().enumerate().map(|(place, user)| (user.pid, place)).collect();
        let mut children: HashMap<usize, Vec<usize>> = HashMap::new();
        let mut roots = Vec::new();
        for (place, user) in users.iter().enumerate() {
            match place_of.get(&user.parent).filter(|parent| **parent < place) {
                Some(parent) => children.entry(*parent).or_default().push(place),
                None => roots.push(place),
            }
        }
        // A parent stands before its children, so this ends.
        let mut next: Vec<(usize, u32)> = roots.into_iter().rev().map(|root| (root, 0)).collect();
        while let Some((place, depth)) = next.pop() {
            let user = users[place];
            let name = timeline.names.intern(user.names.last().map_or("", |(_, name)| name));
            let (start, end) = (origin + user.from(), user.is_over.then_some(origin + user.until));
            let (pid, parent) = (user.pid, user.parent);
            timeline.processes.push(timeline::Process { pid, parent, depth, name, start, end });
            let of_user = children.get(&place).into_iter().flatten();
            next.extend(of_user.rev().map(|child| (*child, depth + 1)));
        }
    }
}

/// A child that ended.
#[derive(Clone, Copy)]
struct Child {
    from: Ns,
    until: Ns,
    track: TrackId,
}

/// The pieces of a wait from `from` to `to`, the last first, each with the process that was waited for.
fn waited_for(children: &[Child], from: Ns, to: Ns) -> Vec<(Ns, Ns, WaitedOn)> {
    let mut pieces = Vec::new();
    let mut at = to;
    while at > from {
        let ended = &children[..children.partition_point(|child| child.until <= at)];
        let Some(child) = ended.last().filter(|child| child.until > from) else {
            pieces.push((from, at, WaitedOn::Unknown));
            break;
        };
        if child.until < at {
            pieces.push((child.until, at, WaitedOn::Unknown));
        }
        at = child.from.max(from);
        pieces.push((at, child.until, WaitedOn::Thread(child.track)));
    }
    pieces
}

/// Places the spans and waits of a process.
fn place(process: &Process, children: &[Child], track: TrackId, origin: Ns, boot: &mut Placing<'_>) {
    let timeline = &mut boot.timeline;
    let until = origin + process.until;
    if !process.is_kernels() {
        let ends = process.names.iter().skip(1).map(|(from, _)| origin + *from).chain([until]);
        for ((from, name), end) in process.names.iter().zip(ends) {
            let (name, detail, kind) = (timeline.names.intern(name), NameId::EMPTY, SpanKind::Process);
            timeline.spans.push(SpanRow { name, detail, start: origin + *from, end, track, kind }, None);
        }
    }
    for stretch in &process.stretches {
        let (start, end) = (origin + stretch.from, origin + stretch.to);
        let name = match stretch.used {
            Use::Cpu => "on a CPU",
            Use::Disk => "waits for a disk",
            Use::Queue => {
                let by = WaitedOn::Nothing;
                timeline.waits.push(Wait { track, from: start, woken: start, until: end, by, uninterruptible: false });
                continue;
            }
            Use::Other if process.is_kernels() => continue,
            Use::Other => {
                for (from, to, by) in waited_for(children, stretch.from, stretch.to) {
                    let (from, woken) = (origin + from, origin + to);
                    timeline.waits.push(Wait { track, from, woken, until: woken, by, uninterruptible: false });
                }
                continue;
            }
        };
        // Under the name that the process had at that time.
        let called = process.names.iter().rev().find(|(from, _)| *from <= stretch.from);
        let detail = timeline.names.intern(called.map_or("", |(_, name)| name));
        let (name, kind) = (timeline.names.intern(name), SpanKind::Work);
        timeline.spans.push(SpanRow { name, detail, start, end, track, kind }, None);
    }
}
