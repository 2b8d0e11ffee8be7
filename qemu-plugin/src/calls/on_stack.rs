//! What a block does to the stack pointer, where no call and no return accesses the stack (`arch::Stack::Effects`).
//!
//! The one that a block ends with is known from the one that it begins with, unless the block sets it; and from one access to memory
//! relative to it, of whose address QEMU tells, in a block that moves it. That access is the block's last: so it also tells where the
//! block has set it before.

use crate::arch::Effect;

/// The effects of a block's instructions together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnStack {
    /// How far the block moves it, in bytes; none if it sets it.
    pub moves: Option<i32>,
    /// Which instruction's access tells it, if one does.
    pub told_by: Option<u16>,
    /// What then has to be added to the address, for the stack pointer at the block's end.
    pub from_address: i32,
}

impl OnStack {
    /// Of a block that does nothing to it.
    pub const NOTHING: OnStack = OnStack { moves: Some(0), told_by: None, from_address: 0 };

    /// Of a block of these instructions.
    pub fn of(effects: impl Iterator<Item = Effect>) -> OnStack {
        let (mut moves, mut told_by, mut from_address) = (Some(0), None, 0_i64);
        for (n, effect) in effects.enumerate() {
            let moved = match effect {
                Effect::None => continue,
                Effect::Sets => {
                    (moves, told_by) = (None, None);
                    continue;
                }
                Effect::Moves(bytes) => bytes,
                Effect::Accesses { above, moves } => {
                    (told_by, from_address) = (Some(n), -above);
                    moves
                }
            };
            from_address = from_address.wrapping_add(moved);
            moves = moves.map(|bytes: i64| bytes.wrapping_add(moved));
        }
        // Asking costs. A function's begin and end move it, and tell it.
        told_by = told_by.filter(|_| moves != Some(0));
        let (told_by, from_address) = match (told_by, i32::try_from(from_address)) {
            (Some(n), Ok(bytes)) => (u16::try_from(n).ok(), bytes),
            _ => (None, 0),
        };
        OnStack { moves: moves.and_then(|bytes| i32::try_from(bytes).ok()), told_by, from_address }
    }

    /// The stack pointer at the block's end, by that at its begin.
    #[inline(always)]
    pub fn end(&self, begin: Option<u64>) -> Option<u64> {
        Some(begin?.wrapping_add_signed(self.moves?.into()))
    }

    /// The stack pointer at the block's begin, by that at its end.
    pub fn begin(&self, end: u64) -> Option<u64> {
        Some(end.wrapping_sub(i64::from(self.moves?) as u64))
    }

    /// The stack pointer at the block's end, by the address of the access that tells it.
    pub fn end_by(&self, address: u64) -> u64 {
        address.wrapping_add_signed(self.from_address.into())
    }
}

#[cfg(test)]
mod tests {
    use super::OnStack;
    use crate::arch::Effect::{Accesses, Moves, None as Nothing, Sets};

    #[test]
    fn the_last_access_tells() {
        // stp x29, x30, [sp, #-32]!; str x19, [sp, #16]; sub sp, sp, #64
        let prologue = [Accesses { above: -32, moves: -32 }, Nothing, Accesses { above: 16, moves: 0 }, Moves(-64)];
        let block = OnStack::of(prologue.into_iter());
        assert_eq!(block, OnStack { moves: Some(-96), told_by: Some(2), from_address: -80 });
        // The stack pointer is 0x1000 at first: the access is at 0xff0, and the end 0xfa0.
        assert_eq!((block.end(Some(0x1000)), block.begin(0xfa0)), (Some(0xfa0), Some(0x1000)));
        assert_eq!(0xff0u64.wrapping_add(block.from_address as u64), 0xfa0);
    }

    #[test]
    fn a_block_that_sets_it_is_told_by_what_comes_after() {
        let leaves = OnStack::of([Accesses { above: 0, moves: 16 }, Sets].into_iter());
        assert_eq!((leaves.moves, leaves.told_by, leaves.end(Some(64))), (None, None, None));
        let switches = OnStack::of([Sets, Accesses { above: 0, moves: 16 }].into_iter());
        assert_eq!((switches.moves, switches.told_by, switches.from_address), (None, Some(1), 16));
        assert_eq!((switches.end(Some(64)), switches.begin(64)), (None, None));
    }

    #[test]
    fn a_block_without_any_leaves_it() {
        assert_eq!(OnStack::of(std::iter::empty()), OnStack::NOTHING);
        let reads = OnStack::of([Accesses { above: 16, moves: 0 }].into_iter());
        assert_eq!((reads.moves, reads.told_by), (Some(0), None));
        assert_eq!((OnStack::NOTHING.end(Some(7)), OnStack::NOTHING.end(None)), (Some(7), None));
    }
}
