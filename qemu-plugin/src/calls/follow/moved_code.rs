//! Code that QEMU reports at another address than it runs at, because QEMU translated it there first (see `block`).

use super::Vcpu;
use crate::calls::block::{Block, MOVED, NOWHERE};
use crate::calls::stack::Frame;

impl Vcpu {
    /// Both blocks, at the addresses where they run.
    #[inline(always)]
    pub(super) fn where_they_are(&mut self, before: &'static Block, block: &'static Block) -> [&'static Block; 2] {
        let block = if block.has(MOVED) { block.now() } else { block };
        let both = match (before.start ^ block.start) >> 63 == 1 && !block.user && !before.user {
            true => self.other_half(before, block),
            false => [before, block],
        };
        self.block = both[1];
        both
    }

    /// Handles a change from one half of the address space to the other: mostly one of the two blocks has moved.
    #[inline(never)]
    pub(super) fn other_half(&self, before: &'static Block, block: &'static Block) -> [&'static Block; 2] {
        let back = self.return_address().unwrap_or(NOWHERE);
        let expected = [before.fall, before.target, before.callee, back];
        match expected.into_iter().find(|&expected| block.is_also_at(expected)) {
            Some(expected) if expected >> 63 == 1 => [before, block.moves(expected)],
            Some(expected) if expected != back => {
                [before.moves(before.start.wrapping_add(block.start.wrapping_sub(expected))), block]
            }
            _ => [before, block],
        }
    }

    /// The target of the last return, if it returns from the innermost call.
    pub(super) fn return_address(&self) -> Option<u64> {
        let returns_here = |frame: &&Frame| Some(frame.sp) == self.sp && frame.interrupt_point().is_none();
        self.stack.top().filter(returns_here).map(|frame| frame.back)
    }
}
