//! Reserving a slot, filling it, and reading it: all of the log that threads and interrupts do at the same time.
//!
//! A slot is reserved once, for ever, by adding one to `next`: no two writers have the same one, whoever interrupts
//! whom. Its `word` is 0 until it is whole: the writer stores it last, with release, and a reader loads it first, with
//! acquire. So a reader that sees the word sees all of the record, and so does one that finds the memory of a machine
//! that has stopped. Nothing here waits, and nothing is ever written twice.
//!
//! This file knows neither regions nor names, so that `tests/loom.rs` can compile it with loom's atomics.

use crate::sync::{AtomicU64, Ordering};

/// One slot of the log. All zeros until it is written.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Record {
    pub(crate) ticks: AtomicU64,
    pub(crate) thread: AtomicU64,
    pub(crate) name: AtomicU64,
    pub(crate) detail: AtomicU64,
    pub(crate) word: AtomicU64,
}

/// What a record holds, in the order in which it lies in memory: ticks, thread, name, detail, word. The word is not 0.
pub type Words = [u64; 5];

/// The slots of a log and the count of those reserved, which goes on past their number.
#[derive(Clone, Copy, Debug)]
pub struct Slots<'a> {
    /// How many were ever asked for. Those past `records` were dropped.
    pub next: &'a AtomicU64,
    /// All slots.
    pub records: &'a [Record],
}

/// A slot that is one writer's alone and not yet written.
#[derive(Debug)]
#[must_use = "a slot that is not filled stays half-written"]
pub struct Reserved<'a>(&'a Record);

impl<'a> Slots<'a> {
    /// Takes the next slot. None when the log is full: it has then been counted as dropped.
    ///
    /// One atomic add, also when full: an exact count of what was dropped costs no less.
    #[inline(always)]
    pub fn reserve(self) -> Option<Reserved<'a>> {
        // Relaxed: only that each gets another number matters; what the slot holds is ordered by its own word.
        let taken = self.next.fetch_add(1, Ordering::Relaxed);
        self.records.get(usize::try_from(taken).ok()?).map(Reserved)
    }

    /// How many slots have been reserved and exist.
    pub fn reserved(self) -> usize {
        usize::try_from(self.next.load(Ordering::Relaxed)).unwrap_or(usize::MAX).min(self.records.len())
    }

    /// The record in a slot, if it is whole.
    pub fn read(self, slot: usize) -> Option<Words> {
        let record = self.records.get(slot)?;
        match record.word.load(Ordering::Acquire) {
            0 => None,
            word => Some([
                record.ticks.load(Ordering::Relaxed),
                record.thread.load(Ordering::Relaxed),
                record.name.load(Ordering::Relaxed),
                record.detail.load(Ordering::Relaxed),
                word,
            ]),
        }
    }
}

impl Reserved<'_> {
    /// Makes the record whole.
    #[inline(always)]
    pub fn fill(self, [ticks, thread, name, detail, word]: Words) {
        self.0.ticks.store(ticks, Ordering::Relaxed);
        self.0.thread.store(thread, Ordering::Relaxed);
        self.0.name.store(name, Ordering::Relaxed);
        self.0.detail.store(detail, Ordering::Relaxed);
        self.0.word.store(word, Ordering::Release);
    }
}
