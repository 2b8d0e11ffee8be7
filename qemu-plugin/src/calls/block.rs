//! A translated block of guest code: its successors, and its ending.
//!
//! A block lives as long as the plugin, because translated code points at it, and all vCPUs share it. Later facts (that
//! it is called, that interrupts enter there) are flags that change from 0 to 1. Only a mark, which is set once, is
//! cleared again. QEMU from 7.2 on translates code once for all virtual addresses that it is mapped at, and reports
//! only the first one. A kernel's code that ran before its upper half was mapped is such a block. If it runs where an
//! address in the upper half is expected, the block moves there permanently.
//!
//! The same code, translated again, gives the same block. So the guest's code bounds the number of blocks.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use super::stack_effect::StackEffect;
use crate::ending::Ending;

/// An address without code; stands for "has no such successor".
pub const NOWHERE: u64 = u64::MAX;

/// Some code calls this address, or the code there begins like a function.
pub const ENTRY: u8 = 1;
/// Interrupts or exceptions enter here.
pub const INTERRUPT: u8 = 2;
/// A mark is due when this block runs.
pub const MARK: u8 = 4;
/// It runs at another address than the one where it was translated.
pub const MOVED: u8 = 8;

/// A block of guest code. The fields that each run needs are in one cache line: a boot runs a hundred million blocks.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Block {
    /// The address of its first instruction.
    pub start: u64,
    /// Its successor without a jump, or [`NOWHERE`].
    pub fall: u64,
    /// Its successor with a jump, or [`NOWHERE`]. If its last instruction [repeats](Block::repeats) itself, this is
    /// that instruction.
    pub target: u64,
    /// Its effect on the stack pointer, on architectures whose calls and returns do not access the stack.
    pub stack_effect: Option<StackEffect>,
    /// Its number of instructions.
    pub insns: u32,
    /// Its last instruction.
    pub ending: Ending,
    /// True for a block of user space.
    pub user: bool,
    /// True if it ends with a call to another segment.
    pub far_call: bool,
    flags: AtomicU8,
    /// One past its last byte: the return address of a call at its end.
    pub end: u64,
    /// The callee of a call at its end, if that is fixed, or [`NOWHERE`].
    pub callee: u64,
    /// The address of its last instruction.
    pub last: u64,
    moved: OnceLock<&'static Block>,
}

impl Block {
    /// A block of `insns` instructions. The last one begins at `last`, and its target is `displacement` from the
    /// block's end.
    pub fn new(start: u64, end: u64, last: u64, insns: u32, ending: Ending, displacement: Option<i64>) -> Block {
        let far = displacement.map_or(NOWHERE, |d| end.wrapping_add(d as u64));
        let (fall, target, callee) = match ending {
            Ending::Call => (NOWHERE, NOWHERE, far),
            Ending::Jump => (NOWHERE, far, NOWHERE),
            Ending::Branch => (end, far, NOWHERE),
            Ending::Other => (end, NOWHERE, NOWHERE),
            _ => (NOWHERE, NOWHERE, NOWHERE),
        };
        let flags = AtomicU8::new(0);
        Block {
            start,
            end,
            fall,
            target,
            last,
            callee,
            insns,
            ending,
            user: false,
            far_call: false,
            stack_effect: None,
            flags,
            moved: OnceLock::new(),
        }
    }

    /// The same block, with a last instruction that repeats itself: `rep`.
    pub fn repeats(self) -> Block {
        Block { target: self.last, ..self }
    }

    /// A block of user space. Only its length matters, and no block has it as an expected successor.
    pub fn user(insns: u32) -> Block {
        let mut b = Block::new(NOWHERE - 1, NOWHERE, NOWHERE, insns, Ending::Trap, None);
        b.user = true;
        b
    }

    /// The block before the first block of a vCPU.
    pub fn before_all() -> Block {
        Block::new(NOWHERE, NOWHERE, NOWHERE, 0, Ending::JumpIndirect, None)
    }

    /// True if `to` is a direct successor: not through a call, a return, or a register.
    #[inline(always)]
    pub fn leads_to(&self, to: u64) -> bool {
        to == self.fall || to == self.target
    }

    /// True if the block ends with a wait or with a call to firmware or a hypervisor, and continues at `to`. This holds
    /// on architectures whose calls do not access the stack, such as arm64. On x86, the wait ends with an interrupt.
    pub fn goes_on_at(&self, to: u64) -> bool {
        self.stack_effect.is_some() && matches!(self.ending, Ending::Halt | Ending::Trap) && to == self.end
    }

    /// True if the fixed call at its end is a call of `to`.
    #[inline(always)]
    pub fn calls(&self, to: u64) -> bool {
        to == self.callee || wraps(self.callee, to)
    }

    /// True if it needs no handling when it runs as expected.
    #[inline(always)]
    pub fn is_plain(&self) -> bool {
        self.flags.load(Relaxed) == 0
    }

    /// True if it needs no handling, except that it may be a called function.
    #[inline(always)]
    pub fn is_plain_or_entry(&self) -> bool {
        self.flags.load(Relaxed) & !ENTRY == 0
    }

    /// True if the other block begins within this one.
    #[inline(always)]
    pub fn contains(&self, other: &Block) -> bool {
        self.start <= other.start && other.start < self.end
    }

    /// True if all of these are set.
    pub fn has(&self, flags: u8) -> bool {
        self.flags.load(Relaxed) & flags == flags
    }

