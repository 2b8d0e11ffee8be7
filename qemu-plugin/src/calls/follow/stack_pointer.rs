//! The stack pointer where no call and no return accesses the stack (arm64, riscv64): followed from block to block.
//!
//! A block's end has the stack pointer of its begin, moved by what its instructions add to it; an access to the stack in the block tells it
//! anew. It is lost where code sets it, and where an interrupt comes; the return from that gives it back. A call or a return whose stack
//! pointer is not known waits for an access in the blocks that come next: a function's first is mostly the one that makes its frame.

use super::{Shared, Vcpu};
use crate::calls::block::{Block, INTERRUPT};
use crate::calls::on_stack::OnStack;
use crate::calls::stacks::WINDOW_BITS;
use crate::ending::Ending;

/// So many calls and returns wait at once at most.
pub(super) const WAITING_MAX: usize = 8;

/// A call or a return that waits for the stack pointer.
#[derive(Clone, Copy)]
pub(super) struct Waiting {
    /// The block that it ends.
    before: &'static Block,
    /// The one that it leads to, as QEMU reports it.
    block: &'static Block,
    /// How far the blocks since, up to the one that runs, have moved the stack pointer.
    moved: i64,
    /// Their instructions.
    insns: u64,
}

impl Vcpu {
    /// This block runs now.
    #[inline(always)]
    pub fn runs_on_stack(&mut self, shared: &Shared, block: &'static Block) {
        let before = self.block;
        if before.leads_to(block.start) && block.is_plain() {
            // Nothing waits while it is known.
            if let (Some(sp), Some(OnStack { moves: Some(moved), .. })) = (&mut self.end_sp, block.on_stack) {
                *sp = sp.wrapping_add_signed(moved.into());
                self.block = block;
                self.insns = self.insns.wrapping_add(block.insns.into());
                self.is_told = false;
                return;
            }
        }
        self.runs_otherwise(shared, before, block);
    }

    /// The same of a block that the one before does not lead to, or where the stack pointer is not known.
    #[inline(never)]
    fn runs_otherwise(&mut self, shared: &Shared, before: &'static Block, block: &'static Block) {
        self.is_told = false;
        if self.end_sp.is_some_and(|sp| self.calls_or_returns(shared, before, block, sp)) {
            self.begins(block, self.end_sp);
            return;
        }
        let as_expected = before.leads_to(block.start) && block.is_plain();
        self.was_up |= block.start >> 63 != 0;
        if !self.waiting.is_empty() {
            self.waits_on(shared, before, block, as_expected);
        }
        self.block = block;
        let mut sp = self.end_sp;
        if !as_expected {
            if sp.is_none() && is_call_or_return(before) && block.on_stack.is_some_and(|of| of.moves.is_some()) {
                self.waiting.push(Waiting { before, block, moved: 0, insns: 0 });
            } else {
                sp = self.turns_on_stack(shared, before, block, sp);
            }
        }
        self.begins(block, sp);
    }

    /// The block runs, with this stack pointer.
    #[inline(always)]
    fn begins(&mut self, block: &'static Block, sp: Option<u64>) {
        self.block = block;
        self.end_sp = block.on_stack.and_then(|of| of.end(sp));
        self.insns = self.insns.wrapping_add(block.insns.into());
    }

    /// The block accesses memory at this address, which tells its stack pointer.
    #[inline(always)]
    pub fn told(&mut self, shared: &Shared, block: &'static Block, address: u64) {
        // As on x86, QEMU 7.2 goes on calling for other instructions than the one that was asked about.
        if !std::ptr::eq(self.block, block) && !std::ptr::eq(self.block, block.now()) {
            self.counts.strays += 1;
            return;
        }
        let Some(of) = block.on_stack.filter(|_| !self.is_told) else { return };
        self.is_told = true;
        let end = of.end_by(address);
        if !self.waiting.is_empty() {
            self.turns_late(shared, block, of.begin(end));
        }
        self.end_sp = Some(end);
    }

    /// Waits on while blocks lead to each other, by calls and returns at most, and nothing sets the stack pointer. Else what waits has to
    /// do without.
    #[inline(never)]
    fn waits_on(&mut self, shared: &Shared, before: &'static Block, block: &'static Block, as_expected: bool) {
        let goes_on = as_expected || (is_call_or_return(before) && self.waiting.len() < WAITING_MAX);
        match before.on_stack.and_then(|of| of.moves).filter(|_| goes_on && block.on_stack.is_some()) {
            Some(moved) => self.waiting.iter_mut().for_each(|waiting| {
                waiting.moved = waiting.moved.wrapping_add(moved.into());
                waiting.insns = waiting.insns.wrapping_add(before.insns.into());
            }),
            None => self.turns_late(shared, before, None),
        }
    }

    /// What waited, each as of the moment when it was. `runs` is the block that runs by now, and begins with this stack pointer.
    fn turns_late(&mut self, shared: &Shared, runs: &'static Block, begin: Option<u64>) {
        let mut now = self.insns;
        for n in 0..self.waiting.len() {
            let Waiting { before, block, moved, insns } = self.waiting[n];
            let then = now.wrapping_sub(insns).wrapping_sub(runs.insns.into());
            self.insns = then;
            self.turns_on_stack(shared, before, block, begin.map(|begin| begin.wrapping_sub(moved as u64)));
            now = now.wrapping_sub(then.wrapping_sub(self.insns)); // what was begun and did not run
        }
        self.waiting.clear();
        self.insns = now;
        self.block = runs;
    }

    /// What the guest does is not what the block before leads to, at whose end the stack pointer was this. Returns the one that the block
    /// begins with.
    #[inline(always)]
    fn turns_on_stack(
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
        self.turns(shared, before, block);
        let as_told = came_between == self.counts.interrupts + self.counts.left_early;
        let sp = match before.ending {
            Ending::InterruptReturn => self.back_at.exact.then_some(self.back_at.sp),
            _ => sp,
        };
        sp.filter(|_| as_told && !block.user)
    }

    /// Whether the block before, in which this one begins, was left before its end: what it ends with, no access tells here. Some devices
    /// make QEMU do so, which translates the rest anew. Then it is dealt with here, and the result is the stack pointer that is begun with,
    /// if that is known.
    #[inline(never)]
    fn left_unfinished(&mut self, before: &Block, block: &Block, end: Option<u64>) -> Option<Option<u64>> {
        // A loop, also one by way of a register or of itself; and what an interrupt came to.
        let by_register = matches!(before.ending, Ending::JumpIndirect | Ending::InterruptReturn);
        let leads_here = by_register || before.leads_to(block.start) || before.calls(block.start);
        if leads_here || before.user || block.has(INTERRUPT) {
            return None;
        }
        let of = before.on_stack?;
        if self.left_in_the_middle(before, block) {
            return Some(end.filter(|_| of.moves == Some(0)));
        }
        self.counts.left_early += 1;
        self.insns = self.insns.wrapping_sub(before.insns.into());
        Some(end.and_then(|end| of.begin(end)))
    }

    /// The stack pointer of the moment, if it is known. Where it is far from the last one, code may have changed to a stack that no call
    /// was made on yet.
    pub(super) fn exact_sp(&self) -> Option<u64> {
        self.end_sp.filter(|sp| sp.abs_diff(self.last_sp) >> WINDOW_BITS == 0)
    }
}

fn is_call_or_return(block: &Block) -> bool {
    matches!(block.ending, Ending::Call | Ending::CallIndirect | Ending::Return)
}
