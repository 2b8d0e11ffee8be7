//! Jumps, tail calls, and events between two blocks.

use super::{Shared, Vcpu};
use crate::calls::block::{Block, ENTRY, INTERRUPT, NOWHERE, wraps};
use crate::calls::stack::{Entered, Frame};
use crate::calls::tree::{Kind, Path};
use crate::ending::Ending;

/// The largest length of a chain of tail calls that is searched.
const MAX_TAIL_CHAIN: usize = 16;

impl Vcpu {
    /// Handles a jump, or an event between two blocks.
    #[inline(always)]
    pub(super) fn jumped(&mut self, shared: &Shared, before: &'static Block, block: &'static Block) {
        let expected =
            before.leads_to(block.start) || wraps(before.target, block.start) || before.goes_on_at(block.start);
        if expected || (before.ending == Ending::JumpIndirect && !block.has(INTERRUPT)) {
            if block.has(ENTRY) && block.start != self.function {
                self.tail_called(shared, block);
            }
        } else if !self.left_in_the_middle(before, block) && !self.begins_again(before, block) {
            let now = self.now(shared);
            self.interrupted(shared, before, block, now);
        }
    }

    /// Handles the first block of all. InterruptedStack here on the vCPU has nodes in which no other one counts.
    pub(super) fn starts(&mut self, shared: &Shared, block: &'static Block) {
        let path = Path { parent: 0, function: block.start, place: self.out.vcpu().into(), kind: Kind::Stack };
        let out = &mut self.out;
        self.start_node = shared.tree.vcpu_node(&path, |id| out.node(id, &path)).unwrap_or(0);
        self.node = self.start_node;
        self.define_user_space(shared);
        self.spent_ticks = self.now(shared);
        self.out.switch(self.node, self.spent_ticks);
    }

    pub(super) fn tail_called(&mut self, shared: &Shared, block: &'static Block) {
        // Without a frame, there is no frame with which it could return.
        let Some(from) = self.stack.top().copied().filter(|_| self.pending.is_none()) else { return };
        let now = self.now(shared);
        self.charge_elapsed(shared, now);
        // Functions that jump to each other in turn are a loop, not deeper and deeper calls.
        let mut chain = self.stack.innermost_first().take(MAX_TAIL_CHAIN).take_while(|frame| frame.sp == from.sp);
        let depth = chain.position(|frame| shared.tree.get(frame.node).function() == block.start);
        self.function = block.start;
        if let Some(depth) = depth {
            for _ in 0..depth {
                self.pop(shared, now);
            }
            self.node = self.innermost_node();
            return;
        }
        let child = self.child(shared, self.node, block.start, 0, Kind::Tail);
        self.push(shared, Frame { sp: from.sp, back: from.back, ..Frame::new(child, Entered::Tail, now) });
        self.counts.tail_calls += 1;
        self.tick(shared, now);
    }

    /// Handles a call at the end of `before` that was not reached or failed. Returns false if the call was made.
    #[inline(never)]
    pub(super) fn not_reached(
        &mut self,
        shared: &Shared,
        before: &'static Block,
        block: &'static Block,
        now: u64,
    ) -> bool {
        if self.left_in_the_middle(before, block) {
            return true;
        }
        let exception = block.has(INTERRUPT) || (before.callee != NOWHERE && !before.calls(block.start));
        if exception {
            self.interrupted(shared, before, block, now);
        }
        exception
    }

    /// True if the block begins again because its first instruction changed the block's own code. Nothing of it ran the
    /// first time.
    fn begins_again(&mut self, before: &Block, block: &Block) -> bool {
        let again = block.start == before.start && !block.has(INTERRUPT);
        if again {
            self.counts.left_early += 1;
            self.insns = self.insns.wrapping_sub(before.insns.into());
        }
        again
    }

    /// True if execution continues in the middle of the block that was begun. The instructions that did not run are
    /// subtracted.
    pub(super) fn left_in_the_middle(&mut self, before: &Block, block: &Block) -> bool {
        let not_run = left_early(before, block);
        if let Some(not_run) = not_run {
            self.counts.left_early += 1;
            self.insns = self.insns.wrapping_sub(not_run.into());
        }
        not_run.is_some()
    }
}

/// The number of instructions of `before` that did not run, if execution went on at `block` in the middle of it.
pub(super) fn left_early(before: &Block, block: &Block) -> Option<u32> {
    if !(before.start < block.start && block.start < before.end) {
        return None;
    }
    if block.start == before.last {
        // The last instruction failed. Or QEMU 7.2 reported it and removed it again, because it crosses into the next
        // page.
        return Some(1);
    }
    if block.end == before.end {
        return Some(block.insns.min(before.insns));
    }
    // The blocks end at different addresses, so the share of the bytes gives an estimate.
    let share = (before.end - block.start) as f64 / (before.end - before.start) as f64;
    Some((f64::from(before.insns) * share) as u32)
}

/// Like [`left_early`], after an interrupt: an exception may already have come from the first instruction.
pub(super) fn left_early_or_at_once(before: &Block, block: &Block) -> Option<u32> {
    if block.start == before.start && !before.leads_to(block.start) {
        return Some(before.insns);
    }
    left_early(before, block).filter(|_| !before.leads_to(block.start))
}
