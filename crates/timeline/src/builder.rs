//! Builds nested spans from begin and end events, in any order and balance.

use crate::{DiagnosticKind, Diagnostics, NameId, Ns, SpanId, SpanKind, SpanRow, Spans, TrackId};

use hashbrown::HashMap;

/// Turns begin and end events into spans, on any number of tracks.
///
/// An end closes the innermost open span of its name and detail on its track. Spans that began inside that one and
/// never ended are closed with it. Every begin becomes exactly one span. The builder counts what does not balance:
/// exits without an entry, entries without an exit, steps back of the clock. Each event takes amortised `O(1)`, also
/// for hostile input.
#[derive(Debug, Default)]
pub struct SpanBuilder {
    /// Indexed by the track's number, which is small: tracks are numbered from 0.
    tracks: Vec<OpenSpans>,
}

/// The depth of stack that is searched; real stacks are hardly deeper. Deeper spans are counted by name instead. This
/// bounds the cost of an end without a begin for any input.
const MAX_SEARCHED_DEPTH: usize = 64;

#[derive(Debug, Default)]
struct OpenSpans {
    stack: Vec<(SpanId, NameId, NameId)>,
    /// The number of spans deeper than [`MAX_SEARCHED_DEPTH`], by name and detail.
    /// Boxed, because a log can have a track in each line and few are deep.
    deep: Option<Box<HashMap<(NameId, NameId), u32>>>,
    last: Option<Ns>,
}

impl OpenSpans {
    /// Time on one track never goes back. A step back is counted, and the track's time stands still.
    #[inline]
    fn advance(&mut self, at: Ns, diagnostics: &mut Diagnostics, place: impl FnOnce() -> String) -> Ns {
        match self.last {
            Some(last) if at < last => {
                diagnostics.note(DiagnosticKind::ClockBack, place);
                last
            }
            _ => {
                self.last = Some(at);
                at
            }
        }
    }

    #[inline]
    fn push(&mut self, id: SpanId, name: NameId, detail: NameId) {
        if self.stack.len() >= MAX_SEARCHED_DEPTH {
            *self.deep.get_or_insert_default().entry((name, detail)).or_default() += 1;
        }
        self.stack.push((id, name, detail));
    }

    #[inline]
    fn pop(&mut self) -> Option<(SpanId, NameId, NameId)> {
        let top = self.stack.pop()?;
        if self.stack.len() >= MAX_SEARCHED_DEPTH {
            if let Some(n) = self.deep.as_mut().and_then(|deep| deep.get_mut(&(top.1, top.2))) {
                *n -= 1;
            }
        }
        Some(top)
    }

    #[inline]
    fn has(&self, name: NameId, detail: NameId) -> bool {
        let is = |open: &(SpanId, NameId, NameId)| (open.1, open.2) == (name, detail);
        if self.stack.last().is_some_and(is) {
            return true;
        }
        let searched = &self.stack[..self.stack.len().min(MAX_SEARCHED_DEPTH)];
        searched.iter().rev().any(is)
            || self.deep.as_ref().and_then(|deep| deep.get(&(name, detail))).is_some_and(|&n| n > 0)
    }

    /// Closes all open spans except the `kept` outermost ones.
    fn close(
        &mut self,
        kept: usize,
        spans: &mut Spans,
        at: Ns,
        diagnostics: &mut Diagnostics,
        begin_place: impl Fn(SpanId) -> String,
    ) {
        let end = self.last.map_or(at, |last| last.max(at));
        while self.stack.len() > kept {
            if let Some((id, ..)) = self.pop() {
                spans.set_end(id, end);
                diagnostics.note(DiagnosticKind::EntryWithoutExit, || begin_place(id));
            }
        }
    }
}

