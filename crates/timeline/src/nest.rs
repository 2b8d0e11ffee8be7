//! Nests the spans of several sources on one track.
//!
//! Spans of one source nest by construction. Spans of two sources can cross by as much as their clocks disagree. The
//! ends of a span that the kernel reported (an initcall, a probe, work) are never moved. A *call* is inferred from when
//! code ran, on another clock, and is fit_call to the reported spans. An end of a call within the tolerance of a reported
//! end is moved onto it. A call that still crosses a reported span is left out, and counted.

use crate::{DiagnosticKind, Diagnostics, Ns, SpanId, SpanKind, SpanRow, Spans, TrackId};

/// The largest number of times that the ends of one call are moved. A call that crosses more reported spans is left
/// out.
const MAX_MOVES: usize = 8;

impl Spans {
    /// Sorts by track, start, and length (longest first), and computes each span's parent.
    ///
    /// Calls are fit_call to the other spans. If two calls, or two other spans, cross, the one that starts later is cut
    /// at the end of the one it starts in. A cut of more than `tolerance` is counted. `O(n log n)`.
    pub fn nest(&mut self, tolerance: Ns, diagnostics: &mut Diagnostics) {
        if self.is_nested() {
            return;
        }
        let calls = self.iter().filter(|(_, row)| row.kind == SpanKind::Call).count();
        if calls == 0 || calls == self.len() {
            *self = nested(self, tolerance, diagnostics);
            return;
        }
        let mut reported = Spans::with_capacity(self.len());
        for (id, row) in self.iter().filter(|(_, row)| row.kind != SpanKind::Call) {
            let reported_id = reported.push(row, None);
            reported.copy_call(reported_id, self, id);
        }
        let reported = nested(&reported, tolerance, diagnostics);
        let first = first_of_tracks(&reported);
        let mut all = reported.clone();
        let mut crossing = Vec::new();
        for (id, row) in self.iter().filter(|(_, row)| row.kind == SpanKind::Call) {
            match fit_call(row, &reported, &first, tolerance) {
                Some(row) => {
                    let fitted_id = all.push(row, None);
                    all.copy_call(fitted_id, self, id);
                }
                None => crossing.push((row.start, row.end)),
            }
        }
        diagnostics.note_stretches(DiagnosticKind::CallsCross, crossing, String::new);
        *self = nested(&all, tolerance, diagnostics);
    }

    /// True if all spans already lie in their parents, by track and in order of time. A reader of whole stacks can
    /// produce such spans, and then nesting has nothing to do. `O(n)`.
    fn is_nested(&self) -> bool {
        let mut open: Vec<SpanId> = Vec::new();
        let mut last = TrackId(0);
        for (id, row) in self.iter() {
            let parent = self.parent(id);
            let mut before = None;
            while open.last().is_some_and(|&top| Some(top) != parent) {
                before = open.pop();
            }
            if parent.is_some() && open.is_empty() {
                return false;
            }
            let follows = before.map(|b| self.get(b)).is_none_or(|b| b.track != row.track || b.end <= row.start);
            let inside =
                |around: SpanRow| around.track == row.track && around.start <= row.start && row.end <= around.end;
            let inside = open.last().is_none_or(|&around| inside(self.get(around)));
            if row.track < last || !follows || !inside {
                return false;
            }
            last = row.track;
            open.push(id);
        }
        true
    }
}

fn nested(spans: &Spans, tolerance: Ns, diagnostics: &mut Diagnostics) -> Spans {
    let mut nested = Spans::with_capacity(spans.len());
    let mut open: Vec<SpanId> = Vec::new();
    for id in spans.in_order() {
        let mut row = spans.get(id);
        while let Some(&top) = open.last() {
            let around = nested.get(top);
            // An empty span at the very end of another still lies in it. Any other span there comes after it.
            let inside = row.start < around.end || (row.start == around.end && row.length() == Ns::ZERO);
            if around.track == row.track && inside {
                if row.end - around.end > tolerance {
                    diagnostics.note_time(DiagnosticKind::SpanEndsAfterItsParent, row.end - around.end, String::new);
                }
                row.end = row.end.min(around.end);
                break;
            }
            open.pop();
        }
        let nested_id = nested.push(row, open.last().copied());
        nested.copy_call(nested_id, spans, id);
        open.push(nested_id);
    }
    nested
}

/// The first span of each track, in nested spans.
fn first_of_tracks(spans: &Spans) -> Vec<(TrackId, u32)> {
    let mut first: Vec<(TrackId, u32)> = Vec::new();
    for (id, row) in spans.iter() {
        if first.last().is_none_or(|&(track, _)| track != row.track) {
            first.push((row.track, id.0));
        }
    }
    first
}

/// The innermost reported span of a track that began before `at` and ends after it.
fn innermost(spans: &Spans, first: &[(TrackId, u32)], track: TrackId, at: Ns) -> Option<SpanRow> {
    let place = first.binary_search_by_key(&track, |&(t, _)| t).ok()?;
    let begin = first[place].1;
    let end = first.get(place + 1).map_or(crate::number(spans.len()), |&(_, next)| next);
    let (mut low, mut high) = (begin, end);
    while low < high {
        let middle = low + (high - low) / 2;
        if spans.get(SpanId(middle)).start < at { low = middle + 1 } else { high = middle }
    }
    let mut candidate = (low > begin).then(|| SpanId(low - 1));
    while let Some(id) = candidate {
        if spans.get(id).end > at {
            return Some(spans.get(id));
        }
        candidate = spans.parent(id);
    }
    None
}

/// Moves the ends of a call so that it crosses no reported span. Returns `None` where that is not possible.
fn fit_call(mut call: SpanRow, reported: &Spans, first: &[(TrackId, u32)], tolerance: Ns) -> Option<SpanRow> {
    for _ in 0..MAX_MOVES {
        let around_start = innermost(reported, first, call.track, call.start);
        let around_end = innermost(reported, first, call.track, call.end);
        if let Some(ends) = around_start.filter(|r| r.end < call.end) {
            // The call reaches out of the span that it starts in.
            if call.end - ends.end <= tolerance {
                call.end = ends.end;
            } else if ends.end - call.start <= tolerance {
                call.start = ends.end;
            } else if call.start - ends.start <= tolerance {
                call.start = ends.start;
            } else {
                return None;
            }
        } else if let Some(begins) = around_end.filter(|r| r.start > call.start) {
            // The call reaches into the span that it ends in.
            if begins.start - call.start <= tolerance {
                call.start = begins.start;
            } else if call.end - begins.start <= tolerance {
                call.end = begins.start;
            } else if begins.end - call.end <= tolerance {
                call.end = begins.end;
            } else {
                return None;
            }
        } else {
            return (call.start < call.end).then_some(call);
        }
    }
    None
}
