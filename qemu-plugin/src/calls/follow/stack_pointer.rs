//! Follows the stack pointer from block to block, on architectures whose calls and returns do not access the stack
//! (arm64, riscv64).
//!
//! The stack pointer at a block's end is the one at its begin, plus the effect of its instructions. An access to the
//! stack in the block shows it again. It is lost where code sets it, and where an interrupt comes; the return from the
//! interrupt restores it. A call or a return with an unknown stack pointer waits for an access in the next blocks. A
//! function's first access is mostly the one that makes its frame.

use super::{Shared, Vcpu};
use crate::calls::block::{Block, INTERRUPT};
use crate::calls::stack_effect::StackEffect;
use crate::calls::stacks::WINDOW_BITS;
use crate::ending::Ending;

/// The largest number of calls and returns that wait at once.
pub(super) const MAX_WAITING: usize = 8;

/// A call or a return that waits for its stack pointer.
#[derive(Clone, Copy)]
pub(super) struct Waiting {
    /// The block that it ends.
    before: &'static Block,
    /// The block that it leads to, as QEMU reports it.
    block: &'static Block,
    /// The bytes by which later blocks, without the current one, have moved the stack pointer.
    moved: i64,
    /// The number of instructions of those blocks.
    insns: u64,
}

impl Vcpu {
    /// Handles the run of a block.
    #[inline(always)]
    pub fn runs_by_effect(&mut self, shared: &Shared, block: &'static Block) {
        let before = self.block;
        if before.leads_to(block.start) && block.is_plain() {
            // Nothing waits while the stack pointer is known.
            if let (Some(sp), Some(StackEffect { moves: Some(moved), .. })) = (&mut self.end_sp, block.stack_effect) {
                *sp = sp.wrapping_add_signed(moved.into());
                self.block = block;
                self.insns = self.insns.wrapping_add(block.insns.into());
                self.has_access = false;
                return;
            }
        }
        self.handle_unexpected(shared, before, block);
    }

    /// Handles a block that is not an expected successor, or that runs with an unknown stack pointer.
    #[inline(never)]
    fn handle_unexpected(&mut self, shared: &Shared, before: &'static Block, block: &'static Block) {
        self.has_access = false;
        if self.end_sp.is_some_and(|sp| self.calls_or_returns(shared, before, block, sp)) {
            self.begin_block(block, self.end_sp);
            return;
        }
        let as_expected = before.leads_to(block.start) && block.is_plain();
        self.ran_in_upper_half |= block.start >> 63 != 0;
        if !self.waiting.is_empty() {
            self.keep_waiting(shared, before, block, as_expected);
        }
        self.block = block;
        let mut sp = self.end_sp;
        if !as_expected {
            if sp.is_none()
                && is_call_or_return(before)
                && block.stack_effect.is_some_and(|effect| effect.moves.is_some())
            {
                self.waiting.push(Waiting { before, block, moved: 0, insns: 0 });
            } else {
                sp = self.handle_transfer_by_effect(shared, before, block, sp);
            }
        }
        self.begin_block(block, sp);
    }

    /// Begins the block with this stack pointer.
    #[inline(always)]
    fn begin_block(&mut self, block: &'static Block, sp: Option<u64>) {
        self.block = block;
        self.end_sp = block.stack_effect.and_then(|effect| effect.end(sp));
        self.insns = self.insns.wrapping_add(block.insns.into());
    }

    /// Handles a memory access of the block, whose address shows the block's stack pointer.
    #[inline(always)]
    pub fn stack_access(&mut self, shared: &Shared, block: &'static Block, address: u64) {
        // As on x86, QEMU 7.2 also calls for instructions other than the registered one.
        if !std::ptr::eq(self.block, block) && !std::ptr::eq(self.block, block.now()) {
            self.counts.strays += 1;
            return;
        }
        let Some(effect) = block.stack_effect.filter(|_| !self.has_access) else { return };
        self.has_access = true;
        let end = effect.end_by(address);
        if !self.waiting.is_empty() {
            self.handle_waiting(shared, block, effect.begin(end));
        }
        self.end_sp = Some(end);
    }

