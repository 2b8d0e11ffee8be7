//! One shadow stack: the calls on one guest stack that have not returned.
//!
//! A stack is a value, and the vCPU that runs on it owns that value. Its frames are plain values too: finding a frame
//! never follows an address of the guest or of this process.

use std::iter::Rev;
use std::slice;

use super::block::{Block, NOWHERE};

/// The largest number of frames examined in a search for a frame that may not be the innermost: a guest can make a
/// million frames.
pub const MAX_SEARCH: usize = 1 << 12;

/// The event that began a frame.
#[derive(Clone, Copy, Debug)]
pub enum Entered {
    /// A call: the frame returns by itself.
    Call,
    /// A jump: the frame returns with the frame below it.
    Tail,
    /// An interrupt or a system call: the frame ends with the instruction that returns from those.
    Interrupt(InterruptPoint),
}

/// The point at which an interrupt came.
#[derive(Clone, Copy, Debug)]
pub struct InterruptPoint {
    /// The block after which it came.
    pub after: &'static Block,
    /// The stack at that point.
    pub from: InterruptedStack,
}

/// The stack at which an interrupt came. Its handler may run on another stack.
#[derive(Clone, Copy, Debug, Default)]
pub struct InterruptedStack {
    /// The stack's number; 0: unknown.
    pub stack: u32,
    /// The last known stack pointer on it.
    pub sp: u64,
    /// True if that was the exact stack pointer at the interrupt.
    pub exact: bool,
}

/// A call that has not returned.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// The address of the return address. For an interrupt, an address just above the data that its handler pushed.
    pub sp: u64,
    /// The return address; [`NOWHERE`] for an interrupt.
    pub back: u64,
    /// The clock at its begin.
    pub since: u64,
    /// Its node in the call tree.
    pub node: u32,
    /// True if a record has announced that the call is open.
    pub announced: bool,
    /// The event that began it.
    pub entered: Entered,
}

impl Frame {
    /// A frame of this node that begins now. The caller sets its address and its return address.
    pub fn new(node: u32, entered: Entered, now: u64) -> Frame {
        Frame { sp: 0, back: NOWHERE, since: now, node, announced: false, entered }
    }

    /// True for a call, which returns by itself.
    #[inline(always)]
    pub fn is_call(&self) -> bool {
        matches!(self.entered, Entered::Call)
    }

    /// The point at which it came, if it is an interrupt.
    pub fn interrupt_point(&self) -> Option<InterruptPoint> {
        match self.entered {
            Entered::Interrupt(point) => Some(point),
            Entered::Call | Entered::Tail => None,
        }
    }
}

/// A shadow stack. `stacks` makes stacks, and limits the frames of each.
#[derive(Debug, Default)]
pub struct Stack {
    pub(super) number: u32,
    /// The node at its bottom; 0: not known yet.
    pub bottom: u32,
    /// An address on it, which identifies it in the output.
    pub place: u64,
    /// The outermost frame first.
    pub(super) frames: Vec<Frame>,
    /// Its capacity, in frames.
    pub(super) room: usize,
}

impl Stack {
    /// Its number; 0 for the empty stack of a vCPU that has not been on any stack.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The innermost frame.
    #[inline(always)]
    pub fn top(&self) -> Option<&Frame> {
        self.frames.last()
    }

    /// The innermost frame, mutable.
    #[inline(always)]
    pub fn top_mut(&mut self) -> Option<&mut Frame> {
        self.frames.last_mut()
    }

    /// The number of frames.
    pub fn depth(&self) -> usize {
        self.frames.len()
    }

    /// All frames from the innermost outwards.
    pub fn innermost_first(&self) -> Rev<slice::Iter<'_, Frame>> {
        self.frames.iter().rev()
    }

    /// All frames from the innermost outwards, mutable.
    pub fn innermost_first_mut(&mut self) -> Rev<slice::IterMut<'_, Frame>> {
        self.frames.iter_mut().rev()
    }

    /// Removes the innermost frame.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<Frame> {
        self.frames.pop()
    }

    /// Removes the innermost frame if it is a call at `sp` that returns to `back`.
    #[inline(always)]
    pub fn pop_call(&mut self, sp: u64, back: u64) -> Option<Frame> {
        let frame = self.frames.last()?;
        if frame.sp != sp || frame.back != back || !frame.is_call() {
            return None;
        }
        self.frames.pop()
    }

    /// Ranks this stack for a stack pointer, the best first: the distance of the nearest frame above it, and the number
    /// of frames below it.
    pub(super) fn fit(&self, sp: u64) -> (u64, usize) {
        let above = self.frames.partition_point(|frame| frame.sp >= sp);
        let distance = above.checked_sub(1).map_or(u64::MAX, |nearest| self.frames[nearest].sp.abs_diff(sp));
        (distance, self.frames.len() - above)
    }
}
