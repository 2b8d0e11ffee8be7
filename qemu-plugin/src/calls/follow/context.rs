//! Where a vCPU is: on which stack, in which frame of it, in which node of the call tree.

use super::{Shared, USER, Vcpu, user_space};
use crate::calls::block::NOWHERE;
use crate::calls::stacks::{Entered, From, Open, Stacks, WINDOW_BITS};
use crate::calls::tree::{Kind, Path};

impl Vcpu {
    /// Goes on with the stack that `sp` is on. `base` is the function at its bottom, should it be new.
    #[inline(always)]
    pub(super) fn move_to(&mut self, shared: &Shared, sp: u64, base: u64, now: u64) {
        if sp >> WINDOW_BITS != self.window {
            self.changes_window(shared, sp, base, now);
        }
        self.last_sp = sp;
    }

    #[inline(never)]
    pub(super) fn changes_window(&mut self, shared: &Shared, sp: u64, base: u64, now: u64) {
        let found = shared.stacks.find(sp, (self.last_sp, self.stack));
        self.counts.stacks_without_room += u64::from(found.is_none());
        let stack = found.unwrap_or(Stacks::rest(self.out.vcpu()));
        let same = stack == self.stack && self.window != NOWHERE;
        self.window = sp >> WINDOW_BITS;
        if same {
            return;
        }
        self.stack = stack;
        if shared.stacks.bottom(stack) == 0 {
            let at = self.window << WINDOW_BITS;
            let node = self.child(shared, 0, base, at, Kind::Stack);
            shared.stacks.set_bottom(stack, node);
            self.counts.stacks += 1;
        }
        self.node = self.node_of(shared, shared.stacks.top(stack));
        self.switched(now);
    }

    /// The vCPU goes on in this node, on another stack.
    pub(super) fn switched(&mut self, now: u64) {
        self.counts.switches += 1;
        self.out.switch(self.node, now);
    }

    /// Goes back to the stack that an interrupt came to.
    pub(super) fn goes_back(&mut self, from: From) {
        if from.stack != 0 && from.stack != self.stack {
            (self.stack, self.window, self.last_sp) = (from.stack, from.sp >> WINDOW_BITS, from.sp);
        }
    }

    /// The node of a frame of the present stack; of frame 0, the bottom.
    #[inline(always)]
    pub(super) fn node_of(&self, shared: &Shared, frame: u32) -> u32 {
        match (frame, shared.stacks.bottom(self.stack)) {
            (0, 0) => self.start_node,
            (0, bottom) => bottom,
            _ => shared.stacks.frame(frame).node(),
        }
    }

    #[inline(always)]
    pub(super) fn frame(&self, node: u32, entered: Entered, now: u64) -> Open {
        Open { sp: 0, back: 0, since: now, node, entered, announced: false, from: From::default() }
    }

    #[inline(always)]
    pub(super) fn push(&mut self, shared: &Shared, open: Open) {
        self.counts.deep += u64::from(!shared.stacks.push(&mut self.free, self.stack, &open));
        self.node = open.node;
        shared.tree.get(open.node).enter();
        self.touch(shared, open.node);
    }

    #[inline(always)]
    pub(super) fn pop(&mut self, shared: &Shared, now: u64) -> Option<Open> {
        let open = shared.stacks.pop(&mut self.free, self.stack)?;
        self.ended(&open, shared, now);
        Some(open)
    }

    /// A call has been taken off its stack: the output hears of it if it was long.
    #[inline(always)]
    pub(super) fn ended(&mut self, open: &Open, shared: &Shared, now: u64) {
        if open.announced || now.saturating_sub(open.since) >= shared.min_call {
            self.out.span(open.node, open.since, now);
        }
    }

    /// Takes frames off as long as they are `gone`, which is asked of the stack pointer of each. Returns how many calls
    /// were among them.
    #[inline(always)]
    pub(super) fn unwind(&mut self, shared: &Shared, now: u64, gone: impl Fn(u64) -> bool) -> u64 {
        let mut top = shared.stacks.top(self.stack);
        if top == 0 || !gone(shared.stacks.frame(top).sp()) {
            return 0;
        }
        let mut calls = 0;
        while top != 0 && gone(shared.stacks.frame(top).sp()) {
            calls += u64::from(self.pop(shared, now).is_some_and(|open| open.entered == Entered::Call));
            top = shared.stacks.top(self.stack);
        }
        self.node = self.node_of(shared, top);
        calls
    }

    /// The node of a path; where there is no room, the one that it goes on from.
    #[inline(always)]
    pub(super) fn child(&mut self, shared: &Shared, parent: u32, function: u64, place: u64, kind: Kind) -> u32 {
        let path = Path { parent, function, place, kind };
        let out = &mut self.out;
        shared.tree.child(&path, |id| out.node(id, &path)).unwrap_or_else(|| {
            self.counts.folded += 1;
            parent
        })
    }

    /// The first vCPU's is there from the beginning, and the output has not heard of it.
    pub(super) fn define_user_space(&mut self, shared: &Shared) {
        let path = user_space(self.out.vcpu());
        let known = shared.tree.child(&path, |_| {});
        self.user_node = known.unwrap_or(USER);
        if known.is_some() {
            self.out.node(self.user_node, &path);
        }
    }
}