    /// Goes on waiting while blocks lead to each other, by calls and returns at most, and nothing sets the stack
    /// pointer. Otherwise the waiting calls and returns are handled without it.
    #[inline(never)]
    fn keep_waiting(&mut self, shared: &Shared, before: &'static Block, block: &'static Block, as_expected: bool) {
        let goes_on = as_expected || (is_call_or_return(before) && self.waiting.len() < MAX_WAITING);
        match before.stack_effect.and_then(|effect| effect.moves).filter(|_| goes_on && block.stack_effect.is_some()) {
            Some(moved) => self.waiting.iter_mut().for_each(|waiting| {
                waiting.moved = waiting.moved.wrapping_add(moved.into());
                waiting.insns = waiting.insns.wrapping_add(before.insns.into());
            }),
            None => self.handle_waiting(shared, before, None),
        }
    }

    /// Handles the waiting calls and returns, each as of its own time. `current` is the block that runs now, and
    /// `begin` its first stack pointer.
    fn handle_waiting(&mut self, shared: &Shared, current: &'static Block, begin: Option<u64>) {
        let mut now = self.insns;
        for n in 0..self.waiting.len() {
            let Waiting { before, block, moved, insns } = self.waiting[n];
            let then = now.wrapping_sub(insns).wrapping_sub(current.insns.into());
            self.insns = then;
            self.handle_transfer_by_effect(shared, before, block, begin.map(|begin| begin.wrapping_sub(moved as u64)));
            now = now.wrapping_sub(then.wrapping_sub(self.insns)); // instructions that were begun and did not run
        }
        self.waiting.clear();
        self.insns = now;
        self.block = current;
    }

    /// Handles a block that is not the expected successor of the block before, which ended with this stack pointer.
    /// Returns the stack pointer with which the block begins.
    #[inline(always)]
    fn handle_transfer_by_effect(
        &mut self,
        shared: &Shared,
        before: &'static Block,
        block: &'static Block,
        sp: Option<u64>,
    ) -> Option<u64> {
        if before.contains(block) {
            if let Some(begin) = self.left_unfinished(before, block, sp) {
                return begin;
            }
        }
        self.end_sp = sp;
        self.sp = sp.filter(|_| is_call_or_return(before));
        let came_between = self.counts.interrupts + self.counts.left_early;
        self.handle_transfer(shared, before, block);
        let as_expected = came_between == self.counts.interrupts + self.counts.left_early;
        let sp = match before.ending {
            Ending::InterruptReturn => self.resumed_at.exact.then_some(self.resumed_at.sp),
            _ => sp,
        };
        sp.filter(|_| as_expected && !block.user)
    }

    /// Handles a block that was left before its end, so that no access shows the stack pointer of its ending. Some
    /// devices make QEMU do so, and translate the rest again. Returns `None` in any other case; otherwise the stack
    /// pointer with which the current block begins, if that is known.
    #[inline(never)]
    fn left_unfinished(&mut self, before: &Block, block: &Block, end: Option<u64>) -> Option<Option<u64>> {
        // A loop, also through a register or of the block itself; and code to which an interrupt returned.
        let by_register = matches!(before.ending, Ending::JumpIndirect | Ending::InterruptReturn);
        let leads_here = by_register || before.leads_to(block.start) || before.calls(block.start);
        if leads_here || before.user || block.has(INTERRUPT) {
            return None;
        }
        let effect = before.stack_effect?;
        if self.left_in_the_middle(before, block) {
            return Some(end.filter(|_| effect.moves == Some(0)));
        }
        self.counts.left_early += 1;
        self.insns = self.insns.wrapping_sub(before.insns.into());
        Some(end.and_then(|end| effect.begin(end)))
    }

    /// The current stack pointer, if it is known. If it is far from the last one, code may have changed to a stack on
    /// which no call was made yet.
    pub(super) fn exact_sp(&self) -> Option<u64> {
        self.end_sp.filter(|sp| sp.abs_diff(self.last_sp) >> WINDOW_BITS == 0)
    }
}

fn is_call_or_return(block: &Block) -> bool {
    matches!(block.ending, Ending::Call | Ending::CallIndirect | Ending::Return)
}
