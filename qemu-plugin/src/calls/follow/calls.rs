//! Calls, and returns to their call's return address or elsewhere.

use super::{Shared, Vcpu};
use crate::calls::block::{Block, ENTRY, INTERRUPT, NOWHERE};
use crate::calls::stack::{Entered, Frame, MAX_SEARCH};
use crate::calls::stacks::WINDOW_BITS;
use crate::calls::tree::Kind;
use crate::ending::Ending;

/// The largest distance by which a function moves its return address, in bytes.
const MAX_MOVED_BYTES: u64 = 512;

impl Vcpu {
    /// Handles the common case: a call on the current stack with nothing below it, or a return of the innermost call to
    /// its return address. Returns false, and does nothing, in any other case.
    #[inline(always)]
    pub(super) fn calls_or_returns(&mut self, shared: &Shared, before: &Block, block: &Block, sp: u64) -> bool {
        if self.pending.is_some() || sp >> WINDOW_BITS != self.window || !block.is_plain_or_entry() {
            return false;
        }
        let now = self.now(shared);
        match before.ending {
            Ending::Return => {
                let Some(frame) = self.stack.pop_call(sp, block.start) else { return false };
                self.charge_elapsed(shared, now);
                self.ended(&frame, shared, now);
                self.node = self.innermost_node();
                self.function = shared.tree.get(self.node).function();
                self.counts.matched += 1;
            }
            Ending::Call | Ending::CallIndirect => {
                let is_below_all = self.stack.top().is_some_and(|frame| frame.sp > sp);
                let by_register = before.callee == NOWHERE && !before.contains(block) && !block.user;
                if !(is_below_all && (before.callee == block.start || by_register)) {
                    return false;
                }
                self.charge_elapsed(shared, now);
                self.push_call(shared, block.start, sp, before.end, now);
                block.set(ENTRY);
            }
            _ => return false,
        }
        self.last_sp = sp;
        self.tick(shared, now);
        true
    }

    #[inline(always)]
    fn push_call(&mut self, shared: &Shared, function: u64, sp: u64, back: u64, now: u64) {
        let child = self.child(shared, self.node, function, 0, Kind::Call);
        self.push(shared, Frame { sp, back, ..Frame::new(child, Entered::Call, now) });
        self.counts.calls += 1;
        self.function = function;
    }

    pub(super) fn called(&mut self, shared: &Shared, before: &'static Block, block: &'static Block) {
        let now = self.now(shared);
        let arrived = if before.callee == NOWHERE { !block.has(INTERRUPT) } else { before.calls(block.start) };
        let Some(sp) = self.sp.take() else {
            self.counts.calls_without_stack += u64::from(!self.not_reached(shared, before, block, now));
            return;
        };
        self.charge_elapsed(shared, now);
        self.move_to(shared, sp, before.start, now);
        self.counts.dropped += match before.stack_effect {
            None => self.unwind(shared, now, |frame_sp| frame_sp <= sp),
            // A function that keeps its return address in another register may make calls at the stack pointer of its
            // own call.
            Some(_) => {
                self.unwind(shared, now, |frame_sp| frame_sp < sp) + self.made_again(shared, sp, before.end, now)
            }
        };
        if self.pending.is_some() {
            self.attach(shared, sp);
        }
        let function = match before.callee {
            _ if arrived => block.start,
            NOWHERE => 0,
            callee => callee,
        };
        self.push_call(shared, function, sp, before.end, now);
        if arrived {
            block.set(ENTRY);
        } else {
            self.interrupted(shared, before, block, now);
        }
        self.tick(shared, now);
    }

    pub(super) fn returned(&mut self, shared: &Shared, before: &'static Block, block: &'static Block) {
        let now = self.now(shared);
        let Some(sp) = self.sp.take() else {
            self.returned_unseen(shared, before, block, now);
            return;
        };
        self.charge_elapsed(shared, now);
        if self.pending.take().is_some() {
            self.counts.lost_interrupts += 1;
        }
        self.move_to(shared, sp, block.start, now);
        let dropped = self.unwind(shared, now, |frame_sp| frame_sp < sp);
        self.counts.dropped += dropped;
        let back = self.take_frames_at(shared, sp, block.start, now);
        self.function = shared.tree.get(self.node).function();
        match back {
            Some(back) if back == block.start || block.is_also_at(back) => self.counts.matched += 1,
            // It returned, and an interrupt came before anything else.
            Some(_) if block.has(INTERRUPT) => {
                self.counts.matched += 1;
                self.interrupted(shared, before, block, now);
            }
            Some(_) => self.redirected(shared, sp, block),
            None if self.returned_from_below(shared, sp, block, now) => self.counts.matched += 1,
            None => self.counts.unmatched += 1,
        }
        self.tick(shared, now);
    }

