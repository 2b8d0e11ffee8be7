//! The rules by which calls are followed, for one vCPU: from blocks and stack pointers to shadow stacks.
//!
//! Each block that runs is compared with where the one before it leads. As expected: count its instructions, done;
//! nine of ten blocks. Otherwise the end of the block before says what happened:
//! - **call**: frames at or below the new stack pointer are gone (`longjmp`, a stack used anew); a new one is pushed;
//! - **return**: frames below the stack pointer are gone; the one at it returns. If its return address is not where
//!   execution goes on, somebody changed it: a retpoline, whose caller then called what comes next;
//! - **jump** to an address that is also called: a tail call, which returns with the frame it was made from;
//! - **anything else** did not lead here: an interrupt, an exception or a system call. What it pushed becomes known
//!   with the handler's first call, and it ends with the instruction that returns from those. If execution comes back
//!   to the middle of a block, that one was left early, and what it did not run is taken off again.
//!
//! In the call tree interrupts hang from the bottom of their stack, not from what they happened to interrupt.
//! User space is one node: who calls whom there is not followed.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::block::{Block, ENTRY, INTERRUPT, MARK, MOVED, NOWHERE, wraps};
use super::clock::{Asker, HostClock};
use super::counts::Counts;
use super::encode::Out;
use super::stacks::{Entered, Free, Open, Stacks, WINDOW_BITS};
use super::tree::{Kind, Path, Tree};
use crate::ending::Ending;
use crate::recorder::host_ns;

/// The node of user space.
pub const USER: u32 = 1;
/// A return address is moved no further than this, in bytes.
const MOVED_BYTES: u64 = 512;
/// Tail calls from tail calls are told apart up to this many.
const TAILS: usize = 16;
/// Virtual time is asked for this often, in instructions.
const SYNC_EVERY: u64 = 1_000_000;

/// What kinds of marks there are. The numbers are those of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mark {
    /// The first instruction of user space is about to run.
    FirstUser = 1,
    /// User space is about to run its first instruction that writes to a port.
    FirstUserOut = 2,
}

/// The clock of times and durations.
pub enum Clock {
    /// The host's ticks.
    Host(HostClock),
    /// Instructions, and who can tell how long the guest slept.
    Virtual(Option<&'static Asker>),
}

/// What all vCPUs share.
pub struct Shared {
    /// The call tree.
    pub tree: Tree,
    /// The shadow stacks.
    pub stacks: Stacks,
    /// The clock.
    pub clock: Clock,
    /// Calls at least this long are in the timeline, ticks.
    pub min_call: u64,
    /// Totals are written this often, ticks.
    pub interval: u64,
    user_seen: AtomicBool,
}

impl Shared {
    /// Room for `nodes` (a power of two) and `frames`.
    pub fn new(clock: Clock, min_call: u64, interval: u64, nodes: usize, frames: usize) -> Shared {
        let (tree, stacks) = (Tree::new(nodes), Stacks::new(frames));
        let user = tree.child(&Path { parent: 0, function: 0, place: 0, kind: Kind::User }, |_| {});
        debug_assert_eq!(user, Some(USER));
        Shared { tree, stacks, clock, min_call, interval, user_seen: AtomicBool::new(false) }
    }
}

/// An interrupt whose handler has not called anything yet, so that its stack is not known.
struct Pending {
    since: u64,
    /// The block before it.
    after: &'static Block,
    node: u32,
}

/// One vCPU.
pub struct Vcpu {
    /// The block that runs.
    block: &'static Block,
    /// Instructions so far, with those of that block.
    insns: u64,
    /// The stack pointer of the call or return at the block's end, once it is known.
    sp: Option<u64>,
    /// Address of the function that runs.
    function: u64,
    /// Whose the time is now.
    node: u32,
    /// The stack in use, the window of it, and the stack pointer when it was last seen.
    stack: u32,
    window: u64,
    last_sp: u64,
    /// Where this vCPU began.
    start_node: u32,
    spent_insns: u64,
    spent_ticks: u64,
    slept: u64,
    synced: u64,
    next_interval: u64,
    halted: Option<u64>,
    pending: Option<Pending>,
    free: Free,
    touched: Vec<u32>,
    /// Figures.
    pub counts: Counts,
    out: Out,
}

impl Vcpu {
    /// A vCPU before its first block.
    pub fn new(shared: &Shared, out: Out) -> Vcpu {
        Vcpu {
            block: Box::leak(Box::new(Block::before_all())),
            insns: 0,
            sp: None,
            function: NOWHERE,
            node: 0,
            stack: 0,
            window: NOWHERE,
            last_sp: 0,
            start_node: 0,
            spent_insns: 0,
            spent_ticks: 0,
            slept: 0,
            synced: 0,
            next_interval: shared.interval,
            halted: None,
            pending: None,
            free: Free::default(),
            // A node is in it once at most.
            touched: Vec::with_capacity(shared.tree.capacity()),
            counts: Counts::default(),
            out,
        }
    }

