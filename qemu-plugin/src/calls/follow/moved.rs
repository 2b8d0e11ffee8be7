//! Code that QEMU reports at another address than it runs at, because QEMU translated it there first (`block` says when).

use super::Vcpu;
use crate::calls::block::{Block, MOVED, NOWHERE};
use crate::calls::stack::Open;

impl Vcpu {
    /// Both blocks at the addresses that they run at.
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

    /// From one half of the address space to the other: mostly it is one of the two that has moved.
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

    /// Where the return that was just made leads, if it is from the innermost call.
    pub(super) fn return_address(&self) -> Option<u64> {
        let is_it = |open: &&Open| Some(open.sp) == self.sp && open.came().is_none();
        self.stack.top().filter(is_it).map(|open| open.back)
    }
}
