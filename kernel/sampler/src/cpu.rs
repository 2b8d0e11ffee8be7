//! What each CPU has: a ring, and a mark that its handler runs.

use crate::ring::{FRAMES_MAX, Ring, Sample};
use crate::walk::{Interrupted, Stacks, walk};
use core::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// When an NMI came, and in whose time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The kernel's counter.
    pub ticks: u64,
    /// The thread that runs.
    pub thread: u64,
}

/// What became of an NMI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is in the ring.
    Taken,
    /// The ring was full: it is counted.
    Lost,
    /// It came while the handler ran: it is counted, and nothing else was touched.
    Nested,
}

/// One CPU's sampler. Only that CPU calls [`sample`](Cpu::sample).
#[derive(Debug)]
pub struct Cpu<'a> {
    ring: Ring<'a>,
    is_sampling: AtomicBool,
    nested: AtomicU64,
}

impl<'a> Cpu<'a> {
    /// With a ring in this memory: a sample takes three words and one for each frame.
    pub const fn new(words: &'a [AtomicU64]) -> Cpu<'a> {
        Cpu { ring: Ring::new(words), is_sampling: AtomicBool::new(false), nested: AtomicU64::new(0) }
    }

    /// What the NMI's handler does.
    pub fn sample(&self, stacks: &impl Stacks, at: &Interrupted, moment: Moment) -> Outcome {
        // An NMI in an NMI: a fault's return in a handler allows it.
        if self.is_sampling.swap(true, Acquire) {
            self.nested.fetch_add(1, Relaxed);
            self.ring.lose();
            return Outcome::Nested;
        }
        let mut frames = [0; FRAMES_MAX];
        let (count, end) = walk(stacks, at, &mut frames);
        let Moment { ticks, thread } = moment;
        let taken = self.ring.push(&Sample { ticks, thread, frames: &frames[..count], end });
        self.is_sampling.store(false, Release);
        if taken { Outcome::Taken } else { Outcome::Lost }
    }

    /// Hands each sample to `each`, oldest first, and gives its room back: from any CPU, one at a time.
    pub fn drain(&self, each: impl FnMut(&Sample)) -> u64 {
        self.ring.drain(each)
    }

    /// Samples that were not taken: the ring was full, or the handler ran already.
    pub fn lost(&self) -> u64 {
        self.ring.lost()
    }

    /// Of these, how many came while the handler ran.
    pub fn nested(&self) -> u64 {
        self.nested.load(Relaxed)
    }
}
