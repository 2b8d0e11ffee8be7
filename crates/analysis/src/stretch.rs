//! The boot path as it is handed out: stretches, each with its one owner. Which stretch is whose, `path` decides.

use crate::chain::{Chain, Frame};
use timeline::{NameId, Ns, TrackId};

/// Why a stretch of the path passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StretchKind {
    /// The owner ran (or, without scheduler evidence, may have).
    Running,
    /// The thread waited for its turn on a CPU that ran the owner.
    Runqueue,
    /// The owner waited for a timer or a device: nobody ran for it.
    Interrupt(NameId),
    /// The owner waited for this topic, and nobody is seen to hold it.
    Topic(NameId),
    /// The owner waited, and the evidence does not say for whom.
    Wait,
}

/// A stretch of the boot path.
#[derive(Clone, Debug, PartialEq)]
pub struct Stretch {
    /// From when.
    pub from: Ns,
    /// Until when.
    pub to: Ns,
    /// Why the time passed.
    pub kind: StretchKind,
    /// Who waited for whom: the thread the path is walked on first, the owner last. Never empty.
    pub chain: Chain,
}

impl Stretch {
    /// Who the time belongs to.
    pub fn owner(&self) -> Frame {
        *self.chain.last().expect("a chain has an owner")
    }

    /// How long it is.
    pub fn length(&self) -> Ns {
        self.to - self.from
    }
}

/// While the owner of a stretch slept, another thread had the CPU, and nothing says since when the owner could have run.
#[derive(Clone, Debug, PartialEq)]
pub struct CpuHeld {
    /// When it began.
    pub from: Ns,
    /// How long it was.
    pub length: Ns,
    /// Who had the CPU.
    pub by: TrackId,
    /// Why the stretch passed.
    pub kind: StretchKind,
    /// Who waited for whom; the owner last.
    pub chain: Chain,
}

/// All stretches in order of time, covering zero to the end mark without gap or overlap.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BootPath {
    /// In order of time.
    pub stretches: Vec<Stretch>,
    /// Whether the evidence shows who waited and who woke whom.
    pub scheduler_evidence: bool,
    /// Whether it shows what threads waited for, and who held that. With neither no blame could be moved.
    pub hold_evidence: bool,
    /// Whether any time of a wait belongs to somebody else than who waited.
    pub blame_moved: bool,
    /// Where an owner may have had no CPU.
    pub cpu_held: Vec<CpuHeld>,
    /// How often waits were nested too deep, or went round in a circle: the time is then that of who waits there.
    pub too_deep: u64,
}
