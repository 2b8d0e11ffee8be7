//! Work: named intervals on tracks.

use crate::{NameId, NodeId, Ns, SpanKind, TrackId};
use hashbrown::HashSet;

/// The largest number of different span names, with their details. Each is a row of several tables. Linux calls some
/// ten thousand functions while it boots.
pub const SPAN_NAMES_MAX: usize = 1 << 15;

/// A span in [`Spans`]. Numbers change when the spans are [nested](Spans::nest).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId(pub u32);

impl SpanId {
    const NONE: SpanId = SpanId(u32::MAX);
}

/// One span, by value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpanRow {
    /// The kind of work (`initcall`), or a function's name.
    pub name: NameId,
    /// The item (`acpi_init`), or empty.
    pub detail: NameId,
    pub start: Ns,
    /// Never before `start`.
    pub end: Ns,
    pub track: TrackId,
    pub kind: SpanKind,
}

impl SpanRow {
    pub fn length(&self) -> Ns {
        self.end - self.start
    }
}

/// A span and its place among the others.
#[derive(Clone, Copy, Debug)]
struct Placed {
    row: SpanRow,
    parent: SpanId,
    depth: u32,
    call: Call,
}

/// The call that a span stands for. It is one value, because every span has one.
#[derive(Clone, Copy, Debug)]
enum Call {
    /// None, or it is not known.
    Unknown,
    /// One call of this path.
    Of(NodeId),
    /// The first call of its call site; later ones are not known.
    First,
}

/// All spans of a timeline. Each is one record, because code that reads a span nearly always needs most of its fields.
#[derive(Clone, Debug, Default)]
pub struct Spans(Vec<Placed>);

impl Spans {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a span below `parent`. If it ends before its start, it ends at its start.
    ///
    /// # Panics
    /// After four thousand million spans.
    #[inline]
    pub fn push(&mut self, row: SpanRow, parent: Option<SpanId>) -> SpanId {
        let id = SpanId(u32::try_from(self.len()).expect("fewer than 2^32 spans"));
        let depth = parent.map_or(0, |parent| self.depth(parent) + 1);
        let row = SpanRow { end: row.end.max(row.start), ..row };
        self.0.push(Placed { row, parent: parent.unwrap_or(SpanId::NONE), depth, call: Call::Unknown });
        id
    }

    /// Sets the call path of a span, in the timeline's [`crate::Profile`]. The span is one call of that path.
    pub fn set_node(&mut self, id: SpanId, node: Option<NodeId>) {
        self.0[id.0 as usize].call = node.map_or(Call::Unknown, Call::Of);
    }

    /// The call path that a span is one call of; `None` if the span is not a followed call.
    pub fn node(&self, id: SpanId) -> Option<NodeId> {
        match self.0[id.0 as usize].call {
            Call::Of(node) => Some(node),
            Call::Unknown | Call::First => None,
        }
    }

    /// Marks a span as the first call of its call site. The evidence has no later calls from there.
    pub fn set_first_call(&mut self, id: SpanId) {
        self.0[id.0 as usize].call = Call::First;
    }

    /// True if the evidence has only the first call from the span's call site.
    pub fn is_first_call(&self, id: SpanId) -> bool {
        matches!(self.0[id.0 as usize].call, Call::First)
    }

    /// Copies which call a span is from a span of another list.
    pub fn copy_call(&mut self, id: SpanId, from: &Spans, other: SpanId) {
        self.0[id.0 as usize].call = from.0[other.0 as usize].call;
    }

    /// Makes room for `more` spans.
    pub fn reserve(&mut self, more: usize) {
        self.0.reserve(more);
    }

    /// Sets the end of a span, never before its start.
    #[inline]
    pub fn set_end(&mut self, id: SpanId, end: Ns) {
        let row = &mut self.0[id.0 as usize].row;
        row.end = end.max(row.start);
    }

    /// Sets a span's kind and detail, once they are known.
    pub fn set_what(&mut self, id: SpanId, kind: SpanKind, detail: NameId) {
        let row = &mut self.0[id.0 as usize].row;
        (row.kind, row.detail) = (kind, detail);
    }

    #[inline]
    pub fn get(&self, id: SpanId) -> SpanRow {
        self.0[id.0 as usize].row
    }

    /// The span around this one on its track.
    #[inline]
    pub fn parent(&self, id: SpanId) -> Option<SpanId> {
        let parent = self.0[id.0 as usize].parent;
        (parent != SpanId::NONE).then_some(parent)
    }

    /// The number of spans around this one.
    #[inline]
    pub fn depth(&self, id: SpanId) -> u32 {
        self.0[id.0 as usize].depth
    }