    /// A return without a reported access to the stack. It was not reached, or it failed, unless execution continues as
    /// if it had returned.
    #[inline(never)]
    fn returned_unseen(&mut self, shared: &Shared, before: &'static Block, block: &'static Block, now: u64) {
        if self.left_in_the_middle(before, block) {
            return;
        }
        if let Some(frame) = self.stack.top().copied().filter(|frame| frame.back == block.start) {
            self.counts.returns_without_stack += 1;
            if before.stack_effect.is_some() {
                // The return was reached; only its stack pointer is unknown.
                self.charge_elapsed(shared, now);
                self.take_frames_at(shared, frame.sp, frame.back, now);
                self.function = shared.tree.get(self.node).function();
            }
        } else if before.stack_effect.is_some() && !block.has(INTERRUPT) {
            // The first instruction of another thread. Its first call shows its stack.
            self.charge_elapsed(shared, now);
            self.counts.unmatched += 1;
            (self.window, self.function) = (NOWHERE, block.start);
        } else {
            self.interrupted(shared, before, block, now);
        }
    }

    /// Removes the frame at `sp`, with the tail calls on top of it. If several calls were made at that stack pointer,
    /// it removes those down to the one that returns to `to`. Returns its return address.
    #[inline(always)]
    pub(super) fn take_frames_at(&mut self, shared: &Shared, sp: u64, to: u64, now: u64) -> Option<u64> {
        let mut back = None;
        loop {
            if self.stack.top().is_none_or(|frame| frame.sp != sp) {
                self.node = self.innermost_node();
                return back;
            }
            let frame = self.pop(shared, now);
            back = frame.map(|frame| frame.back).or(back);
            if frame.is_some_and(|frame| frame.is_call() && frame.back == to) {
                self.node = self.innermost_node();
                return back;
            }
        }
    }

    /// Removes a call at `sp` that returns to `back`, and its callees there, because the same call is made again.
    /// Returns the number of dropped calls.
    fn made_again(&mut self, shared: &Shared, sp: u64, back: u64, now: u64) -> u64 {
        let at_sp = self.stack.innermost_first().take(MAX_SEARCH).take_while(|frame| frame.sp == sp);
        let is_made = { at_sp }.any(|frame| frame.is_call() && frame.back == back);
        if is_made {
            self.take_frames_at(shared, sp, back, now);
        }
        u64::from(is_made)
    }

    /// Handles a function that has moved its own return address down the stack, such as Linux's `error_entry`. It
    /// returns to its caller, but not from the address where the return address was pushed.
    pub(super) fn returned_from_below(&mut self, shared: &Shared, sp: u64, block: &Block, now: u64) -> bool {
        let returns_here = |frame: &Frame| frame.back == block.start && frame.sp.wrapping_sub(sp) < MAX_MOVED_BYTES;
        let Some(frame) = self.stack.top().copied().filter(returns_here) else { return false };
        self.take_frames_at(shared, frame.sp, frame.back, now);
        self.function = shared.tree.get(self.node).function();
        true
    }

    /// Handles a return to another address. If the return address of a further function lies right above, that function
    /// arranged it, and called the new function.
    pub(super) fn redirected(&mut self, shared: &Shared, sp: u64, block: &'static Block) {
        if self.stack.top().is_none_or(|frame| frame.sp.wrapping_sub(sp) > 8) {
            self.counts.unmatched += 1;
            return;
        }
        self.counts.redirected += 1;
        self.change_innermost_function(shared, block.start);
        block.set(ENTRY);
    }

    /// Changes the innermost frame's function, which differs from the one that was called.
    pub(super) fn change_innermost_function(&mut self, shared: &Shared, function: u64) {
        let Some(frame) = self.stack.top() else { return };
        let old_path = shared.tree.get(frame.node).path();
        let node = self.child(shared, old_path.parent, function, 0, old_path.kind);
        if let Some(frame) = self.stack.top_mut() {
            frame.node = node;
        }
        shared.tree.get(node).enter();
        self.touch(shared, node);
        (self.node, self.function) = (node, function);
    }
}
