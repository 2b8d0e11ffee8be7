//! The two words of a frame, and their meaning in each state.
//!
//! | state | first word: high bits | 4 bits | lowest bit | second word |
//! |---|---|---|---|---|
//! | free, first of its block | the next free block | order | 1 | the free block before it |
//! | allocated, first of its block | the kernel's count | order + 1 | 0 | the kernel's |
//! | any other | the kernel's count | 0 | 0 | the kernel's |
//!
//! Only the allocator uses the lowest five bits. Loads and stores are relaxed: the allocator runs under the kernel's lock,
//! and a count orders no other memory.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const FREE: usize = 1;
const ORDER_SHIFT: u32 = 1;
const ORDER_MASK: usize = 0xf;
const LINK_SHIFT: u32 = 5;
const OURS: usize = (1 << LINK_SHIFT) - 1;
/// One reference, in the first word.
const ONE: usize = 1 << LINK_SHIFT;

/// The link to no block, at the end of a list.
pub(crate) const NONE: usize = usize::MAX >> LINK_SHIFT;

/// The data of a frame. While the frame is in use, its reference count and a word for the kernel. While it is free, the
/// allocator's links.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Record {
    first: AtomicUsize,
    second: AtomicUsize,
}

/// The state of a frame for the allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// A free block begins here.
    Free { order: usize },
    /// An allocated block begins here.
    Allocated { order: usize },
    /// No block begins here.
    Inside,
}

impl Record {
    /// The record of a frame that was not added yet: all zeros.
    pub const fn new() -> Record {
        Record { first: AtomicUsize::new(0), second: AtomicUsize::new(0) }
    }

    /// Number of references that the kernel holds. Only for a frame in use.
    pub fn count(&self) -> usize {
        self.first.load(Relaxed) >> LINK_SHIFT
    }

    /// Adds a reference and returns the previous count. Only for a frame in use.
    pub fn acquire(&self) -> usize {
        self.first.fetch_add(ONE, Relaxed) >> LINK_SHIFT
    }

    /// Removes a reference and returns the previous count, or `None` if the count was 0. Only for a frame in use.
    pub fn release(&self) -> Option<usize> {
        let less = |word: usize| word.checked_sub(ONE);
        self.first.fetch_update(Relaxed, Relaxed, less).ok().map(|word| word >> LINK_SHIFT)
    }

    /// A word for the kernel. Only for a frame in use: the allocator overwrites it when the frame is free.
    pub fn word(&self) -> &AtomicUsize {
        &self.second
    }

    pub(crate) fn state(&self) -> State {
        let word = self.first.load(Relaxed);
        let order = word >> ORDER_SHIFT & ORDER_MASK;
        match word & FREE {
            FREE => State::Free { order },
            _ if order > 0 => State::Allocated { order: order - 1 },
            _ => State::Inside,
        }
    }

    /// Sets the state, and clears link and reference count.
    pub(crate) fn set(&self, state: State) {
        let word = match state {
            State::Free { order } => FREE | order << ORDER_SHIFT | NONE << LINK_SHIFT,
            State::Allocated { order } => (order + 1) << ORDER_SHIFT,
            State::Inside => 0,
        };
        self.first.store(word, Relaxed);
    }

    pub(crate) fn next(&self) -> usize {
        self.first.load(Relaxed) >> LINK_SHIFT
    }

    pub(crate) fn set_next(&self, block: usize) {
        self.first.store(self.first.load(Relaxed) & OURS | block << LINK_SHIFT, Relaxed);
    }

    pub(crate) fn previous(&self) -> usize {
        self.second.load(Relaxed)
    }

    pub(crate) fn set_previous(&self, block: usize) {
        self.second.store(block, Relaxed);
    }
}
