//! Work: named intervals on tracks, in columns.

use crate::{NameId, NodeId, Ns, TrackId};

/// A span in [`Spans`]. Numbers change when the spans are [nested](Spans::nest).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId(pub u32);

impl SpanId {
    const NONE: SpanId = SpanId(u32::MAX);
}

/// What a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum SpanKind {
    /// A stage of the boot that is one piece of work (linking the VMM, decompressing).
    Stage,
    /// A level or other group of initcalls.
    Level,
    /// An initcall, a SYSINIT.
    Initcall,
    /// A module being loaded.
    Module,
    /// A driver's probe of a device.
    Probe,
    /// A driver's attaching to a device that its probe found.
    Attach,
    /// A file system being mounted.
    Mount,
    /// A work item or asynchronous call run for somebody else.
    Work,
    /// A function of the kernel.
    Call,
    /// An interrupt handler.
    Interrupt,
    /// A process, from exec to exit.
    Process,
    /// From one message to the next: the work is only known by what was printed before it.
    Message,
}

/// One span, by value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpanRow {
    /// What it is called (`initcall`, a function's name).
    pub name: NameId,
    /// Which one (`acpi_init`), or empty.
    pub detail: NameId,
    /// When it began.
    pub start: Ns,
    /// When it ended; never before `start`.
    pub end: Ns,
    /// Who did it.
    pub track: TrackId,
    /// What it is.
    pub kind: SpanKind,
}

impl SpanRow {
    /// How long it took.
    pub fn length(&self) -> Ns {
        self.end - self.start
    }
}

/// All spans of a timeline, one column per property.
#[derive(Clone, Debug, Default)]
pub struct Spans {
    name: Vec<NameId>,
    detail: Vec<NameId>,
    start: Vec<Ns>,
    end: Vec<Ns>,
    track: Vec<TrackId>,
    kind: Vec<SpanKind>,
    parent: Vec<SpanId>,
    depth: Vec<u32>,
    node: Vec<Option<NodeId>>,
}

impl Spans {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.name.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.name.is_empty()
    }

    /// Adds a span below `parent`. An end before its start is taken as the start.
    ///
    /// # Panics
    /// After four thousand million spans.
    pub fn push(&mut self, row: SpanRow, parent: Option<SpanId>) -> SpanId {
        let id = SpanId(u32::try_from(self.len()).expect("fewer than 2^32 spans"));
        self.name.push(row.name);
        self.detail.push(row.detail);
        self.start.push(row.start);
        self.end.push(row.end.max(row.start));
        self.track.push(row.track);
        self.kind.push(row.kind);
        self.parent.push(parent.unwrap_or(SpanId::NONE));
        self.depth.push(parent.map_or(0, |p| self.depth[p.0 as usize] + 1));
        self.node.push(None);
        id
    }

    /// The path of calls that a span is one call of, in the timeline's [`crate::Profile`].
    pub fn set_node(&mut self, id: SpanId, node: Option<NodeId>) {
        self.node[id.0 as usize] = node;
    }

    /// The path of calls that a span is one call of; none for what is no followed call.
    pub fn node(&self, id: SpanId) -> Option<NodeId> {
        self.node[id.0 as usize]
    }

    /// Makes room for `more` spans.
    pub fn reserve(&mut self, more: usize) {
        self.name.reserve(more);
        self.detail.reserve(more);
        self.start.reserve(more);
        self.end.reserve(more);
        self.track.reserve(more);
        self.kind.reserve(more);
        self.parent.reserve(more);
        self.depth.reserve(more);
        self.node.reserve(more);
    }

    /// Ends a span at another time (never before its start).
    pub fn set_end(&mut self, id: SpanId, end: Ns) {
        let i = id.0 as usize;
        self.end[i] = end.max(self.start[i]);
    }

    /// One span.
    pub fn get(&self, id: SpanId) -> SpanRow {
        let i = id.0 as usize;
        SpanRow {
            name: self.name[i],
            detail: self.detail[i],
            start: self.start[i],
            end: self.end[i],
            track: self.track[i],
            kind: self.kind[i],
        }
    }

    /// The span around this one on its track.
    pub fn parent(&self, id: SpanId) -> Option<SpanId> {
        let parent = self.parent[id.0 as usize];
        (parent != SpanId::NONE).then_some(parent)
    }

    /// How many spans are around this one.
    pub fn depth(&self, id: SpanId) -> u32 {
        self.depth[id.0 as usize]
    }

    /// All spans with their numbers. After [`Spans::nest`]: by track, then by start, outer ones first.
    pub fn iter(&self) -> impl Iterator<Item = (SpanId, SpanRow)> + '_ {
        (0..self.len() as u32).map(|i| (SpanId(i), self.get(SpanId(i))))
    }

    pub(crate) fn with_capacity(count: usize) -> Spans {
        Spans {
            name: Vec::with_capacity(count),
            detail: Vec::with_capacity(count),
            start: Vec::with_capacity(count),
            end: Vec::with_capacity(count),
            track: Vec::with_capacity(count),
            kind: Vec::with_capacity(count),
            parent: Vec::with_capacity(count),
            depth: Vec::with_capacity(count),
            node: Vec::with_capacity(count),
        }
    }

    /// All spans by track, start and length (longest first). Those of one track are mostly in order
    /// already, and a track is a number: so first the tracks apart, then each by itself.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = SpanId> + use<> {
        let by_track = |(i, track): (u64, &TrackId)| u64::from(track.0) << 32 | i;
        let mut order: Vec<u64> = (0..).zip(&self.track).map(by_track).collect();
        order.sort_unstable();
        for track in order.chunk_by_mut(|a, b| a >> 32 == b >> 32) {
            track.sort_by_key(|&entry| {
                let i = entry as u32 as usize;
                (self.start[i], std::cmp::Reverse(self.end[i]), self.kind[i], self.depth[i])
            });
        }
        order.into_iter().map(|entry| SpanId(entry as u32))
    }
}
