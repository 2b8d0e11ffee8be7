//! Builds nested spans from begin and end events, whatever order and balance they come in.

use crate::{Diagnostics, NameId, Ns, SpanId, SpanKind, SpanRow, Spans, TrackId};
use hashbrown::HashMap;

/// Turns begin and end events into spans, on any number of tracks.
///
/// An end closes the innermost open span of its name and detail on its track; spans opened inside
/// that one and never ended are closed with it. Every begin becomes exactly one span. What does not
/// balance is counted: `exit without an entry`, `entry without an exit`, `clock stepped back`.
/// Amortised `O(1)` per event, also for hostile input.
#[derive(Debug, Default)]
pub struct SpanBuilder {
    tracks: HashMap<TrackId, Open>,
}

#[derive(Debug, Default)]
struct Open {
    stack: Vec<(SpanId, NameId, NameId)>,
    /// How many of each name and detail are on the stack, so that an end without a begin costs no search.
    count: HashMap<(NameId, NameId), u32>,
    last: Option<Ns>,
}

impl Open {
    /// Time on one track never goes back: a step back is counted and taken as standing still.
    fn advance(&mut self, at: Ns, diagnostics: &mut Diagnostics, place: impl FnOnce() -> String) -> Ns {
        match self.last {
            Some(last) if at < last => {
                diagnostics.note("clock stepped back", place);
                last
            }
            _ => {
                self.last = Some(at);
                at
            }
        }
    }

    fn pop(&mut self) -> Option<(SpanId, NameId, NameId)> {
        let top = self.stack.pop()?;
        if let Some(n) = self.count.get_mut(&(top.1, top.2)) {
            *n -= 1;
        }
        Some(top)
    }
}

impl SpanBuilder {
    /// A span begins at `row.start` (its `end` is ignored). `place` says where the event stands.
    pub fn begin(
        &mut self,
        spans: &mut Spans,
        row: SpanRow,
        diagnostics: &mut Diagnostics,
        place: impl FnOnce() -> String,
    ) -> SpanId {
        let open = self.tracks.entry(row.track).or_default();
        let start = open.advance(row.start, diagnostics, place);
        let parent = open.stack.last().map(|top| top.0);
        let id = spans.push(SpanRow { start, end: start, ..row }, parent);
        open.stack.push((id, row.name, row.detail));
        *open.count.entry((row.name, row.detail)).or_default() += 1;
        id
    }

    /// The innermost open span of that name and detail on `track` ends. Returns it, if there is one.
    pub fn end(
        &mut self,
        spans: &mut Spans,
        track: TrackId,
        (name, detail): (NameId, NameId),
        at: Ns,
        diagnostics: &mut Diagnostics,
        place: impl Fn() -> String,
    ) -> Option<SpanId> {
        let open = self.tracks.entry(track).or_default();
        let at = open.advance(at, diagnostics, &place);
        if open.count.get(&(name, detail)).is_none_or(|&n| n == 0) {
            diagnostics.note("exit without an entry", place);
            return None;
        }
        while let Some((id, n, d)) = open.pop() {
            spans.set_end(id, at);
            if (n, d) == (name, detail) {
                return Some(id);
            }
            diagnostics.note("entry without an exit", &place);
        }
        None
    }

    /// The innermost open span of a track.
    pub fn innermost(&self, track: TrackId) -> Option<SpanId> {
        self.tracks.get(&track)?.stack.last().map(|top| top.0)
    }

    /// No more events: what is still open ends at `at`, or at its track's last event if that is later.
    pub fn finish(self, spans: &mut Spans, at: Ns, diagnostics: &mut Diagnostics) {
        for mut open in self.tracks.into_values() {
            let end = open.last.map_or(at, |last| last.max(at));
            while let Some((id, ..)) = open.pop() {
                spans.set_end(id, end);
                diagnostics.note("entry without an exit", String::new);
            }
        }
    }

    /// A row for [`SpanBuilder::begin`].
    pub fn row(track: TrackId, kind: SpanKind, name: NameId, detail: NameId, start: Ns) -> SpanRow {
        SpanRow { name, detail, start, end: start, track, kind }
    }
}
