//! A ring of samples: one writer, which is an NMI's handler on one CPU, and one reader anywhere.
//!
//! A sample is a header (frames, mode, end), its ticks, its thread, then the frames. Words are plain atomics; the writer
//! publishes a whole sample by moving `written`, the reader gives room back by moving `read`. The writer never waits:
//! what finds no room is counted as lost.

use crate::walk::End;
use core::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// The most frames a sample has: what is further out is left off.
pub const FRAMES_MAX: usize = 62;
const HEADER_WORDS: usize = 3;
/// The longest sample.
pub(crate) const SAMPLE_WORDS_MAX: usize = HEADER_WORDS + FRAMES_MAX;

/// What was running at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample<'a> {
    /// When, by the counter that the kernel reads.
    pub ticks: u64,
    /// The thread, as the kernel numbers them.
    pub thread: u64,
    /// The interrupted instruction, then return addresses, innermost first.
    pub frames: &'a [u64],
    /// Why there are no more.
    pub end: End,
}

/// See the head of the file.
#[derive(Debug)]
pub struct Ring<'a> {
    words: &'a [AtomicU64],
    /// Words ever written and ever read; both only grow.
    written: AtomicU64,
    read: AtomicU64,
    lost: AtomicU64,
}

impl<'a> Ring<'a> {
    /// An empty one, in this memory. Less than the longest sample's room loses all.
    pub const fn new(words: &'a [AtomicU64]) -> Ring<'a> {
        Ring { words, written: AtomicU64::new(0), read: AtomicU64::new(0), lost: AtomicU64::new(0) }
    }

    /// Puts a sample in; false, and counted, if there is no room. For one writer at a time.
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

    /// Hands each sample to `each`, oldest first, and gives its room back. For one reader at a time. How many there were.
    pub fn drain(&self, mut each: impl FnMut(&Sample)) -> u64 {
        let mut count = 0;
        let mut buffer = [0; SAMPLE_WORDS_MAX];
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

    /// How many samples found no room.
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    /// Counts one that was not taken.
    pub(crate) fn lose(&self) {
        self.lost.fetch_add(1, Relaxed);
    }

    fn word(&self, at: u64) -> &AtomicU64 {
        &self.words[(at % self.words.len() as u64) as usize]
    }
}

const ENDS: [End; 5] = [End::Bottom, End::User, End::Full, End::NoStack, End::BadPointer];

fn number_of(end: End) -> u8 {
    ENDS.iter().position(|&known| known == end).unwrap_or_default() as u8
}

fn end_of(number: u8) -> End {
    ENDS.get(number as usize).copied().unwrap_or(End::BadPointer)
}
