//! The boot as lanes of properly nested slices, the form that charts and trace viewers draw.
//!
//! A lane is the boot path, the phases, a CPU, or a track. Its slices are in order of start, outer ones first. Each
//! lies within the last earlier slice that is open at its start. Labels are small keys that a writer can intern;
//! [`Boot::text`] returns a label's text.

mod stacks;

use crate::{Boot, harmless};
use std::borrow::Cow;
use std::iter::Peekable;
use std::ops::Range;
use timeline::{NameId, Ns, Running, SpanId, SpanKind, SpanRow, TrackId, TrackKind};

/// The label of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Label {
    Span(NameId, NameId),
    Thread(TrackId),
    Phase(usize),
    WaitFor(NameId),
    Wait,
    Runqueue,
}

/// A named stretch of a lane.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slice {
    pub start: Ns,
    pub end: Ns,
    pub label: Label,
    /// The kind of span, if the slice is a span.
    pub kind: Option<SpanKind>,
}

impl Slice {
    /// The part of a span after an instant.
    fn of(row: &SpanRow, from: Ns) -> Slice {
        Slice { start: from, end: row.end, label: Label::Span(row.name, row.detail), kind: Some(row.kind) }
    }

    /// The part between two instants; `None` if it has no length.
    pub fn within(self, (from, to): (Ns, Ns)) -> Option<Slice> {
        let part = Slice { start: self.start.max(from), end: self.end.min(to), ..self };
        (part.end > part.start).then_some(part)
    }

    /// True if a slice that starts later or at the same time lies within this one. As in the timeline, an empty slice
    /// at the very end does.
    pub fn holds(&self, later: &Slice) -> bool {
        later.start < self.end || (later.start == self.end && later.end == later.start)
    }
}

/// The group that a lane belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    Boot,
    Machine,
    Threads,
    Cpus,
}

impl Group {
    pub const ALL: [Group; 4] = [Group::Boot, Group::Machine, Group::Threads, Group::Cpus];

    /// The group's name, which viewers show as a process.
    pub fn name(self) -> &'static str {
        match self {
            Group::Boot => "boot",
            Group::Machine => "VMM and firmware",
            Group::Threads => "threads",
            Group::Cpus => "CPUs",
        }
    }

    /// A number in place of a process id. The numbers of lanes are smaller.
    pub fn number(self) -> u32 {
        1_000_000_001 + self as u32
    }
}

/// A sequence of slices. `number` is unique and counts from 1.
pub struct Lane<'a> {
    pub number: u32,
    pub group: Group,
    pub name: String,
    /// The track that it shows, if it shows one.
    pub track: Option<TrackId>,
    slices: Slices<'a>,
}

enum Slices<'a> {
    Own(Vec<Slice>),
    Spans(&'a Boot<'a>, Range<u32>),
}

