//! The place of a vCPU: its stack, the frame on it, and the node of the call tree.

use super::{Shared, USER, Vcpu, user_space};
use crate::calls::block::NOWHERE;
use crate::calls::stack::{Frame, InterruptedStack};
use crate::calls::stacks::WINDOW_BITS;
use crate::calls::tree::{Kind, Path};

impl Vcpu {
    /// Goes on with the stack that `sp` is on. If the stack is new, `base` is the function at its bottom.
    #[inline(always)]
    pub(super) fn move_to(&mut self, shared: &Shared, sp: u64, base: u64, now: u64) {
        if sp >> WINDOW_BITS != self.window {
            self.change_window(shared, sp, base, now);
        }
        self.last_sp = sp;
    }

    #[inline(never)]
    pub(super) fn change_window(&mut self, shared: &Shared, sp: u64, base: u64, now: u64) {
        let before = self.stack.number();
        let found = shared.stacks.come_to(&mut self.stack, sp, self.last_sp, self.out.vcpu());
        self.counts.stacks_without_room += u64::from(!found);
        let same = before == self.stack.number() && self.window != NOWHERE;
        self.window = sp >> WINDOW_BITS;
        if same {
            return;
        }
        if self.stack.bottom == 0 {
            let at = if found { self.stack.place } else { self.window << WINDOW_BITS };
            self.stack.bottom = self.child(shared, 0, base, at, Kind::Stack);
            self.counts.stacks += 1;
        }
        self.node = self.innermost_node();
        self.switched(now);
    }

    /// Records that the vCPU goes on in this node, on another stack.
    pub(super) fn switched(&mut self, now: u64) {
        self.counts.switches += 1;
        self.out.switch(self.node, now);
    }

    /// Goes back to the stack at which an interrupt came.
    pub(super) fn return_to_stack(&mut self, shared: &Shared, from: InterruptedStack) {
        if from.stack == 0 || from.stack == self.stack.number() {
            return;
        }
        self.window = match shared.stacks.go_back_to(&mut self.stack, from.stack) {
            true => from.sp >> WINDOW_BITS,
            // Another vCPU has it by now. The next call or return will show this vCPU's stack.
            false => NOWHERE,
        };
        self.last_sp = from.sp;
    }

    /// The node of the current stack's innermost frame, or of its bottom.
    #[inline(always)]
    pub(super) fn innermost_node(&self) -> u32 {
        self.stack.top().map_or_else(|| self.bottom_node(), |frame| frame.node)
    }

    /// The node of the current stack's bottom.
    pub(super) fn bottom_node(&self) -> u32 {
        if self.stack.bottom == 0 { self.start_node } else { self.stack.bottom }
    }

    #[inline(always)]
    pub(super) fn push(&mut self, shared: &Shared, frame: Frame) {
        self.counts.deep += u64::from(!shared.stacks.push(&mut self.stack, frame));
        self.node = frame.node;
        shared.tree.get(frame.node).enter();
        self.touch(shared, frame.node);
    }

    #[inline(always)]
    pub(super) fn pop(&mut self, shared: &Shared, now: u64) -> Option<Frame> {
        let frame = self.stack.pop()?;
        self.ended(&frame, shared, now);
        Some(frame)
    }

    /// Writes a call that was removed from its stack, if it was long.
    #[inline(always)]
    pub(super) fn ended(&mut self, frame: &Frame, shared: &Shared, now: u64) {
        if frame.announced || now.saturating_sub(frame.since) >= shared.min_call {
            self.out.span(frame.node, frame.since, now);
        }
    }

    /// Removes frames while `gone` is true for their stack pointers. Returns the number of calls among them.
    #[inline(always)]
    pub(super) fn unwind(&mut self, shared: &Shared, now: u64, gone: impl Fn(u64) -> bool) -> u64 {
        let is_gone = |vcpu: &Vcpu| vcpu.stack.top().is_some_and(|frame| gone(frame.sp));
        if !is_gone(self) {
            return 0;
        }
        let mut calls = 0;
        while is_gone(self) {
            calls += u64::from(self.pop(shared, now).is_some_and(|frame| frame.is_call()));
        }
        self.node = self.innermost_node();
        calls
    }

    /// The node of a path; if there is no room, its parent.
    #[inline(always)]
    pub(super) fn child(&mut self, shared: &Shared, parent: u32, function: u64, place: u64, kind: Kind) -> u32 {
        let path = Path { parent, function, place, kind };
        let out = &mut self.out;
        shared.tree.child(&path, |id| out.node(id, &path)).unwrap_or_else(|| {
            self.counts.folded += 1;
            parent
        })
    }

    /// Sets the node of user space, and writes it. The first vCPU's node exists from the start, but is not in the
    /// output yet.
    pub(super) fn define_user_space(&mut self, shared: &Shared) {
        let path = user_space(self.out.vcpu());
        let known = shared.tree.vcpu_node(&path, |_| {});
        self.user_node = known.unwrap_or(USER);
        if known.is_some() {
            self.out.node(self.user_node, &path);
        }
    }
}
