//! Calls, and returns: to where the call came from, or elsewhere.

use super::{Shared, Vcpu};
use crate::calls::block::{Block, ENTRY, INTERRUPT, NOWHERE};
use crate::calls::stack::{Entered, Open, SEARCH_MAX};
use crate::calls::stacks::WINDOW_BITS;
use crate::calls::tree::Kind;
use crate::ending::Ending;

/// A return address is moved no further than this, in bytes.
const MOVED_BYTES: u64 = 512;

impl Vcpu {
    /// Nearly always a call is made on the stack in use, with nothing below it, and a return is the innermost call's and leads to where that
    /// came from. False: it is something else, and nothing was done.
    #[inline(always)]
    pub(super) fn calls_or_returns(&mut self, shared: &Shared, before: &Block, block: &Block, sp: u64) -> bool {
        if self.pending.is_some() || sp >> WINDOW_BITS != self.window || !block.is_plain_or_entry() {
            return false;
        }
        let now = self.now(shared);
        match before.ending {
            Ending::Return => {
                let Some(open) = self.stack.pop_call(sp, block.start) else { return false };
                self.settle(shared, now);
                self.ended(&open, shared, now);
                self.node = self.innermost_node();
                self.function = shared.tree.get(self.node).function();
                self.counts.matched += 1;
            }
            Ending::Call | Ending::CallIndirect => {
                let is_below_all = self.stack.top().is_some_and(|open| open.sp > sp);
                let by_register = before.callee == NOWHERE && !before.contains(block) && !block.user;
                if !(is_below_all && (before.callee == block.start || by_register)) {
                    return false;
                }
                self.settle(shared, now);
                self.makes_call(shared, block.start, sp, before.end, now);
                block.set(ENTRY);
            }
            _ => return false,
        }
        self.last_sp = sp;
        self.tick(shared, now);
        true
    }

    #[inline(always)]
    fn makes_call(&mut self, shared: &Shared, function: u64, sp: u64, back: u64, now: u64) {
        let child = self.child(shared, self.node, function, 0, Kind::Call);
        self.push(shared, Open { sp, back, ..Open::new(child, Entered::Call, now) });
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
        self.settle(shared, now);
        self.move_to(shared, sp, before.start, now);
        self.counts.dropped += match before.on_stack {
            None => self.unwind(shared, now, |frame_sp| frame_sp <= sp),
            // A function that keeps its return address in another register may call on where it was called itself.
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
        self.makes_call(shared, function, sp, before.end, now);
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
        self.settle(shared, now);
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

    /// A return whose access to the stack QEMU did not report: it was not reached, or failed, unless execution goes on as if
    /// it had returned.
    #[inline(never)]
    fn returned_unseen(&mut self, shared: &Shared, before: &'static Block, block: &'static Block, now: u64) {
        if self.left_in_the_middle(before, block) {
            return;
        }
        if let Some(open) = self.stack.top().copied().filter(|open| open.back == block.start) {
            self.counts.returns_without_stack += 1;
            if before.on_stack.is_some() {
                // It was reached: only where the stack pointer was is not known.
                self.settle(shared, now);
                self.take_frames_at(shared, open.sp, open.back, now);
                self.function = shared.tree.get(self.node).function();
            }
        } else if before.on_stack.is_some() && !block.has(INTERRUPT) {
            // The first instruction of another thread. Its first call tells on which stack.
            self.settle(shared, now);
            self.counts.unmatched += 1;
            (self.window, self.function) = (NOWHERE, block.start);
        } else {
            self.interrupted(shared, before, block, now);
        }
    }

    /// Takes off the frame at `sp`, with the tail calls on top of it. Where several calls were made at that stack pointer, those down to the
    /// one that returns `to`. Returns its return address.
    #[inline(always)]
    pub(super) fn take_frames_at(&mut self, shared: &Shared, sp: u64, to: u64, now: u64) -> Option<u64> {
        let mut back = None;
        loop {
            if self.stack.top().is_none_or(|open| open.sp != sp) {
                self.node = self.innermost_node();
                return back;
            }
            let open = self.pop(shared, now);
            back = open.map(|open| open.back).or(back);
            if open.is_some_and(|open| open.is_call() && open.back == to) {
                self.node = self.innermost_node();
                return back;
            }
        }
    }

    /// Takes off a call at `sp` that returns to `back`, because it is made again, with what it called there. Returns how many
    /// were.
    fn made_again(&mut self, shared: &Shared, sp: u64, back: u64, now: u64) -> u64 {
        let at_sp = self.stack.innermost_first().take(SEARCH_MAX).take_while(|open| open.sp == sp);
        let is_made = { at_sp }.any(|open| open.is_call() && open.back == back);
        if is_made {
            self.take_frames_at(shared, sp, back, now);
        }
        u64::from(is_made)
    }

    /// A function that has moved its own return address down the stack, as Linux's `error_entry` does: it returns to
    /// where it was called from, but not from where that was pushed.
    pub(super) fn returned_from_below(&mut self, shared: &Shared, sp: u64, block: &Block, now: u64) -> bool {
        let is_it = |open: &Open| open.back == block.start && open.sp.wrapping_sub(sp) < MOVED_BYTES;
        let Some(open) = self.stack.top().copied().filter(is_it) else { return false };
        self.take_frames_at(shared, open.sp, open.back, now);
        self.function = shared.tree.get(self.node).function();
        true
    }

    /// A return went elsewhere. Right above lies the return address of the function that arranged that: it called this function.
    pub(super) fn redirected(&mut self, shared: &Shared, sp: u64, block: &'static Block) {
        if self.stack.top().is_none_or(|open| open.sp.wrapping_sub(sp) > 8) {
            self.counts.unmatched += 1;
            return;
        }
        self.counts.redirected += 1;
        self.becomes(shared, block.start);
        block.set(ENTRY);
    }

    /// The innermost frame turns out to be of another function than the one that was called.
    pub(super) fn becomes(&mut self, shared: &Shared, function: u64) {
        let Some(open) = self.stack.top() else { return };
        let was = shared.tree.get(open.node).path();
        let node = self.child(shared, was.parent, function, 0, was.kind);
        if let Some(open) = self.stack.top_mut() {
            open.node = node;
        }
        shared.tree.get(node).enter();
        self.touch(shared, node);
        (self.node, self.function) = (node, function);
    }
}
