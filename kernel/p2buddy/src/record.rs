//! A frame's two words, and what they say in each state.
//!
//! | state | first word: high bits | 4 bits | lowest bit | second word |
//! |---|---|---|---|---|
//! | free, first of its block | the next free block | order | 1 | the free block before it |
//! | allocated, first of its block | the kernel's count | order + 1 | 0 | the kernel's |
//! | any other | the kernel's count | 0 | 0 | the kernel's |
//!
//! The lowest five bits are the allocator's alone. Loads and stores are relaxed: who allocates holds the kernel's lock,
//! and a count says by itself no more than how many there are.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const FREE: usize = 1;
const ORDER_SHIFT: u32 = 1;
const ORDER_MASK: usize = 0xf;
const LINK_SHIFT: u32 = 5;
const OURS: usize = (1 << LINK_SHIFT) - 1;
/// One reference.
const ONE: usize = 1 << LINK_SHIFT;

/// No block: the end of a list.
pub(crate) const NONE: usize = usize::MAX >> LINK_SHIFT;

/// What a kernel keeps for each frame: a reference count and a word of its own while it is in use, the allocator's links
/// while it is free.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Record {
    first: AtomicUsize,
    second: AtomicUsize,
}

/// What the allocator knows of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// A free block begins here.
    Free { order: usize },
    /// An allocated block begins here.
    Allocated { order: usize },
    /// Neither.
    Inside,
}

impl Record {
    /// Of a frame that nobody has added yet: all zeros.
    pub const fn new() -> Record {
        Record { first: AtomicUsize::new(0), second: AtomicUsize::new(0) }
    }

    /// How many references the kernel holds. Only of a frame in use.
    pub fn count(&self) -> usize {
        self.first.load(Relaxed) >> LINK_SHIFT
    }

    /// One reference more; how many there were. Only of a frame in use.
    pub fn acquire(&self) -> usize {
        self.first.fetch_add(ONE, Relaxed) >> LINK_SHIFT
    }

    /// One reference fewer; how many there were, or nothing if there was none. Only of a frame in use.
    pub fn release(&self) -> Option<usize> {
        let less = |word: usize| word.checked_sub(ONE);
        self.first.fetch_update(Relaxed, Relaxed, less).ok().map(|word| word >> LINK_SHIFT)
    }

    /// A word for the kernel. Only of a frame in use: the allocator writes over it.
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

    /// Sets the state, with no link and no reference.
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
