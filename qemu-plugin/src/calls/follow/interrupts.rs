//! Interrupts, exceptions and system calls: into the kernel and back, on the same stack or on another.

use std::sync::atomic::Ordering::Relaxed;

use super::jumps::{left_early, left_early_or_at_once};
use super::output::Mark;
use super::{Shared, Vcpu};
use crate::calls::block::{Block, INTERRUPT, MARK, NOWHERE};
use crate::calls::stack::{Entered, Frame, InterruptPoint, InterruptedStack, MAX_SEARCH};
use crate::calls::tree::Kind;

/// An interrupt whose handler has not called anything yet, so its stack is not known.
pub(super) struct Pending {
    since: u64,
    node: u32,
    point: InterruptPoint,
}

impl Vcpu {
    /// Handles an interrupt, an exception or a system call, in the kernel or before it.
    #[inline(never)]
    pub(super) fn interrupted(&mut self, shared: &Shared, before: &'static Block, block: &'static Block, now: u64) {
        self.charge_elapsed(shared, now);
        self.sp = None;
        block.set(INTERRUPT);
        let bottom = self.bottom_node();
        self.wait_for_stack(shared, bottom, before, block, now);
    }

    pub(super) fn wait_for_stack(
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
            (NOWHERE, _) => InterruptedStack::default(),
            (_, exact) => InterruptedStack {
                stack: self.stack.number(),
                sp: exact.unwrap_or(self.last_sp),
                exact: exact.is_some(),
            },
        };
        self.pending = Some(Pending { since: now, node, point: InterruptPoint { after, from } });
        (self.node, self.function) = (node, block.start);
        self.touch(shared, node);
    }

    /// Pushes the frame of an interrupt when its handler makes its first call, at `sp`. The frame lies above.
    pub(super) fn attach(&mut self, shared: &Shared, sp: u64) {
        let Some(pending) = self.pending.take() else { return };
        let function = shared.tree.get(pending.node).function();
        let node = self.child(shared, self.bottom_node(), function, 0, Kind::Interrupt);
        let frame = Frame::new(node, Entered::Interrupt(pending.point), pending.since);
        self.push(shared, Frame { sp: sp.wrapping_add(1), ..frame });
    }

    /// Handles a return from an interrupt to the kernel, or an `iret` that is only a jump.
    pub(super) fn resumed(&mut self, shared: &Shared, block: &'static Block) {
        let now = self.now(shared);
        self.charge_elapsed(shared, now);
        let stack = self.stack.number();
        self.resumed_at = InterruptedStack::default();
        let after = match self.pending.take() {
            Some(pending) => {
                shared.tree.get(pending.node).enter();
                self.resumed_at = pending.point.from;
                Some(pending.point.after)
            }
            None => self.end_interrupt(shared, block, now),
        };
        self.node = self.innermost_node();
        self.function = shared.tree.get(self.node).function();
        if self.stack.number() != stack {
            self.switched(now);
        }
        if self.function == 0 {
            self.change_innermost_function(shared, block.start); // the call that the interrupt came after, through a register
        }
        if let Some(after) = after.filter(|after| came_at_once(after, block)) {
            let bottom = if after.user { self.user_node } else { self.bottom_node() };
            self.wait_for_stack(shared, bottom, after, block, now);
        } else if let Some(not_run) = after.and_then(|after| left_early_or_at_once(after, block)) {
            self.counts.left_early += 1;
            // A guest can return elsewhere, to a function that has run fewer instructions.
            let n = u64::from(not_run).min(shared.tree.get(self.node).insns());
            shared.tree.get(self.node).spend(n.wrapping_neg(), 0);
            self.touch(shared, self.node);
            self.insns = self.insns.wrapping_sub(n);
            self.spent_insns = self.spent_insns.wrapping_sub(n);
        }
        self.tick(shared, now);
    }

    /// Removes the innermost interrupt, if this can be the return from it. Then no call since is still open, or
    /// execution continues at the interrupted place. Returns the block after which the interrupt came.
    pub(super) fn end_interrupt(&mut self, shared: &Shared, block: &Block, now: u64) -> Option<&'static Block> {
        let mut frames = self.stack.innermost_first().take(MAX_SEARCH).enumerate();
        let (above, InterruptPoint { after, from }) =
            frames.find_map(|(n, frame)| Some((n, frame.interrupt_point()?)))?;
        if above != 0 && !after.leads_to(block.start) && left_early(after, block).is_none() {
            return None;
        }
        for _ in 0..above {
            let lost = self.pop(shared, now);
            self.counts.dropped += u64::from(lost.is_some_and(|frame| frame.is_call()));
        }
        self.pop(shared, now);
        self.resumed_at = from;
        self.return_to_stack(shared, from);
        Some(after)
    }

    pub(super) fn enter_user(&mut self, shared: &Shared, before: &Block, block: &'static Block) {
        let now = self.now(shared);
        if !before.user {
            self.charge_elapsed(shared, now);
            if let Some(pending) = self.pending.take() {
                shared.tree.get(pending.node).enter();
            }
            self.unwind(shared, now, |_| true); // its stack in the kernel is now empty
            (self.node, self.function, self.window, self.sp) = (self.user_node, NOWHERE, NOWHERE, None);
            self.out.switch(self.user_node, now);
            if !shared.user_seen.swap(true, Relaxed) {
                self.mark(shared, Mark::FirstUser, now);
            }
        }
        if block.has(MARK) {
            block.unset(MARK);
            self.charge_elapsed(shared, now);
            self.mark(shared, Mark::FirstUserOut, now);
        }
    }

    /// Handles any entry from user space. Its stack is not known until the first call.
    pub(super) fn leave_user(&mut self, shared: &Shared, before: &'static Block, block: &'static Block) {
        let now = self.now(shared);
        self.charge_elapsed(shared, now);
        block.set(INTERRUPT);
        self.pending = None;
        self.wait_for_stack(shared, self.user_node, before, block, now);
    }
}

/// True if the return from an interrupt that came after a block led to the next interrupt, before anything else ran.
fn came_at_once(after: &Block, block: &Block) -> bool {
    block.has(INTERRUPT) && !after.leads_to(block.start) && left_early_or_at_once(after, block).is_none()
}