    /// All spans with their numbers. After [`Spans::nest`]: by track, then by start, outer ones first.
    pub fn iter(&self) -> impl Iterator<Item = (SpanId, SpanRow)> + '_ {
        (0..).map(SpanId).zip(self.0.iter().map(|placed| placed.row))
    }

    /// The same, starting with one span.
    pub fn iter_from(&self, first: SpanId) -> impl Iterator<Item = (SpanId, SpanRow)> + '_ {
        (first.0..).map(SpanId).zip(self.0[first.0 as usize..].iter().map(|placed| placed.row))
    }

    /// The innermost span that is open on a track at an instant, and the first span that starts later in the order of
    /// [`Spans::iter`]. Call it after [`Spans::nest`]. `O(log n)`, plus one step for each span inside the open one that
    /// has already ended.
    pub fn open_at(&self, track: TrackId, at: Ns) -> (Option<SpanId>, SpanId) {
        let later = self.0.partition_point(|placed| (placed.row.track, placed.row.start) <= (track, at));
        let later = crate::number(later);
        let mut open = later.checked_sub(1).map(SpanId).filter(|&last| self.get(last).track == track);
        while let Some(ended) = open.filter(|&last| self.get(last).end <= at) {
            open = self.parent(ended);
        }
        (open, SpanId(later))
    }

    /// Replaces all names beyond the first [`SPAN_NAMES_MAX`] by a common one. Returns the number of spans renamed.
    pub(crate) fn bound_names(&mut self) -> u64 {
        if self.len() <= SPAN_NAMES_MAX {
            return 0;
        }
        let mut kept: HashSet<(NameId, NameId)> = HashSet::with_capacity(SPAN_NAMES_MAX);
        let (mut last, mut renamed) = (None, 0);
        for placed in &mut self.0 {
            let name = (placed.row.name, placed.row.detail);
            if last == Some(name) {
                continue;
            }
            if kept.len() < SPAN_NAMES_MAX {
                kept.insert(name);
            } else if !kept.contains(&name) {
                (placed.row.name, placed.row.detail) = (NameId::OTHERS, NameId::EMPTY);
                renamed += 1;
                continue;
            }
            last = Some(name);
        }
        renamed
    }

    pub(crate) fn with_capacity(count: usize) -> Spans {
        Spans(Vec::with_capacity(count))
    }

    /// All spans by track, start and length (longest first). The spans of one track are mostly in order already, and a
    /// track is a number. So the spans are first separated by track, then sorted within each track.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = SpanId> + use<> {
        let by_track = |(i, placed): (u64, &Placed)| u64::from(placed.row.track.0) << 32 | i;
        let mut order: Vec<u64> = (0..).zip(&self.0).map(by_track).collect();
        order.sort_unstable();
        for track in order.chunk_by_mut(|a, b| a >> 32 == b >> 32) {
            track.sort_by_key(|&entry| {
                let Placed { row, depth, .. } = self.0[lower_half(entry) as usize];
                (row.start, std::cmp::Reverse(row.end), row.kind, depth)
            });
        }
        order.into_iter().map(|entry| SpanId(lower_half(entry)))
    }
}

/// The lower half of an entry, below the track's number.
#[expect(clippy::cast_possible_truncation, reason = "the upper half is to be left out")]
#[inline]
fn lower_half(entry: u64) -> u32 {
    entry as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Diagnostics;

    #[test]
    fn names_beyond_the_bound_are_one() {
        let (mut spans, mut names) = (Spans::default(), crate::Names::default());
        let name_of = |i: usize| format!("f{}", i % (SPAN_NAMES_MAX + 10));
        for i in 0..2 * SPAN_NAMES_MAX {
            let (name, at) = (names.intern(&name_of(i)), Ns(i64::try_from(i).unwrap()));
            let (detail, kind, track) = (NameId::EMPTY, SpanKind::Call, TrackId(0));
            spans.push(SpanRow { name, detail, start: at, end: at, track, kind }, None);
        }
        assert_eq!(spans.bound_names(), 10);
        for (i, (_, row)) in spans.iter().enumerate() {
            let is_other = (SPAN_NAMES_MAX..SPAN_NAMES_MAX + 10).contains(&i);
            assert_eq!(names.get(row.name), if is_other { crate::OTHERS.to_owned() } else { name_of(i) });
        }
    }

    #[test]
    fn the_open_span_is_the_last_one_around_the_instant() {
        let mut spans = Spans::default();
        let all = [(0, 10, 50), (0, 20, 30), (0, 30, 35), (0, 33, 33), (0, 40, 50), (0, 60, 70), (1, 0, 90), (1, 5, 6)];
        for (track, start, end) in all {
            let (name, detail, kind, track) = (NameId::EMPTY, NameId::EMPTY, SpanKind::Call, TrackId(track));
            spans.push(SpanRow { name, detail, start: Ns(start), end: Ns(end), track, kind }, None);
        }
        spans.nest(Ns::ZERO, &mut Diagnostics::default());
        for (track, at) in (0..3).flat_map(|track| (-1..100).map(move |at| (TrackId(track), Ns(at)))) {
            let around = |row: SpanRow| row.track == track && row.start <= at && at < row.end;
            let innermost = spans.iter().filter(|&(_, row)| around(row)).last().map(|(id, _)| id);
            let (open, later) = spans.open_at(track, at);
            assert_eq!(open, innermost, "{track:?} {at:?}");
            let next = spans.iter_from(later).next();
            let expected = spans.iter().find(|(_, row)| (row.track, row.start) > (track, at));
            assert_eq!(next, expected, "{track:?} {at:?}");
        }
    }
}
