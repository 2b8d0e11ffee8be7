//! The boot path as nested slices: the stacks of the threads that the path is charged to, and of the threads that wait
//! for them.
//!
//! While one thread goes on, its slices are its spans in the timeline. Stacks are compared only where the path goes to
//! another thread, or where time passes outside of spans.

use super::{Label, Slice};
use crate::Boot;
use analysis::{Frame, Stay, StretchKind};
use timeline::{Ns, SpanId, TrackId, TrackKind};

impl Boot<'_> {
    /// The boot path as nested slices: neighbouring stretches share the slice of a common frame. The time is linear in
    /// the slices, because only the changed part of a stack is visited.
    pub fn path_slices(&self) -> Vec<Slice> {
        let mut drawn = Stacks { boot: self, slices: Vec::new(), open: Vec::new(), chain: Vec::new(), leaf: None };
        let mut end = Ns::ZERO;
        for stay in self.stays.iter() {
            drawn.stay(stay, end);
            end = stay.to;
        }
        drawn.close(0, end);
        drawn.slices
    }

    /// True if a track holds the work of interrupts, which belongs to no thread.
    fn is_interrupts(&self, track: TrackId) -> bool {
        self.timeline.tracks.get(track).kind == TrackKind::Interrupts
    }

    /// The innermost span that contains both spans; it may be one of them.
    fn around_both(&self, a: Option<SpanId>, b: Option<SpanId>) -> Option<SpanId> {
        let spans = &self.timeline.spans;
        let (mut a, mut b) = (a?, b?);
        while a != b {
            // The deeper span moves to its parent. Two outermost spans have no parent, so the loop ends.
            match spans.depth(a) > spans.depth(b) {
                true => a = spans.parent(a)?,
                false => b = spans.parent(b)?,
            }
        }
        Some(a)
    }
}

/// The stacks of the boot path, one after the other.
struct Stacks<'a> {
    boot: &'a Boot<'a>,
    slices: Vec<Slice>,
    /// The current stack, as places in `slices`.
    open: Vec<usize>,
    /// The chain of waits in the stack, and the place in `open` where each thread's frames begin.
    chain: Vec<(Frame, usize)>,
    /// The innermost frame if it is a kind of wait.
    leaf: Option<Label>,
}