impl SpanBuilder {
    /// Begins a span at `row.start` (its `end` is ignored). `place` describes where the event stands in the evidence.
    pub fn begin(
        &mut self,
        spans: &mut Spans,
        row: SpanRow,
        diagnostics: &mut Diagnostics,
        place: impl FnOnce() -> String,
    ) -> SpanId {
        let open = self.open(row.track);
        let start = open.advance(row.start, diagnostics, place);
        let parent = open.stack.last().map(|top| top.0);
        let id = spans.push(SpanRow { start, end: start, ..row }, parent);
        open.push(id, row.name, row.detail);
        id
    }

    /// Ends the innermost open span of that name and detail on `track`, and returns it. Returns `None` if there is no
    /// such span. `place` describes where the event stands. For a span that never ended, it describes where that span
    /// began.
    pub fn end(
        &mut self,
        spans: &mut Spans,
        track: TrackId,
        (name, detail): (NameId, NameId),
        at: Ns,
        diagnostics: &mut Diagnostics,
        place: impl Fn(Option<SpanId>) -> String,
    ) -> Option<SpanId> {
        let open = self.open(track);
        let at = open.advance(at, diagnostics, || place(None));
        if !open.has(name, detail) {
            diagnostics.note(DiagnosticKind::ExitWithoutEntry, || place(None));
            return None;
        }
        while let Some((id, n, d)) = open.pop() {
            spans.set_end(id, at);
            if (n, d) == (name, detail) {
                return Some(id);
            }
            diagnostics.note(DiagnosticKind::EntryWithoutExit, || place(Some(id)));
        }
        None
    }

    /// The innermost open span of a track.
    pub fn innermost(&self, track: TrackId) -> Option<SpanId> {
        self.tracks.get(track.0 as usize)?.stack.last().map(|top| top.0)
    }

    /// Name and detail of the innermost open span of that name on a track, with any detail. Only the innermost 64 spans
    /// are searched.
    #[inline]
    pub fn innermost_named(&self, track: TrackId, name: NameId) -> Option<(NameId, NameId)> {
        let stack = &self.tracks.get(track.0 as usize)?.stack;
        let open = stack.iter().rev().take(MAX_SEARCHED_DEPTH).find(|open| open.1 == name);
        open.map(|&(_, name, detail)| (name, detail))
    }

    /// Ends the spans that are open inside a track's outermost span. They end at `at`, or at the track's last event if
    /// that is later.
    pub fn close_inside(
        &mut self,
        spans: &mut Spans,
        track: TrackId,
        at: Ns,
        diagnostics: &mut Diagnostics,
        begin_place: impl Fn(SpanId) -> String,
    ) {
        self.open(track).close(1, spans, at, diagnostics, begin_place);
    }

    /// Ends all open spans of a track about which nothing more is known. They end at `at`, or at the track's last event
    /// if that is later. `begin_place` describes where a span began.
    pub fn close(
        &mut self,
        spans: &mut Spans,
        track: TrackId,
        at: Ns,
        diagnostics: &mut Diagnostics,
        begin_place: impl Fn(SpanId) -> String,
    ) {
        self.open(track).close(0, spans, at, diagnostics, begin_place);
    }

    /// Ends all open spans after the last event. They end at `at`, or at their track's last event if that is later.
    pub fn finish(self, spans: &mut Spans, at: Ns, diagnostics: &mut Diagnostics) {
        for mut open in self.tracks {
            open.close(0, spans, at, diagnostics, |_| String::new());
        }
    }

    #[inline]
    fn open(&mut self, track: TrackId) -> &mut OpenSpans {
        let number = track.0 as usize;
        if number >= self.tracks.len() {
            self.tracks.resize_with(number + 1, OpenSpans::default);
        }
        &mut self.tracks[number]
    }

    /// A row for [`SpanBuilder::begin`].
    pub fn row(track: TrackId, kind: SpanKind, name: NameId, detail: NameId, start: Ns) -> SpanRow {
        SpanRow { name, detail, start, end: start, track, kind }
    }
}
