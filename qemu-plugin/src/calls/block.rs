//! What is known of a block of guest code once it is translated: where it leads, and how it ends.
//!
//! A block lives as long as the plugin, because translated code points at it, and is shared by all vCPUs; what is
//! learned about it later (that it is called, that interrupts enter there) are flags that go from 0 to 1. Only a mark,
//! which is set once, is taken away again.
//! QEMU from 7.2 on translates code once for all virtual addresses that it is mapped at, and reports the first one
//! only. A kernel's code that ran before its upper half was mapped is such a block; when it is met where an address in
//! the upper half was expected, it moves there for good.
//!
//! The same code translated again gives the same block, so that their number is bounded by the guest's code.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use super::on_stack::OnStack;
use crate::ending::Ending;

/// An address at which no code is: "leads nowhere by itself".
pub const NOWHERE: u64 = u64::MAX;

/// Something calls this address, or the code there begins as functions do.
pub const ENTRY: u8 = 1;
/// Interrupts or exceptions enter here.
pub const INTERRUPT: u8 = 2;
/// A mark is to be set when this block runs.
pub const MARK: u8 = 4;
/// It runs at another address than the one that it was translated at.
pub const MOVED: u8 = 8;

/// A block of guest code. What each run of it needs is in one line of the cache: a boot runs a hundred million.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Block {
    /// Its first instruction.
    pub start: u64,
    /// Where it leads without a jump, or [`NOWHERE`].
    pub fall: u64,
    /// Where it leads with one, or [`NOWHERE`]; if its last instruction [repeats](Block::repeats) itself, there.
    pub target: u64,
    /// What it does to the stack pointer, where no call and no return accesses the stack.
    pub on_stack: Option<OnStack>,
    /// Instructions.
    pub insns: u32,
    /// What its last instruction does.
    pub ending: Ending,
    /// Whether it is user space's.
    pub user: bool,
    /// Whether it ends with a call to another segment.
    pub far_call: bool,
    flags: AtomicU8,
    /// One past its last byte: where a call at its end returns to.
    pub end: u64,
    /// What a call at its end calls, if that is fixed, or [`NOWHERE`].
    pub callee: u64,
    /// Its last instruction.
    pub last: u64,
    moved: OnceLock<&'static Block>,
}

