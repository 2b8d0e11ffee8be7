//! Builds nested spans from begin and end events, whatever order and balance they come in.

use crate::{DiagnosticKind, Diagnostics, NameId, Ns, SpanId, SpanKind, SpanRow, Spans, TrackId};

use hashbrown::HashMap;

/// Turns begin and end events into spans, on any number of tracks.
///
/// An end closes the innermost open span of its name and detail on its track; spans opened inside
/// that one and never ended are closed with it. Every begin becomes exactly one span. What does not
/// balance is counted: exits without an entry, entries without an exit, steps back of the clock.
/// Amortised `O(1)` per event, also for hostile input.
#[derive(Debug, Default)]
pub struct SpanBuilder {
    /// By the track's number, which is small: tracks are counted from 0.
    tracks: Vec<Open>,
}

/// So deep a stack is searched. Real stacks are hardly deeper; what lies deeper is counted by name instead, so that no
/// input can make an end without a begin cost more than this.
const SEARCHED: usize = 64;

#[derive(Debug, Default)]
struct Open {
    stack: Vec<(SpanId, NameId, NameId)>,
    /// How many of each name and detail lie deeper than [`SEARCHED`].
    deep: HashMap<(NameId, NameId), u32>,
    last: Option<Ns>,
}

impl Open {
    /// Time on one track never goes back: a step back is counted and taken as standing still.
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
        if self.stack.len() >= SEARCHED {
            *self.deep.entry((name, detail)).or_default() += 1;
        }
        self.stack.push((id, name, detail));
    }

    #[inline]
    fn pop(&mut self) -> Option<(SpanId, NameId, NameId)> {
        let top = self.stack.pop()?;
        if self.stack.len() >= SEARCHED {
            if let Some(n) = self.deep.get_mut(&(top.1, top.2)) {
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
        let searched = &self.stack[..self.stack.len().min(SEARCHED)];
        searched.iter().rev().any(is) || self.deep.get(&(name, detail)).is_some_and(|&n| n > 0)
    }

    /// All but the `kept` outermost end.
    fn close(
        &mut self,
        kept: usize,
        spans: &mut Spans,
        at: Ns,
        diagnostics: &mut Diagnostics,
        begun: impl Fn(SpanId) -> String,
    ) {
        let end = self.last.map_or(at, |last| last.max(at));
        while self.stack.len() > kept {
            if let Some((id, ..)) = self.pop() {
                spans.set_end(id, end);
                diagnostics.note(DiagnosticKind::EntryWithoutExit, || begun(id));
            }
        }
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
        let open = self.open(row.track);
        let start = open.advance(row.start, diagnostics, place);
        let parent = open.stack.last().map(|top| top.0);
        let id = spans.push(SpanRow { start, end: start, ..row }, parent);
        open.push(id, row.name, row.detail);
        id
    }

    /// The innermost open span of that name and detail on `track` ends. Returns it, if there is one. `place` says where the
    /// event stands, or, of a span that never ended, where that began.
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

    /// Name and detail of the innermost open span of that name on a track, whatever its detail. Looks at the innermost 64
    /// spans.
    #[inline]
    pub fn innermost_named(&self, track: TrackId, name: NameId) -> Option<(NameId, NameId)> {
        let stack = &self.tracks.get(track.0 as usize)?.stack;
        let open = stack.iter().rev().take(SEARCHED).find(|open| open.1 == name);
        open.map(|&(_, name, detail)| (name, detail))
    }

    /// What is open on a track inside its outermost span ends at `at`, or at the track's last event if that is later.
    pub fn close_inside(
        &mut self,
        spans: &mut Spans,
        track: TrackId,
        at: Ns,
        diagnostics: &mut Diagnostics,
        begun: impl Fn(SpanId) -> String,
    ) {
        self.open(track).close(1, spans, at, diagnostics, begun);
    }

    /// Nothing more is known of a track: what is open on it ends at `at`, or at its last event if that is later. `begun`
    /// says where a span began.
    pub fn close(
        &mut self,
        spans: &mut Spans,
        track: TrackId,
        at: Ns,
        diagnostics: &mut Diagnostics,
        begun: impl Fn(SpanId) -> String,
    ) {
        self.open(track).close(0, spans, at, diagnostics, begun);
    }

    /// No more events: what is still open ends at `at`, or at its track's last event if that is later.
    pub fn finish(self, spans: &mut Spans, at: Ns, diagnostics: &mut Diagnostics) {
        for mut open in self.tracks {
            open.close(0, spans, at, diagnostics, |_| String::new());
        }
    }

    #[inline]
    fn open(&mut self, track: TrackId) -> &mut Open {
        let number = track.0 as usize;
        if number >= self.tracks.len() {
            self.tracks.resize_with(number + 1, Open::default);
        }
        &mut self.tracks[number]
    }

    /// A row for [`SpanBuilder::begin`].
    pub fn row(track: TrackId, kind: SpanKind, name: NameId, detail: NameId, start: Ns) -> SpanRow {
        SpanRow { name, detail, start, end: start, track, kind }
    }
}
