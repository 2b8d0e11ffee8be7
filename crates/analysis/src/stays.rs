//! The boot path in as few pieces as it is walked in: while one thread has the time, it is not cut where that enters or
//! leaves a function. Who wants each function's time cuts it into [stretches](BootPath); who draws, sweeps over the spans.

use crate::chain::{Chain, Frame};
use crate::segments::Segments;
use crate::stretch::{BootPath, CpuHeld, Stretch, StretchKind};
use std::cell::OnceCell;
use timeline::{Ns, Timeline, Wait, WaitedOn};

/// A part of the boot path that belongs to one thread.
#[derive(Clone, Debug, PartialEq)]
pub struct Stay {
    /// From when.
    pub from: Ns,
    /// Until when; later than `from`.
    pub to: Ns,
    /// Why the time passed.
    pub kind: StretchKind,
    /// Who waited for whom; the owner last. Never empty.
    pub chain: Chain,
    /// Whether the owner goes on from span to span: `chain` does not say then what it was in.
    pub goes_on: bool,
}

impl Stay {
    /// Who waited for the owner, and the owner.
    pub fn waiters_and_owner(&self) -> (&[Frame], Frame) {
        let (owner, waiters) = self.chain.split_last().expect("a chain has an owner");
        (waiters, *owner)
    }
}

/// The whole path, in order of time.
pub struct Stays<'a> {
    pub(crate) timeline: &'a Timeline,
    pub(crate) all: Vec<Stay>,
    /// If it was needed on the way.
    pub(crate) segments: OnceCell<Segments>,
    pub(crate) cpu_held: Vec<CpuHeld>,
    pub(crate) too_deep: u64,
}

impl<'a> Stays<'a> {
    /// A path of nothing, to be filled in.
    pub(crate) fn none(timeline: &'a Timeline) -> Stays<'a> {
        Stays { timeline, all: Vec::new(), segments: OnceCell::new(), cpu_held: Vec::new(), too_deep: 0 }
    }

    /// In order of time.
    pub fn iter(&self) -> std::slice::Iter<'_, Stay> {
        self.all.iter()
    }

    /// The same cut into stretches.
    pub fn path(&self) -> BootPath {
        let waits = &self.timeline.waits;
        let told = |w: &Wait| matches!(w.by, WaitedOn::Holders(_) | WaitedOn::Halted);
        let mut stretches = Vec::new();
        self.iter().for_each(|stay| self.cut(stay, |stretch| stretches.push(stretch)));
        BootPath {
            stretches,
            scheduler_evidence: waits.iter().any(|w| !told(w)),
            hold_evidence: !self.timeline.holds.is_empty()
                && waits.iter().any(|w| matches!(w.by, WaitedOn::Holders(_))),
            blame_moved: self.all.iter().any(|stay| stay.chain.len() > 1),
            cpu_held: self.cpu_held.clone(),
            too_deep: self.too_deep,
        }
    }

    /// Cuts one of them where its owner enters or leaves a span.
    pub fn cut(&self, stay: &Stay, mut each: impl FnMut(Stretch)) {
        let kind = stay.kind;
        if !stay.goes_on {
            return each(Stretch { from: stay.from, to: stay.to, kind, chain: stay.chain.clone() });
        }
        let (waiters, Frame { track, .. }) = stay.waiters_and_owner();
        let segments = self.segments.get_or_init(|| Segments::new(self.timeline));
        segments.within(track, stay.from, stay.to, |piece| {
            let chain = Chain::new(waiters, Frame { track, span: piece.span });
            each(Stretch { from: piece.from, to: piece.to, kind, chain });
        });
    }
}