    /// The block that runs.
    pub fn block(&self) -> &'static Block {
        self.block
    }

    /// Whether it ever ran.
    pub fn has_run(&self) -> bool {
        self.node != 0
    }

    /// This block runs now.
    #[inline(always)]
    pub fn runs(&mut self, shared: &Shared, block: &'static Block) {
        let before = std::mem::replace(&mut self.block, block);
        if !(before.leads_to(block.start) && block.is_plain()) {
            self.turns(shared, before, block);
        }
        self.insns += u64::from(block.insns);
    }

    /// The instruction at the end of `block` wrote to or read from the stack at `sp`.
    #[inline(always)]
    pub fn stack_pointer(&mut self, block: &'static Block, sp: u64) {
        // QEMU 7.2 goes on calling for other instructions than the one that was asked about.
        if !std::ptr::eq(self.block, block) && !std::ptr::eq(self.block, block.now()) {
            self.counts.strays += 1;
        } else if !(block.far_return && self.sp.is_some()) {
            // The last write of a far call is the lowest, but the first read of a far return.
            self.sp = Some(sp);
        }
    }

    /// The instruction at the block's end waits for an interrupt.
    pub fn halts(&mut self, shared: &Shared) {
        let now = self.now(shared);
        self.settle(shared, now);
        self.halted = Some(now);
    }

    /// What the virtual clock shows, between two blocks.
    pub fn wants_virtual_time(&self, shared: &Shared) -> bool {
        matches!(shared.clock, Clock::Virtual(_)) && self.insns - self.synced >= SYNC_EVERY
    }

    /// What it shows.
    pub fn virtual_time(&mut self, shared: &Shared, ns: u64) {
        self.synced = self.insns;
        // It also passes while no vCPU has begun to run.
        self.slept = self.slept.max(ns.saturating_sub(self.insns));
        self.out.sync(self.now(shared), ns);
    }

    /// One thread of QEMU's runs all vCPUs: this one goes on where `other` stands, on the same clock.
    pub fn takes_over(&mut self, shared: &Shared, other: &mut Vcpu) {
        let now = other.now(shared);
        other.settle(shared, now);
        let ran = other.insns - self.insns;
        self.insns += ran;
        self.spent_insns += ran;
        self.slept = other.slept;
        if let Clock::Host(_) = shared.clock {
            self.spent_ticks = now;
        }
    }

    /// What the guest does is not what the block before leads to.
    #[inline(never)]
    fn turns(&mut self, shared: &Shared, before: &'static Block, block: &'static Block) {
        let [before, block] = self.where_they_are(shared, before, block);
        if before.user && block.user && block.is_plain() {
            return;
        }
        if self.halted.is_some() {
            self.wakes(shared);
        }
        match before.ending {
            _ if block.user => self.enters_user(shared, before, block),
            _ if before.user => self.leaves_user(shared, before, block),
            Ending::Call | Ending::CallIndirect => self.called(shared, before, block),
            Ending::Return => self.returned(shared, before, block),
            Ending::InterruptReturn => self.resumed(shared, block),
            _ => self.jumped(shared, before, block),
        }
    }