    /// Sets one or more flags. It writes only if something changes, because it runs for every call.
    #[inline(always)]
    pub fn set(&self, flags: u8) {
        if !self.has(flags) {
            self.flags.fetch_or(flags, Relaxed);
        }
    }

    /// Clears a flag.
    pub fn unset(&self, flags: u8) {
        self.flags.fetch_and(!flags, Relaxed);
    }

    /// True if this is the code at `expected`, translated when it ran at its address before the upper half was mapped.
    /// One of the two is then in the upper half, and both have the same offset in their pages.
    pub fn is_also_at(&self, expected: u64) -> bool {
        expected != NOWHERE && (expected ^ self.start) >> 63 == 1 && (expected ^ self.start) & 0xfff == 0
    }

    /// Moves this block to `to`.
    pub fn moves(&'static self, to: u64) -> &'static Block {
        let moved = self.moved.get_or_init(|| {
            let shift = to.wrapping_sub(self.start);
            let at = |address: u64| if address == NOWHERE { NOWHERE } else { address.wrapping_add(shift) };
            let ([start, end, last], [fall, target, callee]) =
                ([self.start, self.end, self.last].map(at), [self.fall, self.target, self.callee].map(at));
            let mut block = Block::new(start, end, last, self.insns, self.ending, None);
            (block.fall, block.target, block.callee) = (fall, target, callee);
            (block.user, block.far_call, block.stack_effect) = (self.user, self.far_call, self.stack_effect);
            Box::leak(Box::new(block))
        });
        self.set(MOVED);
        moved
    }

    /// The block at its current address.
    pub fn now(&'static self) -> &'static Block {
        self.moved.get().copied().unwrap_or(self)
    }

    fn same_code(&self, other: &Block) -> bool {
        let key = |b: &Block| (b.start, b.end, b.target, b.callee, b.insns, b.ending, b.user, b.stack_effect);
        key(self) == key(other)
    }
}

/// True if a jump to `target` arrives at `at` because 16-bit code wraps around within its segment.
pub fn wraps(target: u64, at: u64) -> bool {
    at < 0x11_0000 && at.abs_diff(target) == 0x1_0000
}

/// All blocks, by address.
pub struct Blocks {
    /// Chains of blocks whose starts have the same hash.
    chains: Vec<Vec<&'static Block>>,
    user: Vec<Option<&'static Block>>,
    len: usize,
    max_len: usize,
}

const CHAINS: usize = 1 << 17;
/// The largest number of instructions of a block (`TCG_MAX_INSNS` is 512).
const MAX_INSNS: usize = 512;

impl Blocks {
    /// Makes room for `max_len` blocks.
    pub fn new(max_len: usize) -> Blocks {
        Blocks { chains: vec![Vec::new(); CHAINS], user: vec![None; MAX_INSNS + 1], len: 0, max_len }
    }

    /// The permanent form of a block; `None` if there are too many blocks.
    pub fn keep(&mut self, block: Block) -> Option<&'static Block> {
        let chain = &mut self.chains[(block.start ^ block.start >> 16) as usize % CHAINS];
        if let Some(known) = chain.iter().find(|b| b.same_code(&block)) {
            return Some(known);
        }
        if self.len == self.max_len {
            return None;
        }
        self.len += 1;
        // For a block of another length, or patched code: its callers call the same function.
        let learned = chain.iter().filter(|b| b.start == block.start).fold(0, |all, b| all | b.flags.load(Relaxed));
        block.set(learned & (ENTRY | INTERRUPT));
        let kept: &'static Block = Box::leak(Box::new(block));
        chain.push(kept);
        Some(kept)
    }

    /// The block that stands for all blocks of user space with this number of instructions.
    pub fn user(&mut self, insns: u32) -> &'static Block {
        let slot = &mut self.user[(insns as usize).min(MAX_INSNS)];
        slot.get_or_insert_with(|| Box::leak(Box::new(Block::user(insns))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_block_leads() {
        let b = |ending, d| Block::new(0x1000, 0x1010, 0x100c, 4, ending, d);
        assert!(b(Ending::Other, None).leads_to(0x1010) && !b(Ending::Other, None).leads_to(0x100c));
        assert!(b(Ending::Other, None).repeats().leads_to(0x1010) && b(Ending::Other, None).repeats().leads_to(0x100c));
        assert!(b(Ending::Branch, Some(-16)).leads_to(0x1000) && b(Ending::Branch, Some(-16)).leads_to(0x1010));
        assert!(b(Ending::Jump, Some(16)).leads_to(0x1020) && !b(Ending::Jump, Some(16)).leads_to(0x1010));
        assert!(!b(Ending::Call, Some(16)).leads_to(0x1020) && !b(Ending::Return, None).leads_to(0x1010));
        assert_eq!(b(Ending::Call, Some(16)).callee, 0x1020);
    }

    #[test]
    fn the_same_code_is_one_block_and_patched_code_another() {
        let mut blocks = Blocks::new(2);
        let b = |to| Block::new(0x1000, 0x1005, 0x1000, 1, Ending::Jump, Some(to));
        let first = blocks.keep(b(0)).unwrap();
        first.set(ENTRY);
        assert!(std::ptr::eq(first, blocks.keep(b(0)).unwrap()));
        let patched = blocks.keep(b(64)).unwrap();
        assert!(!std::ptr::eq(first, patched) && patched.has(ENTRY));
        assert!(blocks.keep(b(128)).is_none(), "full");
        assert!(std::ptr::eq(blocks.user(7), blocks.user(7)));
    }
}
