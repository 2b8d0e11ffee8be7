//! The sampler of one CPU: a ring, and a flag that is set while its handler runs.

use crate::ring::{FRAMES_MAX, Ring, Sample};
use crate::walk::{Interrupted, Stacks, walk};
use core::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// The time of an NMI, and the thread that it interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Value of the kernel's counter.
    pub ticks: u64,
    /// The running thread.
    pub thread: u64,
}

/// The result of an NMI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The sample is in the ring.
    Taken,
    /// The ring was full, and the sample is counted as lost.
    Lost,
    /// The NMI came while the handler ran. It is counted, and changes nothing else.
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
    /// A sampler with a ring in this memory. A sample takes three words, and one more for each frame.
    pub const fn new(words: &'a [AtomicU64]) -> Cpu<'a> {
        Cpu { ring: Ring::new(words), is_sampling: AtomicBool::new(false), nested: AtomicU64::new(0) }
    }

    /// Takes a sample. The NMI's handler calls it.
    pub fn sample(&self, stacks: &impl Stacks, at: &Interrupted, moment: Moment) -> Outcome {
        // An NMI can come in an NMI's handler, after the return from a fault in that handler.
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

    /// Calls `each` with each sample, oldest first, and frees its room. Returns the number of samples. Any CPU may call it, but
    /// only one at a time.
    pub fn drain(&self, each: impl FnMut(&Sample)) -> u64 {
        self.ring.drain(each)
    }

    /// Number of samples that were not taken, because the ring was full or the handler was already running.
    pub fn lost(&self) -> u64 {
        self.ring.lost()
    }

    /// Number of lost samples whose NMI came while the handler ran.
    pub fn nested(&self) -> u64 {
        self.nested.load(Relaxed)
    }
}