    /// Both blocks at the addresses that they run at.
    #[inline(always)]
    fn where_they_are(
        &mut self,
        shared: &Shared,
        before: &'static Block,
        block: &'static Block,
    ) -> [&'static Block; 2] {
        let block = if block.has(MOVED) { block.now() } else { block };
        let both = match (before.start ^ block.start) >> 63 == 1 && !block.user && !before.user {
            true => self.other_half(shared, before, block),
            false => [before, block],
        };
        self.block = both[1];
        both
    }

    /// From one half of the address space to the other: mostly it is one of the two that has moved.
    #[inline(never)]
    fn other_half(&self, shared: &Shared, before: &'static Block, block: &'static Block) -> [&'static Block; 2] {
        let back = self.return_address(shared).unwrap_or(NOWHERE);
        let expected = [before.fall, before.target, before.callee, back];
        match expected.into_iter().find(|&expected| block.is_also_at(expected)) {
            Some(expected) if expected >> 63 == 1 => [before, block.moves(expected)],
            Some(expected) if expected != back => {
                [before.moves(before.start.wrapping_add(block.start.wrapping_sub(expected))), block]
            }
            _ => [before, block],
        }
    }

    /// Where the return that was just made leads, if it is from the innermost call.
    fn return_address(&self, shared: &Shared) -> Option<u64> {
        let top = shared.stacks.top(self.stack);
        let open = shared.stacks.frame(top).get();
        (top != 0 && Some(open.sp) == self.sp && open.entered != Entered::Interrupt).then_some(open.back)
    }

    #[inline(always)]
    fn called(&mut self, shared: &Shared, before: &'static Block, block: &'static Block) {
        let now = self.now(shared);
        let arrived = if before.callee == NOWHERE { !block.has(INTERRUPT) } else { before.calls(block.start) };
        let Some(sp) = self.sp.take() else {
            self.counts.calls_without_stack += u64::from(!self.not_reached(shared, before, block, now));
            return;
        };
        self.settle(shared, now);
        self.move_to(shared, sp, before.start, now);
        self.unwind(shared, now, |frame_sp| frame_sp <= sp);
        if self.pending.is_some() {
            self.attach(shared, sp, now);
        }
        let function = match before.callee {
            _ if arrived => block.start,
            NOWHERE => 0,
            callee => callee,
        };
        let child = self.child(shared, self.node, function, 0, Kind::Call);
        self.push(shared, Open { sp, back: before.end, ..self.frame(child, Entered::Call, now) });
        self.counts.calls += 1;
        self.function = function;
        if arrived {
            block.set(ENTRY);
        } else {
            self.interrupted(shared, before, block, now);
        }
        self.tick(shared, now);
    }

