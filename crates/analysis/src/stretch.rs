//! The boot path as callers get it: stretches with one owner each. The module `path` decides the owners.

use crate::chain::{Chain, Frame};
use timeline::{Cost, NameId, Ns, Timeline, TrackId};

/// The reason why a stretch of the path took time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StretchKind {
    /// The owner ran. Without scheduler evidence it may also have slept.
    Running,
    /// The thread waited in the run queue of a CPU that ran the owner.
    Runqueue,
    /// The owner waited for a timer or a device, and no thread ran for it.
    Interrupt(NameId),
    /// The owner waited for this topic, and no thread is seen to hold it.
    Topic(NameId),
    /// The owner waited, and the evidence does not say for which thread.
    Wait,
}

/// A stretch of the boot path.
#[derive(Clone, Debug, PartialEq)]
pub struct Stretch {
    pub from: Ns,
    pub to: Ns,
    /// The reason why the time passed.
    pub kind: StretchKind,
    /// The thread on which the path is walked, then each thread that the one before waited for. The owner is last.
    /// Never empty.
    pub chain: Chain,
}

impl Stretch {
    /// Returns the thread that the time is charged to.
    pub fn owner(&self) -> Frame {
        *self.chain.last().expect("a chain has an owner")
    }

    pub fn length(&self) -> Ns {
        self.to - self.from
    }

    /// Its length in its parts.
    pub fn cost(&self, timeline: &Timeline) -> Cost {
        timeline.cost_on(self.owner().track, self.from, self.to)
    }
}

/// A piece of a stretch in which the owner slept and another thread had the CPU. The evidence does not say since when
/// the owner could have run.
#[derive(Clone, Debug, PartialEq)]
pub struct CpuHeld {
    /// Start.
    pub from: Ns,
    pub length: Ns,
    /// The thread that had the CPU.
    pub by: TrackId,
    /// The kind of the stretch.
    pub kind: StretchKind,
    /// The threads that waited for each other, the owner last.
    pub chain: Chain,
}

/// All stretches, covering zero to the end mark without gap or overlap.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BootPath {
    /// In order of time.
    pub stretches: Vec<Stretch>,
    /// True if the evidence shows which threads waited and which thread woke each.
    pub scheduler_evidence: bool,
    /// True if the evidence shows what threads waited for and which threads held that. Without this and
    /// `scheduler_evidence`, no blame can move.
    pub hold_evidence: bool,
    /// True if any time of a wait is charged to a thread other than the waiter.
    pub blame_moved: bool,
    /// Pieces in which an owner may have had no CPU.
    pub cpu_held: Vec<CpuHeld>,
    /// The number of waits that were nested too deep or formed a cycle. Such time is charged to the innermost waiter that was
    /// reached.
    pub too_deep: u64,
}

impl BootPath {
    /// The length of the path in its parts.
    pub fn cost(&self, timeline: &Timeline) -> Cost {
        self.stretches.iter().map(|stretch| stretch.cost(timeline)).sum()
    }
}
