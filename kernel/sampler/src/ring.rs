//! A ring of samples with one writer, which is an NMI's handler on one CPU, and one reader on any CPU.
//!
//! A sample is a header word (number of frames, end of the walk), its ticks, its thread, then the frames. Words are plain
//! atomics. The writer publishes a whole sample by advancing `written`, the reader frees room by advancing `read`. The writer
//! never waits: a sample that finds no room is counted as lost.

use crate::walk::End;
use core::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Largest number of frames in a sample. Outer frames beyond it are left out.
pub const FRAMES_MAX: usize = 62;
const HEADER_WORDS: usize = 3;
/// Length of the longest sample.
pub(crate) const MAX_SAMPLE_WORDS: usize = HEADER_WORDS + FRAMES_MAX;

/// The stack of a CPU at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample<'a> {
    /// The time, by the kernel's counter.
    pub ticks: u64,
    /// The thread, by the kernel's number.
    pub thread: u64,
    /// The interrupted instruction, then return addresses, innermost first.
    pub frames: &'a [u64],
    /// The reason why there are no more frames.
    pub end: End,
}

/// A ring of samples. See the header of this file.
#[derive(Debug)]
pub struct Ring<'a> {
    words: &'a [AtomicU64],
    /// Number of words ever written and ever read. Both only grow.
    written: AtomicU64,
    read: AtomicU64,
    lost: AtomicU64,
}

impl<'a> Ring<'a> {
    /// An empty ring in this memory. A sample longer than the memory is always lost.
    pub const fn new(words: &'a [AtomicU64]) -> Ring<'a> {
        Ring { words, written: AtomicU64::new(0), read: AtomicU64::new(0), lost: AtomicU64::new(0) }
    }

    /// Adds a sample. If there is no room, counts it as lost and returns false. For one writer at a time.
    pub fn push(&self, sample: &Sample) -> bool {
        let frames = &sample.frames[..sample.frames.len().min(FRAMES_MAX)];
        let needed = (HEADER_WORDS + frames.len()) as u64;
        let written = self.written.load(Relaxed);
        let in_use = written - self.read.load(Acquire);
        if self.words.len() as u64 - in_use < needed {
            self.lose();
            return false;
        }
        let header = [frames.len() as u64 | u64::from(number_of(sample.end)) << 8, sample.ticks, sample.thread];
        for (at, &word) in (written..).zip(header.iter().chain(frames)) {
            self.word(at).store(word, Relaxed);
        }
        self.written.store(written + needed, Release);
        true
    }

    /// Calls `each` with each sample, oldest first, and frees its room. Returns the number of samples. For one reader at a
    /// time.
    pub fn drain(&self, mut each: impl FnMut(&Sample)) -> u64 {
        let mut count = 0;
        let mut buffer = [0; MAX_SAMPLE_WORDS];
        let mut read = self.read.load(Relaxed);
        let written = self.written.load(Acquire);
        while read < written {
            let header = self.word(read).load(Relaxed);
            let length = HEADER_WORDS + (header as u8 as usize).min(FRAMES_MAX);
            for (at, word) in (read..).zip(&mut buffer[..length]) {
                *word = self.word(at).load(Relaxed);
            }
            read += length as u64;
            self.read.store(read, Release);
            let [_, ticks, thread, ..] = buffer;
            let end = end_of((header >> 8) as u8);
            each(&Sample { ticks, thread, frames: &buffer[HEADER_WORDS..length], end });
            count += 1;
        }
        count
    }

    /// Number of samples that were not taken.
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    /// Counts a sample that was not taken.
    pub(crate) fn lose(&self) {
        self.lost.fetch_add(1, Relaxed);
    }

    fn word(&self, at: u64) -> &AtomicU64 {
        &self.words[(at % self.words.len() as u64) as usize]
    }
}

const ENDS: [End; 5] = [End::Bottom, End::User, End::Full, End::NoStack, End::BadPointer];

fn number_of(end: End) -> u8 {
    ENDS.iter().position(|&other| other == end).unwrap_or_default() as u8
}

fn end_of(number: u8) -> End {
    ENDS.get(number as usize).copied().unwrap_or(End::BadPointer)
}