    #[inline(always)]
    fn returned(&mut self, shared: &Shared, before: &'static Block, block: &'static Block) {
        let now = self.now(shared);
        let Some(sp) = self.sp.take() else {
            self.counts.returns_without_stack += u64::from(!self.not_reached(shared, before, block, now));
            return;
        };
        self.settle(shared, now);
        if self.pending.take().is_some() {
            self.counts.lost_interrupts += 1;
        }
        self.move_to(shared, sp, block.start, now);
        let dropped = self.unwind(shared, now, |frame_sp| frame_sp < sp);
        self.counts.dropped += dropped;
        let back = self.take_frames_at(shared, sp, now);
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

    /// Takes off the frame at `sp`, with the tail calls on top of it. Returns its return address.
    #[inline(always)]
    fn take_frames_at(&mut self, shared: &Shared, sp: u64, now: u64) -> Option<u64> {
        let mut back = None;
        loop {
            let top = shared.stacks.top(self.stack);
            if top == 0 || shared.stacks.frame(top).sp() != sp {
                self.node = self.node_of(shared, top);
                return back;
            }
            back = self.pop(shared, now).map(|open| open.back).or(back);
        }
    }

    /// A function that has moved its own return address down the stack, as Linux's `error_entry` does: it returns to
    /// where it was called from, but not from where that was pushed.
    fn returned_from_below(&mut self, shared: &Shared, sp: u64, block: &Block, now: u64) -> bool {
        let top = shared.stacks.top(self.stack);
        let open = shared.stacks.frame(top).get();
        let moved = top != 0 && open.back == block.start && open.sp.wrapping_sub(sp) < MOVED_BYTES;
        if moved {
            self.take_frames_at(shared, open.sp, now);
            self.function = shared.tree.get(self.node).function();
        }
        moved
    }

    /// A return went elsewhere. Right above lies the return address of whoever arranged that: it called this function.
    fn redirected(&mut self, shared: &Shared, sp: u64, block: &'static Block) {
        let top = shared.stacks.top(self.stack);
        let frame = shared.stacks.frame(top);
        if top == 0 || frame.sp().wrapping_sub(sp) > 8 {
            self.counts.unmatched += 1;
            return;
        }
        self.counts.redirected += 1;
        self.becomes(shared, top, block.start);
        block.set(ENTRY);
    }

    /// The innermost frame turns out to be of another function than the one that was called.
    fn becomes(&mut self, shared: &Shared, top: u32, function: u64) {
        let frame = shared.stacks.frame(top);
        let was = shared.tree.get(frame.get().node).path();
        let node = self.child(shared, was.parent, function, 0, was.kind);
        frame.set_node(node);
        shared.tree.get(node).enter();
        self.touch(shared, node);
        (self.node, self.function) = (node, function);
    }

    /// Neither call nor return: a jump, or something came between.
    #[inline(always)]
    fn jumped(&mut self, shared: &Shared, before: &'static Block, block: &'static Block) {
        let expected = before.leads_to(block.start) || wraps(before.target, block.start);
        if expected || (before.ending == Ending::JumpIndirect && !block.has(INTERRUPT)) {
            if block.has(ENTRY) && block.start != self.function {
                self.tail_called(shared, block);
            } else if self.node == 0 {
                self.starts(shared, block);
            }
        } else if let Some(not_run) = left_early(before, block) {
            self.counts.left_early += 1;
            self.insns -= u64::from(not_run);
        } else {
            let now = self.now(shared);
            self.interrupted(shared, before, block, now);
        }
    }

    /// The first block of all.
    fn starts(&mut self, shared: &Shared, block: &'static Block) {
        self.start_node = self.child(shared, 0, block.start, u64::from(self.out.vcpu()), Kind::Stack);
        self.node = self.start_node;
        self.define(shared, USER);
        self.spent_ticks = self.now(shared);
        self.out.switch(self.node, self.spent_ticks);
    }

    fn tail_called(&mut self, shared: &Shared, block: &'static Block) {
        let top = shared.stacks.top(self.stack);
        if top == 0 || self.pending.is_some() {
            return; // no frame that it would return with
        }
        let now = self.now(shared);
        self.settle(shared, now);
        let from = shared.stacks.frame(top).get();
        // Functions that jump to each other in turn are a loop, not ever deeper calls.
        let depth = std::iter::successors(Some(top), |&frame| Some(shared.stacks.frame(frame).below()))
            .take(TAILS)
            .take_while(|&frame| frame != 0 && shared.stacks.frame(frame).sp() == from.sp)
            .position(|frame| shared.tree.get(shared.stacks.frame(frame).get().node).function() == block.start);
        self.function = block.start;
        if let Some(depth) = depth {
            for _ in 0..depth {
                self.pop(shared, now);
            }
            self.node = self.node_of(shared, shared.stacks.top(self.stack));
            return;
        }
        let child = self.child(shared, self.node, block.start, 0, Kind::Tail);
        self.push(shared, Open { sp: from.sp, back: from.back, ..self.frame(child, Entered::Tail, now) });
        self.counts.tail_calls += 1;
        self.tick(shared, now);
    }

    /// Whether the call or the return at the end of `before` was not reached, or failed: then it is dealt with here.
    #[inline(never)]
    fn not_reached(&mut self, shared: &Shared, before: &'static Block, block: &'static Block, now: u64) -> bool {
        if let Some(not_run) = left_early(before, block) {
            self.counts.left_early += 1;
            self.insns -= u64::from(not_run);
            return true;
        }
        let exception = block.has(INTERRUPT) || (before.callee != NOWHERE && !before.calls(block.start));
        if exception {
            self.interrupted(shared, before, block, now);
        }
        exception
    }

    /// An interrupt, an exception or a system call in the kernel or before it.
    #[inline(never)]
    fn interrupted(&mut self, shared: &Shared, before: &'static Block, block: &'static Block, now: u64) {
        self.settle(shared, now);
        self.sp = None;
        block.set(INTERRUPT);
        let bottom = self.node_of(shared, 0);
        self.waits_for_stack(shared, bottom, before, block, now);
    }

    fn waits_for_stack(&mut self, shared: &Shared, bottom: u32, after: &'static Block, block: &Block, now: u64) {
        self.counts.interrupts += 1;
        self.counts.lost_interrupts += u64::from(self.pending.is_some());
        let node = self.child(shared, bottom, block.start, 0, Kind::Interrupt);
        self.pending = Some(Pending { since: now, after, node });
        (self.node, self.function) = (node, block.start);
        self.touch(shared, node);
    }

    /// The handler of an interrupt makes its first call, at `sp`: its own frame lies above.
    fn attach(&mut self, shared: &Shared, sp: u64, now: u64) {
        let Some(pending) = self.pending.take() else { return };
        let function = shared.tree.get(pending.node).function();
        let bottom = self.node_of(shared, 0);
        let node = self.child(shared, bottom, function, 0, Kind::Interrupt);
        let back = std::ptr::from_ref(pending.after) as u64;
        self.push(shared, Open { sp: sp + 1, back, since: pending.since, ..self.frame(node, Entered::Interrupt, now) });
    }

    /// Back from an interrupt to the kernel, or an `iret` that is only a jump.
    fn resumed(&mut self, shared: &Shared, block: &'static Block) {
        let now = self.now(shared);
        self.settle(shared, now);
        let after = match self.pending.take() {
            Some(pending) => {
                shared.tree.get(pending.node).enter();
                Some(pending.after)
            }
            None => self.ends_interrupt(shared, block, now),
        };
        let top = shared.stacks.top(self.stack);
        self.node = self.node_of(shared, top);
        self.function = shared.tree.get(self.node).function();
        if self.function == 0 && top != 0 {
            self.becomes(shared, top, block.start); // the call that the interrupt came after, through a register
        }
        if let Some(not_run) = after.and_then(|after| left_early_or_at_once(after, block)) {
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
    fn ends_interrupt(&mut self, shared: &Shared, block: &Block, now: u64) -> Option<&'static Block> {
        let top = shared.stacks.top(self.stack);
        let mut at = top;
        while at != 0 && shared.stacks.frame(at).get().entered != Entered::Interrupt {
            at = shared.stacks.frame(at).below();
        }
        if at == 0 {
            return None;
        }
        // SAFETY: `back` of an interrupt's frame was made of such a reference, in `attach`.
        let after: &'static Block = unsafe { &*(shared.stacks.frame(at).get().back as *const Block) };
        if at != top && !after.leads_to(block.start) && left_early(after, block).is_none() {
            return None;
        }
        while shared.stacks.top(self.stack) != at {
            let lost = self.pop(shared, now);
            self.counts.dropped += u64::from(lost.is_some_and(|open| open.entered == Entered::Call));
        }
        self.pop(shared, now);
        Some(after)
    }

    fn enters_user(&mut self, shared: &Shared, before: &Block, block: &'static Block) {
        let now = self.now(shared);
        if !before.user {
            self.settle(shared, now);
            if let Some(pending) = self.pending.take() {
                shared.tree.get(pending.node).enter();
            }
            self.unwind(shared, now, |_| true); // its stack in the kernel is empty now
            (self.node, self.function, self.window, self.sp) = (USER, NOWHERE, NOWHERE, None);
            self.out.switch(USER, now);
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
    fn leaves_user(&mut self, shared: &Shared, before: &'static Block, block: &'static Block) {
        let now = self.now(shared);
        self.settle(shared, now);
        block.set(INTERRUPT);
        self.pending = None;
        self.waits_for_stack(shared, USER, before, block, now);
    }

    fn wakes(&mut self, shared: &Shared) {
        let Some(from) = self.halted.take() else { return };
        match &shared.clock {
            Clock::Host(clock) => self.spent_ticks = clock.now(),
            Clock::Virtual(asker) => {
                let now_ns = asker.and_then(Asker::ask).unwrap_or(0);
                self.slept = self.slept.max(now_ns.saturating_sub(self.insns));
            }
        }
        let now = self.now(shared);
        self.out.idle(self.node, from, now);
    }

    /// Ticks.
    #[inline(always)]
    fn now(&self, shared: &Shared) -> u64 {
        match &shared.clock {
            Clock::Host(clock) => clock.now(),
            Clock::Virtual(_) => self.insns + self.slept,
        }
    }

    /// Charges what was spent since the last time to the node that it was spent in.
    #[inline(always)]
    fn settle(&mut self, shared: &Shared, now: u64) {
        let insns = self.insns - self.spent_insns;
        self.spent_insns = self.insns;
        let mut ticks = 0;
        if let Clock::Host(_) = shared.clock {
            ticks = now.saturating_sub(self.spent_ticks);
            self.spent_ticks = now;
        }
        shared.tree.get(self.node).spend(insns, ticks);
        self.touch(shared, self.node);
    }

    #[inline(always)]
    fn touch(&mut self, shared: &Shared, node: u32) {
        if shared.tree.get(node).first_touch() {
            self.touched.push(node);
        }
    }

    /// Goes on with the stack that `sp` is on. `base` is the function at its bottom, should it be new.
    #[inline(always)]
    fn move_to(&mut self, shared: &Shared, sp: u64, base: u64, now: u64) {
        if sp >> WINDOW_BITS != self.window {
            self.changes_window(shared, sp, base, now);
        }
        self.last_sp = sp;
    }

    #[inline(never)]
    fn changes_window(&mut self, shared: &Shared, sp: u64, base: u64, now: u64) {
        let stack = shared.stacks.find(sp, (self.last_sp, self.stack));
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
        self.counts.switches += 1;
        self.out.switch(self.node, now);
    }

    /// The node of a frame of the present stack; of frame 0, the bottom.
    #[inline(always)]
    fn node_of(&self, shared: &Shared, frame: u32) -> u32 {
        match (frame, shared.stacks.bottom(self.stack)) {
            (0, 0) => self.start_node,
            (0, bottom) => bottom,
            _ => shared.stacks.frame(frame).get().node,
        }
    }

    #[inline(always)]
    fn frame(&self, node: u32, entered: Entered, now: u64) -> Open {
        Open { sp: 0, back: 0, since: now, node, entered, announced: false }
    }

    #[inline(always)]
    fn push(&mut self, shared: &Shared, open: Open) {
        self.counts.deep += u64::from(!shared.stacks.push(&mut self.free, self.stack, &open));
        self.node = open.node;
        shared.tree.get(open.node).enter();
        self.touch(shared, open.node);
    }

    #[inline(always)]
    fn pop(&mut self, shared: &Shared, now: u64) -> Option<Open> {
        let open = shared.stacks.pop(&mut self.free, self.stack)?;
        if open.announced || now.saturating_sub(open.since) >= shared.min_call {
            self.out.span(open.node, open.since, now);
        }
        Some(open)
    }

    /// Takes frames off as long as they are `gone`, which is asked of the stack pointer of each. Returns how many calls
    /// were among them.
    #[inline(always)]
    fn unwind(&mut self, shared: &Shared, now: u64, gone: impl Fn(u64) -> bool) -> u64 {
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
    fn child(&mut self, shared: &Shared, parent: u32, function: u64, place: u64, kind: Kind) -> u32 {
        let path = Path { parent, function, place, kind };
        let out = &mut self.out;
        shared.tree.child(&path, |id| out.node(id, &path)).unwrap_or_else(|| {
            self.counts.folded += 1;
            parent
        })
    }

    fn define(&mut self, shared: &Shared, node: u32) {
        self.out.node(node, &shared.tree.get(node).path());
    }

    /// Writes totals if it is time to.
    #[inline(always)]
    fn tick(&mut self, shared: &Shared, now: u64) {
        if now >= self.next_interval {
            self.interval(shared, now);
        }
    }

    fn mark(&mut self, shared: &Shared, mark: Mark, now: u64) {
        self.out.mark(mark as u8, now, self.insns);
        self.interval(shared, now);
    }

    /// Writes all that there is to say so far.
    #[inline(never)]
    fn interval(&mut self, shared: &Shared, now: u64) {
        self.next_interval = now.saturating_add(shared.interval);
        self.announce(shared, now);
        let host = matches!(shared.clock, Clock::Host(_));
        for node in self.touched.drain(..) {
            let totals = shared.tree.get(node).totals();
            self.out.totals(node, &totals, host);
        }
        if host {
            self.out.sync(now, host_ns());
        }
        self.counts.insns = self.insns;
        self.out.counts(&self.counts.list());
        self.out.interval(now, self.insns);
        self.out.flush();
    }

    /// Tells the output of long calls under way, so that it need not hear their ends to know of them.
    fn announce(&mut self, shared: &Shared, now: u64) {
        let mut at = shared.stacks.top(self.stack);
        while at != 0 {
            let frame = shared.stacks.frame(at);
            let open = frame.get();
            if open.announced {
                return; // and so is all below
            }
            if now.saturating_sub(open.since) >= shared.min_call {
                self.out.open(open.node, open.since, now);
                frame.announce();
            }
            at = frame.below();
        }
    }

    /// QEMU ends; `first` of all vCPUs tells of the calls on all stacks.
    pub fn ends(&mut self, shared: &Shared, first: bool) {
        let now = self.now(shared);
        self.settle(shared, now);
        if first {
            for open in shared.stacks.all_open().map(super::stacks::Frame::get).filter(|open| !open.announced) {
                self.out.open(open.node, open.since, now);
            }
        }
        self.interval(shared, now);
        self.out.exit(now);
        self.out.flush();
    }
}

/// Instructions of `before` that did not run, if execution went on at `block` in the middle of it.
fn left_early(before: &Block, block: &Block) -> Option<u32> {
    if !(before.start < block.start && block.start < before.end) {
        return None;
    }
    if block.end == before.end {
        return Some(block.insns.min(before.insns));
    }
    // Not the same end: by its share of the bytes.
    let share = (before.end - block.start) as f64 / (before.end - before.start) as f64;
    Some((f64::from(before.insns) * share) as u32)
}

/// The same after an interrupt: an exception may already have come from the first instruction.
fn left_early_or_at_once(before: &Block, block: &Block) -> Option<u32> {
    if block.start == before.start && !before.leads_to(block.start) {
        return Some(before.insns);
    }
    left_early(before, block).filter(|_| !before.leads_to(block.start))
}