impl Lane<'_> {
    pub fn slices(&self) -> Box<dyn Iterator<Item = Slice> + '_> {
        match &self.slices {
            Slices::Own(own) => Box::new(own.iter().copied()),
            Slices::Spans(boot, ids) => Box::new(ids.clone().map(|i| boot.slice(SpanId(i)))),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Edge {
    Begin(Slice),
    End(Slice),
}

impl Edge {
    pub fn at(self) -> Ns {
        match self {
            Edge::Begin(slice) => slice.start,
            Edge::End(slice) => slice.end,
        }
    }
}

/// Passes nested slices to `each` as begins and ends in order of time.
pub fn edges<E>(slices: impl Iterator<Item = Slice>, mut each: impl FnMut(Edge) -> Result<(), E>) -> Result<(), E> {
    let mut open: Vec<Slice> = Vec::new();
    for slice in slices {
        while let Some(&top) = open.last().filter(|top| !top.holds(&slice)) {
            open.pop();
            each(Edge::End(top))?;
        }
        each(Edge::Begin(slice))?;
        open.push(slice);
    }
    while let Some(top) = open.pop() {
        each(Edge::End(top))?;
    }
    Ok(())
}

/// The open slices at an instant, outermost first. Instants must not go backwards.
pub struct Open {
    slices: Peekable<std::vec::IntoIter<Slice>>,
    stack: Vec<Slice>,
}

impl Open {
    pub fn new(slices: Vec<Slice>) -> Open {
        Open { slices: slices.into_iter().peekable(), stack: Vec::new() }
    }

    pub fn at(&mut self, at: Ns) -> &[Slice] {
        let keep = self.stack.partition_point(|slice| slice.end > at);
        self.stack.truncate(keep);
        while let Some(slice) = self.slices.next_if(|slice| slice.start <= at) {
            self.stack.extend(Some(slice).filter(|slice| slice.end > at));
        }
        &self.stack
    }
}

impl Boot<'_> {
    /// The lanes: boot path, phases, machine, threads, CPUs.
    pub(crate) fn lanes(&self) -> Vec<Lane<'_>> {
        let mut lanes = Vec::new();
        let mut add = |group, name: String, track, slices| {
            lanes.push(Lane { number: timeline::number(lanes.len() + 1), group, name, track, slices });
        };
        add(Group::Boot, "boot path".to_owned(), None, Slices::Own(self.path_slices()));
        add(Group::Boot, "phases".to_owned(), None, Slices::Own(self.phase_slices()));
        let mut spans: Vec<Option<Range<u32>>> = vec![None; self.timeline.tracks.len()];
        for (id, row) in self.timeline.spans.iter() {
            spans[row.track.0 as usize].get_or_insert(id.0..id.0).end = id.0 + 1;
        }
        for (track, t) in self.timeline.tracks.iter() {
            let group = match t.kind {
                TrackKind::Vmm | TrackKind::Firmware | TrackKind::Console => Group::Machine,
                TrackKind::Thread | TrackKind::Cpu | TrackKind::Interrupts => Group::Threads,
            };
            let range = spans[track.0 as usize].clone().unwrap_or(0..0);
            add(group, self.lane_name(track), Some(track), Slices::Spans(self, range));
        }
        for (cpu, slices) in self.cpu_slices() {
            add(Group::Cpus, format!("CPU {cpu}"), None, Slices::Own(slices));
        }
        lanes
    }

    /// A track's name, a thread's with its number. It is harmless.
    pub(crate) fn lane_name(&self, track: TrackId) -> String {
        let t = self.timeline.tracks.get(track);
        let name = harmless(self.track_name(track));
        // Process and thread numbers are small; a larger id is an address.
        let id = if u32::try_from(t.id).is_ok() { t.id.to_string() } else { format!("{:#x}", t.id) };
        if t.kind == TrackKind::Thread && name != id { format!("{name} [{id}]") } else { name.into_owned() }
    }

    fn slice(&self, id: SpanId) -> Slice {
        let row = self.timeline.spans.get(id);
        Slice::of(&row, row.start)
    }

    /// The text of a label, made harmless.
    pub fn text(&self, label: Label) -> String {
        let name = |id| self.timeline.names.get(id);
        let text = match label {
            Label::Span(n, d) if d.is_empty() => name(n).to_owned(),
            Label::Span(n, d) => format!("{} {}", name(n), name(d)),
            Label::Thread(track) => self.track_name(track).to_owned(),
            Label::Phase(i) => self.phases[i].name.clone(),
            Label::WaitFor(by) => format!("wait for {}", name(by)),
            Label::Wait => "wait".to_owned(),
            Label::Runqueue => "runqueue".to_owned(),
        };
        match harmless(&text) {
            _ if text.is_empty() => "(no name)".to_owned(),
            Cow::Borrowed(_) => text,
            Cow::Owned(harmless) => harmless,
        }
    }

    fn phase_slices(&self) -> Vec<Slice> {
        let slice = |(i, p): (usize, &analysis::Phase)| Slice {
            start: p.start,
            end: p.end,
            label: Label::Phase(i),
            kind: None,
        };
        self.phases.iter().enumerate().map(slice).collect()
    }

    /// The slices of each CPU. If evidence has a CPU run two threads at once, the later one starts when the first ends.
    fn cpu_slices(&self) -> Vec<(u32, Vec<Slice>)> {
        let mut running: Vec<&Running> = self.timeline.running.iter().collect();
        running.sort_by_key(|r| (r.cpu, r.from));
        let mut cpus: Vec<(u32, Vec<Slice>)> = Vec::new();
        for r in running {
            if cpus.last().is_none_or(|(cpu, _)| *cpu != r.cpu) {
                cpus.push((r.cpu, Vec::new()));
            }
            let Some((_, slices)) = cpus.last_mut() else { continue };
            let start = slices.last().map_or(r.from, |before: &Slice| before.end.max(r.from));
            let end = if r.to == Ns::MAX { self.total } else { r.to };
            if start < end {
                slices.push(Slice { start, end, label: Label::Thread(r.track), kind: None });
            }
        }
        cpus
    }

    /// The earliest time in the timeline, at most zero: a trace format has no times before its first.
    pub(crate) fn earliest(&self) -> Ns {
        let spans = self.timeline.spans.iter().map(|(_, s)| s.start);
        let marks = self.timeline.marks.iter().map(|m| m.at);
        let running = self.timeline.running.iter().map(|r| r.from);
        spans.chain(marks).chain(running).min().unwrap_or_default().min(Ns::ZERO)
    }
}
