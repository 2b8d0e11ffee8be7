//! The boot path in the pieces in which it is walked. A piece is not cut where its thread enters or leaves a function.
//! A caller that needs the time of each function cuts the pieces into [stretches](BootPath). A drawing sweeps over the
//! spans instead.

use crate::chain::{Chain, Frame};
use crate::segments::Segments;
use crate::stretch::{BootPath, CpuHeld, Stretch, StretchKind};
use std::cell::OnceCell;
use timeline::{Ns, Timeline, Wait, WaitedOn};

/// A part of the boot path that is charged to one thread.
#[derive(Clone, Debug, PartialEq)]
pub struct Stay {
    pub from: Ns,
    /// Always later than `from`.
    pub to: Ns,
    /// The reason why the time passed.
    pub kind: StretchKind,
    /// The threads that waited for each other, the owner last. Never empty.
    pub chain: Chain,
    /// True if the owner goes on from span to span. Then `chain` does not name the owner's span.
    pub goes_on: bool,
}

impl Stay {
    /// Returns the threads that waited, and the owner.
    pub fn waiters_and_owner(&self) -> (&[Frame], Frame) {
        let (owner, waiters) = self.chain.split_last().expect("a chain has an owner");
        (waiters, *owner)
    }
}

/// The whole path, in order of time.
pub struct Stays<'a> {
    pub(crate) timeline: &'a Timeline,
    pub(crate) all: Vec<Stay>,
    /// Filled only if the walk needed it.
    pub(crate) segments: OnceCell<Segments>,
    pub(crate) cpu_held: Vec<CpuHeld>,
    pub(crate) too_deep: u64,
}

impl<'a> Stays<'a> {
    /// Returns an empty path for the walk to fill.
    pub(crate) fn empty(timeline: &'a Timeline) -> Stays<'a> {
        Stays { timeline, all: Vec::new(), segments: OnceCell::new(), cpu_held: Vec::new(), too_deep: 0 }
    }

    /// Iterates in order of time.
    pub fn iter(&self) -> std::slice::Iter<'_, Stay> {
        self.all.iter()
    }

    /// Returns the path cut into stretches.
    pub fn path(&self) -> BootPath {
        let waits = &self.timeline.waits;
        let needs_no_scheduler = |w: &Wait| matches!(w.by, WaitedOn::Holders(_) | WaitedOn::Halted);
        let mut stretches = Vec::new();
        self.iter().for_each(|stay| self.cut(stay, |stretch| stretches.push(stretch)));
        BootPath {
            stretches,
            scheduler_evidence: waits.iter().any(|w| !needs_no_scheduler(w)),
            hold_evidence: !self.timeline.holds.is_empty()
                && waits.iter().any(|w| matches!(w.by, WaitedOn::Holders(_))),
            blame_moved: self.all.iter().any(|stay| stay.chain.len() > 1),
            cpu_held: self.cpu_held.clone(),
            too_deep: self.too_deep,
        }
    }

    pub(crate) fn segments(&self) -> &Segments {
        self.segments.get_or_init(|| Segments::new(self.timeline))
    }

    /// Cuts one stay where its owner enters or leaves a span.
    pub fn cut(&self, stay: &Stay, mut each: impl FnMut(Stretch)) {
        let kind = stay.kind;
        if !stay.goes_on {
            return each(Stretch { from: stay.from, to: stay.to, kind, chain: stay.chain.clone() });
        }
        let (waiters, Frame { track, .. }) = stay.waiters_and_owner();
        self.segments().within(track, stay.from, stay.to, |piece| {
            let chain = Chain::new(waiters, Frame { track, span: piece.span });
            each(Stretch { from: piece.from, to: piece.to, kind, chain });
        });
    }
}
