//! Reserving a slot, filling it, and reading it: the operations that threads and interrupts do at the same time.
//!
//! A writer reserves a slot once, for ever, by adding one to `next`. No two writers get the same slot, in whatever order
//! they interrupt each other. The slot's `word` is 0 until the record is whole: the writer stores it last, with release,
//! and a reader loads it first, with acquire. So a reader that sees the word sees the whole record. The same holds for a
//! reader of the memory of a stopped machine. Nothing here waits, and nothing is ever written twice.
//!
//! This file must not use regions or names, so that `tests/loom.rs` can compile it with loom's atomics.

use crate::sync::{AtomicU64, Ordering};

/// One slot of the log, all zeros until it is written.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Record {
    pub(crate) ticks: AtomicU64,
    pub(crate) thread: AtomicU64,
    pub(crate) name: AtomicU64,
    pub(crate) detail: AtomicU64,
    pub(crate) word: AtomicU64,
}

/// The words of a record, in the order of memory: ticks, thread, name, detail, word. The last one is not 0.
pub type Words = [u64; 5];

/// The slots of a log and the number of reservations, which may exceed the number of slots.
#[derive(Clone, Copy, Debug)]
pub struct Slots<'a> {
    /// Number of reservations ever requested. Those past the end of `records` were dropped.
    pub next: &'a AtomicU64,
    pub records: &'a [Record],
}

/// A slot that one writer has reserved and not yet written.
#[derive(Debug)]
#[must_use = "a slot that is not filled stays half-written"]
pub struct Reserved<'a>(&'a Record);

impl<'a> Slots<'a> {
    /// Takes the next slot. If the log is full, counts the event as dropped and returns `None`.
    ///
    /// It does one atomic add even when the log is full: an exact count of dropped events costs no less.
    #[inline(always)]
    pub fn reserve(self) -> Option<Reserved<'a>> {
        // Relaxed: each writer only needs a different number. The slot's own word orders its content.
        let taken = self.next.fetch_add(1, Ordering::Relaxed);
        self.records.get(usize::try_from(taken).ok()?).map(Reserved)
    }

    /// Number of existing slots that have been reserved.
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
    /// Writes the record and makes it whole.
    #[inline(always)]
    pub fn fill(self, [ticks, thread, name, detail, word]: Words) {
        self.0.ticks.store(ticks, Ordering::Relaxed);
        self.0.thread.store(thread, Ordering::Relaxed);
        self.0.name.store(name, Ordering::Relaxed);
        self.0.detail.store(detail, Ordering::Relaxed);
        self.0.word.store(word, Ordering::Release);
    }
}
