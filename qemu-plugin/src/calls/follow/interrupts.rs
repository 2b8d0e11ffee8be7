//! Interrupts, exceptions and system calls: into the kernel and back, with or without a stack of their own.

#![allow(unsafe_code, reason = "a block is kept as its address")]

use std::sync::atomic::Ordering::Relaxed;

use super::jumps::{left_early, left_early_or_at_once};
use super::tell::Mark;
use super::{Shared, Vcpu};
use crate::calls::block::{Block, INTERRUPT, MARK, NOWHERE};
use crate::calls::stacks::{Entered, From, Open};
use crate::calls::tree::Kind;

/// An interrupt whose handler has not called anything yet, so that its stack is not known.
pub(super) struct Pending {
    since: u64,
    /// The block before it.
    after: &'static Block,
    node: u32,
    from: From,
}

impl Vcpu {
    /// An interrupt, an exception or a system call in the kernel or before it.
    #[inline(never)]
    pub(super) fn interrupted(&mut self, shared: &Shared, before: &'static Block, block: &'static Block, now: u64) {
        self.settle(shared, now);
        self.sp = None;
        block.set(INTERRUPT);
        let bottom = self.node_of(shared, 0);
        self.waits_for_stack(shared, bottom, before, block, now);
    }

    pub(super) fn waits_for_stack(
        &mut self,
        shared: &Shared,
        bottom: u32,
        after: &'static Block,
        block: &Block,
        now: u64,
    ) {
        self.counts.interrupts += 1;
        self.counts.lost_interrupts += u64::from(self.pending.is_some());
        let node = self.child(shared, bottom, block.start, 0, Kind::Interrupt);
        let from = match (self.window, self.exact_sp()) {
            (NOWHERE, _) => From::default(),
            (_, exact) => From { stack: self.stack, sp: exact.unwrap_or(self.last_sp), exact: exact.is_some() },
        };
        self.pending = Some(Pending { since: now, after, node, from });
        (self.node, self.function) = (node, block.start);
        self.touch(shared, node);
    }

    /// The handler of an interrupt makes its first call, at `sp`: its own frame lies above.
    pub(super) fn attach(&mut self, shared: &Shared, sp: u64, now: u64) {
        let Some(pending) = self.pending.take() else { return };
        let function = shared.tree.get(pending.node).function();
        let bottom = self.node_of(shared, 0);
        let node = self.child(shared, bottom, function, 0, Kind::Interrupt);
        let back = std::ptr::from_ref(pending.after) as u64;
        let (since, from) = (pending.since, pending.from);
        self.push(shared, Open { sp: sp + 1, back, since, from, ..self.frame(node, Entered::Interrupt, now) });
    }

    /// Back from an interrupt to the kernel, or an `iret` that is only a jump.
    pub(super) fn resumed(&mut self, shared: &Shared, block: &'static Block) {
        let now = self.now(shared);
        self.settle(shared, now);
        let stack = self.stack;
        self.back_at = From::default();
        let after = match self.pending.take() {
            Some(pending) => {
                shared.tree.get(pending.node).enter();
                self.back_at = pending.from;
                Some(pending.after)
            }
            None => self.ends_interrupt(shared, block, now),
        };
        let top = shared.stacks.top(self.stack);
        self.node = self.node_of(shared, top);
        self.function = shared.tree.get(self.node).function();
        if self.stack != stack {
            self.switched(now);
        }
        if self.function == 0 && top != 0 {
            self.becomes(shared, top, block.start); // the call that the interrupt came after, through a register
        }
        if let Some(after) = after.filter(|after| came_at_once(after, block)) {
            let bottom = if after.user { self.user_node } else { self.node_of(shared, 0) };
            self.waits_for_stack(shared, bottom, after, block, now);
        } else if let Some(not_run) = after.and_then(|after| left_early_or_at_once(after, block)) {
            self.counts.left_early += 1;
            let n = u64::from(not_run);
            shared.tree.get(self.node).spend(n.wrapping_neg(), 0);
            self.touch(shared, self.node);
            self.insns -= n;
            self.spent_insns -= n;
        }
        self.tick(shared, now);
    }

    /// Takes off the innermost interrupt, if this can be the return from it: nothing was called since that has not
    /// returned, or execution goes on where it was interrupted. Returns the block that it came after.
    pub(super) fn ends_interrupt(&mut self, shared: &Shared, block: &Block, now: u64) -> Option<&'static Block> {
        let top = shared.stacks.top(self.stack);
        let mut at = top;
        while at != 0 && shared.stacks.frame(at).get().entered != Entered::Interrupt {
            at = shared.stacks.frame(at).below();
        }
        if at == 0 {
            return None;
        }
        // SAFETY: in an interrupt's frame `back` is the address of a `&'static Block`, and only `attach` writes it.
        let after: &'static Block = unsafe { &*(shared.stacks.frame(at).get().back as *const Block) };
        if at != top && !after.leads_to(block.start) && left_early(after, block).is_none() {
            return None;
        }
        while shared.stacks.top(self.stack) != at {
            let lost = self.pop(shared, now);
            self.counts.dropped += u64::from(lost.is_some_and(|open| open.entered == Entered::Call));
        }
        self.back_at = self.pop(shared, now).map_or(From::default(), |open| open.from);
        self.goes_back(self.back_at);
        Some(after)
    }

    pub(super) fn enters_user(&mut self, shared: &Shared, before: &Block, block: &'static Block) {
        let now = self.now(shared);
        if !before.user {
            self.settle(shared, now);
            if let Some(pending) = self.pending.take() {
                shared.tree.get(pending.node).enter();
            }
            self.unwind(shared, now, |_| true); // its stack in the kernel is empty now
            (self.node, self.function, self.window, self.sp) = (self.user_node, NOWHERE, NOWHERE, None);
            self.out.switch(self.user_node, now);
            if !shared.user_seen.swap(true, Relaxed) {
                self.mark(shared, Mark::FirstUser, now);
            }
        }
        if block.has(MARK) {
            block.unset(MARK);
            self.settle(shared, now);
            self.mark(shared, Mark::FirstUserOut, now);
        }
    }

    /// From user space, by whatever way: until the first call it is not known onto which stack.
    pub(super) fn leaves_user(&mut self, shared: &Shared, before: &'static Block, block: &'static Block) {
        let now = self.now(shared);
        self.settle(shared, now);
        block.set(INTERRUPT);
        self.pending = None;
        self.waits_for_stack(shared, self.user_node, before, block, now);
    }
}

/// Whether the return from an interrupt that came after a block led to the next interrupt, before anything else ran.
fn came_at_once(after: &Block, block: &Block) -> bool {
    block.has(INTERRUPT) && !after.leads_to(block.start) && left_early_or_at_once(after, block).is_none()
}
