//! The innermost span on a track at each instant. Each track is cut into pieces once, then looked up.

use timeline::{Ns, SpanId, Timeline, TrackId, Wait, WaitedOn};

/// A piece of a track with one innermost span, or with no span.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segment {
    pub from: Ns,
    pub to: Ns,
    pub span: Option<SpanId>,
}

/// The pieces of every track. Memory and time are linear in the number of spans.
pub struct Segments {
    /// By track, then by time.
    pieces: Vec<Piece>,
    /// The place of each track's first piece in `pieces`, then the number of pieces.
    firsts: Vec<u32>,
}

/// A piece with a span. As large as a [`Segment`], so the track costs nothing.
#[derive(Clone, Copy)]
struct Piece {
    from: Ns,
    to: Ns,
    span: SpanId,
    track: TrackId,
}

impl Segments {
    pub fn new(timeline: &Timeline) -> Segments {
        let mut pieces = Vec::new();
        let mut open: Vec<SpanId> = Vec::new();
        let mut cursor = Ns::ZERO;
        for (id, row) in timeline.spans.iter() {
            let parent = timeline.spans.parent(id);
            while open.last().is_some_and(|&top| parent != Some(top)) {
                close(&mut pieces, timeline, &mut open, &mut cursor);
            }
            if let Some(&top) = open.last() {
                push(&mut pieces, row.track, cursor, row.start, top);
            }
            cursor = row.start;
            open.push(id);
        }
        while !open.is_empty() {
            close(&mut pieces, timeline, &mut open, &mut cursor);
        }
        if !pieces.is_sorted_by_key(|piece| piece.track.0) {
            pieces.sort_by_key(|piece| piece.track.0); // spans come track by track, unless the caller mixed them
        }
        let mut firsts = vec![0; timeline.tracks.len() + 1];
        pieces.iter().for_each(|piece| firsts[piece.track.0 as usize + 1] += 1);
        for track in 1..firsts.len() {
            firsts[track] += firsts[track - 1];
        }
        Segments { pieces, firsts }
    }

    /// The pieces of a track that have a span, in order of time.
    fn of_track(&self, track: TrackId) -> &[Piece] {
        let track = track.0 as usize;
        &self.pieces[self.firsts[track] as usize..self.firsts[track + 1] as usize]
    }

    /// Passes on the pieces of `from..to` on a track, in order of time and without gaps.
    pub fn within(&self, track: TrackId, from: Ns, to: Ns, mut each: impl FnMut(Segment)) {
        let all = self.of_track(track);
        let mut at = from;
        for piece in &all[all.partition_point(|s| s.to <= from)..] {
            if piece.from >= to {
                break;
            }
            if piece.from > at {
                each(Segment { from: at, to: piece.from, span: None });
                at = piece.from;
            }
            let end = piece.to.min(to);
            each(Segment { from: at, to: end, span: Some(piece.span) });
            at = end;
        }
        if at < to {
            each(Segment { from: at, to, span: None });
        }
    }

    /// Passes on the same pieces from the end backwards.
    pub fn within_backwards(&self, track: TrackId, from: Ns, to: Ns, mut each: impl FnMut(Segment)) {
        let all = self.of_track(track);
        let mut at = to;
        for piece in all[..all.partition_point(|s| s.from < to)].iter().rev() {
            if piece.to <= from {
                break;
            }
            if piece.to < at {
                each(Segment { from: piece.to, to: at, span: None });
                at = piece.to;
            }
            let begin = piece.from.max(from);
            each(Segment { from: begin, to: at, span: Some(piece.span) });
            at = begin;
        }
        if at > from {
            each(Segment { from, to: at, span: None });
        }
    }

    /// Returns the start of the first span on a track.
    pub fn first(&self, track: TrackId) -> Option<Ns> {
        self.of_track(track).first().map(|piece| piece.from)
    }

    /// Returns since when no span has been open on a track at `at`. [`Ns::MIN`]: no span came before. `None`: a span is
    /// open.
    pub fn idle_since(&self, track: TrackId, at: Ns) -> Option<Ns> {
        let all = self.of_track(track);
        let ended = all.partition_point(|s| s.to <= at);
        let is_open = all.get(ended).is_some_and(|piece| piece.from < at);
        let last = ended.checked_sub(1).map_or(Ns::MIN, |i| all[i].to);
        (!is_open).then_some(last)
    }

    /// Returns the innermost span of a track when it began to wait. If the track itself reports the wait, spans entered
    /// or left at that very instant count as entered or left. If its switching away is seen, the switch ends the span
    /// before.
    pub fn waiting(&self, wait: &Wait) -> Option<SpanId> {
        match wait.by {
            WaitedOn::Holders(_) => {
                let all = self.of_track(wait.track);
                let piece = all.get(all.partition_point(|s| s.to <= wait.from))?;
                (piece.from <= wait.from).then_some(piece.span)
            }
            _ => self.before(wait.track, wait.from),
        }
    }

    /// Returns the innermost span just before an instant.
    fn before(&self, track: TrackId, at: Ns) -> Option<SpanId> {
        let all = self.of_track(track);
        let piece = all.get(all.partition_point(|s| s.to < at))?;
        (piece.from < at).then_some(piece.span)
    }
}

fn close(pieces: &mut Vec<Piece>, timeline: &Timeline, open: &mut Vec<SpanId>, cursor: &mut Ns) {
    if let Some(top) = open.pop() {
        let row = timeline.spans.get(top);
        push(pieces, row.track, *cursor, row.end, top);
        *cursor = (*cursor).max(row.end);
    }
}

fn push(pieces: &mut Vec<Piece>, track: TrackId, from: Ns, to: Ns, span: SpanId) {
    if from < to {
        pieces.push(Piece { from, to, span, track });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use timeline::{NameId, SpanKind, SpanRow, TimeBase, TrackKind};

    #[test]
    fn backwards_gives_the_same_pieces_in_reverse() {
        let mut t = Timeline::new(TimeBase::Evidence);
        let track = t.tracks.add(NameId::EMPTY, TrackKind::Thread, 1);
        for (start, end) in [(10, 50), (20, 30), (30, 35), (60, 70)] {
            let (name, detail, kind) = (NameId::EMPTY, NameId::EMPTY, SpanKind::Call);
            t.spans.push(SpanRow { name, detail, start: Ns(start), end: Ns(end), track, kind }, None);
        }
        t.finalize(Ns::ZERO);
        let segments = Segments::new(&t);
        for from in 0..80 {
            for to in from..80 {
                let (mut forwards, mut backwards) = (Vec::new(), Vec::new());
                segments.within(track, Ns(from), Ns(to), |piece| forwards.push(piece));
                segments.within_backwards(track, Ns(from), Ns(to), |piece| backwards.push(piece));
                backwards.reverse();
                assert_eq!(forwards, backwards, "{from} to {to}");
            }
        }
    }
}
