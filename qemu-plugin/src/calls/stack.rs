//! One shadow stack: the calls on one stack of the guest that have not returned.
//!
//! A stack is a value, and a vCPU that runs on it owns that value. Its frames are plain values too: no address of the guest's
//! and no address of this process is followed to find one.

use std::iter::Rev;
use std::slice;

use super::block::{Block, NOWHERE};

/// Searches of a stack for a frame that may not be the innermost look at no more frames than this: a guest can make a million.
pub const SEARCH_MAX: usize = 1 << 12;

/// How a frame began.
#[derive(Clone, Copy, Debug)]
pub enum Entered {
    /// By a call: it returns.
    Call,
    /// By a jump: it returns with the frame below it.
    Tail,
    /// By an interrupt or a system call: it ends with the instruction that returns from those.
    Interrupt(Came),
}

/// What an interrupt came to.
#[derive(Clone, Copy, Debug)]
pub struct Came {
    /// The block that it came after.
    pub after: &'static Block,
    /// Where that was.
    pub from: From,
}

/// The stack that an interrupt came to, which need not be the one that its handler runs on.
#[derive(Clone, Copy, Debug, Default)]
pub struct From {
    /// The stack's number; 0: not known.
    pub stack: u32,
    /// The stack pointer when it was last seen there.
    pub sp: u64,
    /// Whether it was that of the moment.
    pub exact: bool,
}

/// A call that has not returned.
#[derive(Clone, Copy, Debug)]
pub struct Open {
    /// Where the return address lies; of an interrupt, an address just above what its handler has pushed.
    pub sp: u64,
    /// The return address; [`NOWHERE`] for an interrupt.
    pub back: u64,
    /// Clock when it began.
    pub since: u64,
    /// Its node.
    pub node: u32,
    /// Whether a record says that it is under way.
    pub announced: bool,
    /// How it began.
    pub entered: Entered,
}

impl Open {
    /// A frame of this node that began now. The caller sets where it is and where it returns to.
    pub fn new(node: u32, entered: Entered, now: u64) -> Open {
        Open { sp: 0, back: NOWHERE, since: now, node, announced: false, entered }
    }

    /// True for a call, which returns by itself.
    #[inline(always)]
    pub fn is_call(&self) -> bool {
        matches!(self.entered, Entered::Call)
    }

    /// What it came to, if it is an interrupt.
    pub fn came(&self) -> Option<Came> {
        match self.entered {
            Entered::Interrupt(came) => Some(came),
            Entered::Call | Entered::Tail => None,
        }
    }
}

/// A shadow stack. `stacks` makes them and knows how many frames each may have.
#[derive(Debug, Default)]
pub struct Stack {
    pub(super) number: u32,
    /// The node at its bottom; 0: none yet.
    pub bottom: u32,
    /// An address on it, by which the output knows it.
    pub place: u64,
    /// The outermost first.
    pub(super) frames: Vec<Open>,
    /// The number of frames for which it has room.
    pub(super) room: usize,
}

impl Stack {
    /// Its number; 0 for the empty stack of a vCPU that was on none yet.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The innermost frame.
    #[inline(always)]
    pub fn top(&self) -> Option<&Open> {
        self.frames.last()
    }

    /// The same, to be changed.
    #[inline(always)]
    pub fn top_mut(&mut self) -> Option<&mut Open> {
        self.frames.last_mut()
    }

    /// The number of frames.
    pub fn depth(&self) -> usize {
        self.frames.len()
    }

    /// All frames from the innermost outwards.
    pub fn innermost_first(&self) -> Rev<slice::Iter<'_, Open>> {
        self.frames.iter().rev()
    }

    /// The same, to be changed.
    pub fn innermost_first_mut(&mut self) -> Rev<slice::IterMut<'_, Open>> {
        self.frames.iter_mut().rev()
    }

    /// Takes the innermost frame off.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<Open> {
        self.frames.pop()
    }

    /// The same if it is a call at `sp` that returns to `back`.
    #[inline(always)]
    pub fn pop_call(&mut self, sp: u64, back: u64) -> Option<Open> {
        let open = self.frames.last()?;
        if open.sp != sp || open.back != back || !open.is_call() {
            return None;
        }
        self.frames.pop()
    }

    /// How well this stack fits a stack pointer, the best first: how far above it the nearest frame is, and how many frames are below.
    pub(super) fn fit(&self, sp: u64) -> (u64, usize) {
        let above = self.frames.partition_point(|open| open.sp >= sp);
        let distance = above.checked_sub(1).map_or(u64::MAX, |nearest| self.frames[nearest].sp.abs_diff(sp));
        (distance, self.frames.len() - above)
    }
}
