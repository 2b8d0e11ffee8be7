//! The effect of a block on the stack pointer, on architectures whose calls and returns do not access the stack
//! (`arch::Stack::Effects`).
//!
//! The stack pointer at a block's end follows from the one at its begin, unless the block sets it. In a block that
//! moves the stack pointer, it also follows from one memory access relative to it, whose address QEMU reports. That
//! access is the block's last, so it also shows the stack pointer if the block has set it before.

use crate::arch::Effect;

/// The effects of a block's instructions together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackEffect {
    /// The number of bytes by which the block moves it; `None` if the block sets it.
    pub moves: Option<i32>,
    /// The index of the instruction whose access shows it, if there is one.
    pub access_insn: Option<u16>,
    /// The offset from that access's address to the stack pointer at the block's end.
    pub end_offset: i32,
}

impl StackEffect {
    /// A block without an effect.
    pub const NOTHING: StackEffect = StackEffect { moves: Some(0), access_insn: None, end_offset: 0 };

    /// The effect of a block with these instructions.
    pub fn from_insns(effects: impl Iterator<Item = Effect>) -> StackEffect {
        let (mut moves, mut access_insn, mut end_offset) = (Some(0), None, 0_i64);
        for (n, effect) in effects.enumerate() {
            let moved = match effect {
                Effect::None => continue,
                Effect::Sets => {
                    (moves, access_insn) = (None, None);
                    continue;
                }
                Effect::Moves(bytes) => bytes,
                Effect::Accesses { above, moves } => {
                    (access_insn, end_offset) = (Some(n), -above);
                    moves
                }
            };
            end_offset = end_offset.wrapping_add(moved);
            moves = moves.map(|bytes: i64| bytes.wrapping_add(moved));
        }
        // A callback costs time. The begin and the end of a function move the stack pointer and show it.
        access_insn = access_insn.filter(|_| moves != Some(0));
        let (access_insn, end_offset) = match (access_insn, i32::try_from(end_offset)) {
            (Some(n), Ok(bytes)) => (u16::try_from(n).ok(), bytes),
            _ => (None, 0),
        };
        StackEffect { moves: moves.and_then(|bytes| i32::try_from(bytes).ok()), access_insn, end_offset }
    }

    /// The stack pointer at the block's end, from the one at its begin.
    #[inline(always)]
    pub fn end(&self, begin: Option<u64>) -> Option<u64> {
        Some(begin?.wrapping_add_signed(self.moves?.into()))
    }

    /// The stack pointer at the block's begin, from the one at its end.
    pub fn begin(&self, end: u64) -> Option<u64> {
        Some(end.wrapping_sub(i64::from(self.moves?) as u64))
    }

    /// The stack pointer at the block's end, from the address of the access that shows it.
    pub fn end_by(&self, address: u64) -> u64 {
        address.wrapping_add_signed(self.end_offset.into())
    }
}

#[cfg(test)]
mod tests {
    use super::StackEffect;
    use crate::arch::Effect::{Accesses, Moves, None as Nothing, Sets};

    #[test]
    fn the_last_access_shows_the_stack_pointer() {
        // stp x29, x30, [sp, #-32]!; str x19, [sp, #16]; sub sp, sp, #64
        let prologue = [Accesses { above: -32, moves: -32 }, Nothing, Accesses { above: 16, moves: 0 }, Moves(-64)];
        let block = StackEffect::from_insns(prologue.into_iter());
        assert_eq!(block, StackEffect { moves: Some(-96), access_insn: Some(2), end_offset: -80 });
        // The stack pointer is 0x1000 at first: the access is at 0xff0, and the end is 0xfa0.
        assert_eq!((block.end(Some(0x1000)), block.begin(0xfa0)), (Some(0xfa0), Some(0x1000)));
        assert_eq!(0xff0u64.wrapping_add(block.end_offset as u64), 0xfa0);
    }

    #[test]
    fn a_block_that_sets_the_stack_pointer_is_known_by_later_accesses() {
        let leaves = StackEffect::from_insns([Accesses { above: 0, moves: 16 }, Sets].into_iter());
        assert_eq!((leaves.moves, leaves.access_insn, leaves.end(Some(64))), (None, None, None));
        let switches = StackEffect::from_insns([Sets, Accesses { above: 0, moves: 16 }].into_iter());
        assert_eq!((switches.moves, switches.access_insn, switches.end_offset), (None, Some(1), 16));
        assert_eq!((switches.end(Some(64)), switches.begin(64)), (None, None));
    }

    #[test]
    fn a_block_without_effect_leaves_the_stack_pointer() {
        assert_eq!(StackEffect::from_insns(std::iter::empty()), StackEffect::NOTHING);
        let reads = StackEffect::from_insns([Accesses { above: 16, moves: 0 }].into_iter());
        assert_eq!((reads.moves, reads.access_insn), (Some(0), None));
        assert_eq!((StackEffect::NOTHING.end(Some(7)), StackEffect::NOTHING.end(None)), (Some(7), None));
    }
}