impl Block {
    /// A block of `insns` instructions, the last of which begins at `last` and leads `displacement` from its end.
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
            on_stack: None,
            flags,
            moved: OnceLock::new(),
        }
    }

    /// The same whose last instruction repeats itself: `rep`.
    pub fn repeats(self) -> Block {
        Block { target: self.last, ..self }
    }

    /// A block of user space: only its length matters, and that nothing leads to it as expected.
    pub fn user(insns: u32) -> Block {
        let mut b = Block::new(NOWHERE - 1, NOWHERE, NOWHERE, insns, Ending::Trap, None);
        b.user = true;
        b
    }

    /// What stands before the first block of a vCPU.
    pub fn before_all() -> Block {
        Block::new(NOWHERE, NOWHERE, NOWHERE, 0, Ending::JumpIndirect, None)
    }

    /// Whether it leads to `to` by itself: not through a call, a return, or a register.
    #[inline(always)]
    pub fn leads_to(&self, to: u64) -> bool {
        to == self.fall || to == self.target
    }

    /// Whether it only waits at its end, or asks who is above the kernel, and goes on at `to` then. Where a call leaves the stack alone,
    /// as on arm64, that is so; x86's waits for an interrupt.
    pub fn goes_on_at(&self, to: u64) -> bool {
        self.on_stack.is_some() && matches!(self.ending, Ending::Halt | Ending::Trap) && to == self.end
    }

    /// Whether the fixed call at its end is of `to`.
    #[inline(always)]
    pub fn calls(&self, to: u64) -> bool {
        to == self.callee || wraps(self.callee, to)
    }

    /// Whether anything is to be looked at even when it is reached as expected.
    #[inline(always)]
    pub fn is_plain(&self) -> bool {
        self.flags.load(Relaxed) == 0
    }

    /// The same where nothing is known but that it is called.
    #[inline(always)]
    pub fn is_plain_or_entry(&self) -> bool {
        self.flags.load(Relaxed) & !ENTRY == 0
    }

    /// Whether the other one begins within it.
    #[inline(always)]
    pub fn contains(&self, other: &Block) -> bool {
        self.start <= other.start && other.start < self.end
    }

    /// Whether all of these are set.
    pub fn has(&self, flags: u8) -> bool {
        self.flags.load(Relaxed) & flags == flags
    }

    /// Sets one or more. Writes only where something changes: this is called for every call.
    #[inline(always)]
    pub fn set(&self, flags: u8) {
        if !self.has(flags) {
            self.flags.fetch_or(flags, Relaxed);
        }
    }

    /// Takes one away.
    pub fn unset(&self, flags: u8) {
        self.flags.fetch_and(!flags, Relaxed);
    }

    /// Whether this is the code at `expected`, translated when it ran at its address before the upper half was mapped:
    /// one of the two is in the upper half, and they have the same place in their pages.
    pub fn is_also_at(&self, expected: u64) -> bool {
        expected != NOWHERE && (expected ^ self.start) >> 63 == 1 && (expected ^ self.start) & 0xfff == 0
    }

    /// From now on this block is at `to`.
    pub fn moves(&'static self, to: u64) -> &'static Block {
        let moved = self.moved.get_or_init(|| {
            let shift = to.wrapping_sub(self.start);
            let at = |address: u64| if address == NOWHERE { NOWHERE } else { address.wrapping_add(shift) };
            let ([start, end, last], [fall, target, callee]) =
                ([self.start, self.end, self.last].map(at), [self.fall, self.target, self.callee].map(at));
            let mut block = Block::new(start, end, last, self.insns, self.ending, None);
            (block.fall, block.target, block.callee) = (fall, target, callee);
            (block.user, block.far_call, block.on_stack) = (self.user, self.far_call, self.on_stack);
            Box::leak(Box::new(block))
        });
        self.set(MOVED);
        moved
    }

    /// The block at the address where it is now.
    pub fn now(&'static self) -> &'static Block {
        self.moved.get().copied().unwrap_or(self)
    }

    fn same_code(&self, other: &Block) -> bool {
        let key = |b: &Block| (b.start, b.end, b.target, b.callee, b.insns, b.ending, b.user, b.on_stack);
        key(self) == key(other)
    }
}

/// Whether a jump to `target` arrives at `at` because 16-bit code wraps around within its segment.
pub fn wraps(target: u64, at: u64) -> bool {
    at < 0x11_0000 && at.abs_diff(target) == 0x1_0000
}

/// All blocks, by address.
pub struct Blocks {
    /// Chains of blocks with the same hash of their start.
    chains: Vec<Vec<&'static Block>>,
    user: Vec<Option<&'static Block>>,
    len: usize,
    most: usize,
}

const CHAINS: usize = 1 << 17;
/// A block has at most so many instructions (`TCG_MAX_INSNS` is 512).
const MOST_INSNS: usize = 512;

impl Blocks {
    /// Room for `most` blocks.
    pub fn new(most: usize) -> Blocks {
        Blocks { chains: vec![Vec::new(); CHAINS], user: vec![None; MOST_INSNS + 1], len: 0, most }
    }

    /// The lasting form of a block; none if there are too many.
    pub fn keep(&mut self, block: Block) -> Option<&'static Block> {
        let chain = &mut self.chains[(block.start ^ block.start >> 16) as usize % CHAINS];
        if let Some(known) = chain.iter().find(|b| b.same_code(&block)) {
            return Some(known);
        }
        if self.len == self.most {
            return None;
        }
        self.len += 1;
        // Another length, or patched code: its callers call the same function.
        let learned = chain.iter().filter(|b| b.start == block.start).fold(0, |all, b| all | b.flags.load(Relaxed));
        block.set(learned & (ENTRY | INTERRUPT));
        let kept: &'static Block = Box::leak(Box::new(block));
        chain.push(kept);
        Some(kept)
    }

    /// The block that stands for all of user space's with so many instructions.
    pub fn user(&mut self, insns: u32) -> &'static Block {
        let slot = &mut self.user[(insns as usize).min(MOST_INSNS)];
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