impl Stacks<'_> {
    /// Changes to the stacks of a stay. Slices that the new stack lacks ended at `end`.
    fn stay(&mut self, stay: &Stay, end: Ns) {
        let (waiters, Frame { track, .. }) = stay.waiters_and_owner();
        // A frame on top of the spans, or of another thread, begins and ends with each stretch.
        if !stay.goes_on || stay.kind != StretchKind::Running || self.boot.is_interrupts(track) {
            let mut end = end;
            return self.boot.stays.cut(stay, |stretch| {
                self.change_to(stretch.kind, &stretch.chain, stretch.from, end);
                end = stretch.to;
            });
        }
        let (span, next) = self.boot.timeline.spans.open_at(track, stay.from);
        let chain: Vec<Frame> = waiters.iter().copied().chain([Frame { track, span }]).collect();
        self.change_to(stay.kind, &chain, stay.from, end);
        self.go_through(track, next, stay.to);
    }

    /// Opens and closes the spans of the innermost thread until `to`. They lie in the order in which they begin.
    fn go_through(&mut self, track: TrackId, next: SpanId, to: Ns) {
        let spans = &self.boot.timeline.spans;
        let Some((frame, bottom)) = self.chain.last_mut() else { return };
        let outermost = *bottom + 1;
        for (id, row) in spans.iter_from(next).take_while(|(_, row)| row.track == track && row.start < to) {
            if row.start < row.end {
                self.open.truncate(outermost + spans.depth(id) as usize);
                self.open.push(self.slices.len());
                self.slices.push(Slice::of(&row, row.start));
                frame.span = Some(id);
            }
        }
        while let Some(ended) = frame.span.filter(|&span| spans.get(span).end < to) {
            self.open.pop();
            frame.span = spans.parent(ended);
        }
    }

    /// Changes to the stack of a chain of waits from `from` on. Slices that the new stack lacks ended at `end`.
    fn change_to(&mut self, kind: StretchKind, owned: &[Frame], from: Ns, end: Ns) {
        let leaf = match kind {
            StretchKind::Running => None,
            StretchKind::Runqueue => Some(Label::Runqueue),
            StretchKind::Interrupt(by) | StretchKind::Topic(by) => Some(Label::WaitFor(by)),
            StretchKind::Wait => Some(Label::Wait),
        };
        // An interrupt lies on top of what it interrupted, which continues after it.
        let on_top: Vec<Frame> = match owned {
            [alone] if self.boot.is_interrupts(alone.track) => {
                let below = self.chain.iter().map(|(frame, _)| *frame).take_while(|below| below.track != alone.track);
                below.chain([*alone]).collect()
            }
            _ => Vec::new(),
        };
        let chain = if on_top.is_empty() { owned } else { &on_top };
        let shared = self.chain.iter().zip(chain).take_while(|((open, _), frame)| open == *frame).count();
        if shared == self.chain.len() && shared == chain.len() && leaf == self.leaf {
            return;
        }
        if self.leaf.is_some() {
            self.close(self.open.len() - 1, end);
        }
        self.leaf = leaf;
        let mut rest = &chain[shared..];
        match (self.chain.get(shared).copied(), rest) {
            // Another span of the same thread: the spans that contain both stay open.
            (Some((before, _)), [now, others @ ..]) if before.track == now.track => {
                self.chain.truncate(shared + 1);
                self.go_on(*now, from, end);
                rest = others;
            }
            (Some((_, bottom)), _) => {
                self.close(bottom, end);
                self.chain.truncate(shared);
            }
            (None, _) => {}
        }
        for frame in rest {
            self.chain.push((*frame, self.open.len()));
            self.push(Label::Thread(frame.track), from);
            self.enter(frame.span, None, from);
        }
        if let Some(leaf) = leaf {
            self.push(leaf, from);
        }
    }

    /// The innermost thread goes on in another span. The spans that contain both stay open.
    fn go_on(&mut self, now: Frame, from: Ns, end: Ns) {
        let Some((frame, bottom)) = self.chain.last_mut() else { return };
        let before = std::mem::replace(frame, now);
        let common = self.boot.around_both(before.span, now.span);
        let kept = common.map_or(0, |span| self.boot.timeline.spans.depth(span) as usize + 1);
        let keep = *bottom + 1 + kept;
        self.close(keep, end);
        self.enter(now.span, common, from);
    }

    /// Opens `span` and its ancestors, up to but without `within`.
    fn enter(&mut self, span: Option<SpanId>, within: Option<SpanId>, from: Ns) {
        let spans = &self.boot.timeline.spans;
        let entered = self.open.len();
        let mut at = span;
        while let Some(id) = at.filter(|_| at != within) {
            let row = spans.get(id);
            self.open.push(self.slices.len());
            self.slices.push(Slice::of(&row, from));
            at = spans.parent(id);
        }
        // The loop wrote the innermost span first, and viewers need the outermost first.
        if let Some(&first) = self.open.get(entered) {
            self.slices[first..].reverse();
        }
    }

    fn push(&mut self, label: Label, from: Ns) {
        self.open.push(self.slices.len());
        self.slices.push(Slice { start: from, end: from, label, kind: None });
    }

    /// Ends the slices above the outermost `keep`.
    fn close(&mut self, keep: usize, end: Ns) {
        for slice in self.open.drain(keep..) {
            self.slices[slice].end = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Facts;
    use proptest::prelude::*;
    use timeline::{End, EndEvidence, Hold, NameId, Running, SpanKind, SpanRow, TimeBase, Timeline, Wait, WaitedOn};

    /// The slices computed from the stacks of all stretches.
    fn by_stretches(boot: &Boot) -> Vec<Slice> {
        let mut drawn = Stacks { boot, slices: Vec::new(), open: Vec::new(), chain: Vec::new(), leaf: None };
        let mut end = Ns::ZERO;
        for stretch in &boot.path().stretches {
            drawn.change_to(stretch.kind, &stretch.chain, stretch.from, end);
            end = stretch.to;
        }
        drawn.close(0, end);
        drawn.slices
    }

    fn by(who: u32, timer: NameId) -> WaitedOn {
        match who {
            0..4 => WaitedOn::Thread(TrackId(who)),
            4 => WaitedOn::Interrupt(timer),
            5 => WaitedOn::Nothing,
            _ => WaitedOn::Holders(timer),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn a_stay_is_drawn_like_its_stretches(
            spans in prop::collection::vec((0u32..4, 0i64..60, 0i64..40), 0..30),
            waits in prop::collection::vec((0u32..4, 0i64..60, (1i64..20, 0i64..5), 0u32..8), 0..5),
            holds in prop::collection::vec((0u32..4, 0i64..60, 1i64..30), 0..4),
            ran in prop::collection::vec((0u32..4, 0i64..60, 1i64..20), 0..6),
            created in prop::option::of((0i64..60, 1u32..4)),
        ) {
            let mut t = Timeline::new(TimeBase::Host);
            let timer = t.names.intern("timer");
            let interrupts = t.names.intern(timeline::INTERRUPTS);
            for i in 0..3 {
                t.tracks.add(NameId::EMPTY, TrackKind::Thread, i);
            }
            t.tracks.add(interrupts, TrackKind::Interrupts, 3);
            t.tracks.get_mut(TrackId(0)).created = created.map(|(at, by)| (Ns(at), TrackId(by)));
            for (track, start, length) in spans {
                let (track, start, end) = (TrackId(track), Ns(start), Ns(start + length));
                let (name, detail, kind) = (NameId::EMPTY, NameId::EMPTY, SpanKind::Call);
                t.spans.push(SpanRow { name, detail, start, end, track, kind }, None);
            }
            for (track, from, (length, queued), who) in waits {
                let (from, woken, until) = (Ns(from), Ns(from + length), Ns(from + length + queued));
                t.waits.push(Wait { track: TrackId(track), from, woken, until, by: by(who, timer), uninterruptible: false });
            }
            for (track, from, length) in holds {
                let (from, to) = (Ns(from), Ns(from + length));
                t.holds.push(Hold { topic: timer, track: TrackId(track), from, to });
            }
            for (track, from, length) in ran {
                t.running.push(Running { track: TrackId(track), cpu: 0, from: Ns(from), to: Ns(from + length) });
            }
            t.end = Some(End { at: Ns(90), error: Ns::ZERO, track: Some(TrackId(0)), evidence: EndEvidence::LastSign });
            t.finalize(Ns::ZERO);
            let facts = Facts::default();
            let boot = Boot::new(&t, &facts);
            prop_assert_eq!(boot.path_slices(), by_stretches(&boot));
        }
    }
}
