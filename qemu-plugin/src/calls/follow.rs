//! The rules by which calls are followed, for one vCPU: from blocks and stack pointers to shadow stacks.
//!
//! Each block that runs is compared with where the one before it leads. As expected: count its instructions, done;
//! nine of ten blocks. Otherwise the end of the block before says what happened:
//! - **call**: frames at or below the new stack pointer are gone (`longjmp`, a stack used anew); a new one is pushed;
//! - **return**: frames below the stack pointer are gone; the one at it returns. If its return address is not where
//!   execution goes on, somebody changed it: a retpoline, whose caller then called what comes next;
//! - **jump** to an address that is also called, or where code begins as functions do: a tail call, which returns with
//!   the frame it was made from;
//! - **anything else** did not lead here: an interrupt, an exception or a system call. What it pushed becomes known
//!   with the handler's first call, and it ends with the instruction that returns from those. If execution comes back
//!   to the middle of a block, that one was left early, and what it did not run is taken off again.
//!
//! Where calls and returns leave the stack alone, the stack pointer is followed through all code: [`stack_pointer`].
//!
//! Each of these is a file here. [`context`] is the vCPU's place on its stack and in the call tree, [`time`] what it is
//! charged for, [`tell`] what the output hears.
//!
//! In the call tree interrupts hang from the bottom of their stack, not from what they happened to interrupt.
//! User space is one node of each vCPU: who calls whom there is not followed.

mod calls;
mod context;
mod interrupts;
mod jumps;
mod moved;
mod stack_pointer;
mod tell;
mod time;

use std::sync::atomic::AtomicBool;

use super::block::{Block, NOWHERE};
use super::encode::Out;
use super::stack::{From, Stack};
use super::stacks::Stacks;
use super::tree::{Kind, Path, Tree};
use crate::ending::Ending;
use plugin_formats::calls::Counts;

use interrupts::Pending;
use stack_pointer::{WAITING_MAX, Waiting};
pub use time::Clock;

/// The node of user space, on the first vCPU.
const USER: u32 = 1;

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
    /// Room for `nodes` (a power of two) and `frames`, and this many vCPUs.
    pub fn new(clock: Clock, min_call: u64, interval: u64, [nodes, frames, vcpus]: [usize; 3]) -> Shared {
        let (tree, stacks) = (Tree::new(nodes, vcpus), Stacks::new(frames, vcpus));
        let user = tree.of_vcpu(&user_space(0), |_| {});
        debug_assert_eq!(user, Some(USER));
        Shared { tree, stacks, clock, min_call, interval, user_seen: AtomicBool::new(false) }
    }
}

/// User space has a node on each vCPU, because a node is counted in by one at a time.
fn user_space(vcpu: u16) -> Path {
    Path { parent: 0, function: 0, place: vcpu.into(), kind: Kind::User }
}

/// One vCPU.
pub struct Vcpu {
    /// The block that runs.
    block: &'static Block,
    /// Instructions so far, with those of that block.
    insns: u64,
    /// The stack pointer of the call or return at the block's end, once it is known.
    sp: Option<u64>,
    /// The same of any block, where no call and no return accesses the stack.
    end_sp: Option<u64>,
    /// Whether an access in the block has told it.
    is_told: bool,
    /// Calls and returns that wait for it.
    waiting: Vec<Waiting>,
    /// Where the last return from an interrupt leads back to.
    back_at: From,
    /// Whether it ever ran in the upper half of the address space, where kernels are.
    was_up: bool,
    /// Address of the function that runs.
    function: u64,
    /// Whose the time is now.
    node: u32,
    /// The stack in use, which is this vCPU's alone; the window of it, and the stack pointer when it was last seen.
    stack: Stack,
    window: u64,
    last_sp: u64,
    /// Where this vCPU began, and its user space.
    start_node: u32,
    user_node: u32,
    spent_insns: u64,
    spent_ticks: u64,
    slept: u64,
    synced: u64,
    next_interval: u64,
    /// How many intervals the next one is as long as.
    intervals: u64,
    halted: Option<u64>,
    pending: Option<Pending>,
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
            end_sp: None,
            is_told: false,
            back_at: From::default(),
            waiting: Vec::with_capacity(WAITING_MAX),
            was_up: false,
            function: NOWHERE,
            node: 0,
            stack: Stack::default(),
            window: NOWHERE,
            last_sp: 0,
            start_node: 0,
            user_node: 0,
            spent_insns: 0,
            spent_ticks: 0,
            slept: 0,
            synced: 0,
            next_interval: shared.interval,
            intervals: 1,
            halted: None,
            pending: None,
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

    /// Whether it ever ran in the upper half of the address space.
    pub fn was_up(&self) -> bool {
        self.was_up
    }

    /// Instructions that nodes were charged with: those that ran, and what no node could give back yet of others.
    #[cfg(any(test, not(feature = "qemu")))]
    pub fn charged(&self) -> u64 {
        self.spent_insns
    }

    /// The number of frames for which its stack has room.
    #[cfg(any(test, not(feature = "qemu")))]
    pub fn frames(&self) -> usize {
        self.stack.room
    }

    /// This block runs now.
    #[inline(always)]
    pub fn runs(&mut self, shared: &Shared, block: &'static Block) {
        let before = std::mem::replace(&mut self.block, block);
        if !(before.leads_to(block.start) && block.is_plain()) {
            self.turns_by_access(shared, before, block);
        }
        self.insns = self.insns.wrapping_add(block.insns.into());
    }

    #[inline(never)]
    fn turns_by_access(&mut self, shared: &Shared, before: &'static Block, block: &'static Block) {
        if self.sp.is_some_and(|sp| self.calls_or_returns(shared, before, block, sp)) {
            self.sp = None;
        } else {
            self.turns(shared, before, block);
        }
    }

    /// The instruction at the end of `block` wrote to or read from the stack at `sp`.
    #[inline(always)]
    pub fn stack_pointer(&mut self, block: &'static Block, sp: u64) {
        // QEMU 7.2 goes on calling for other instructions than the one that was asked about.
        if !std::ptr::eq(self.block, block) && !std::ptr::eq(self.block, block.now()) {
            self.counts.strays += 1;
        } else if block.far_call || self.sp.is_none() {
            // The last write of a far call is the lowest. Otherwise the first access is the instruction's own: QEMU 7.2
            // tells of those too that an interrupt makes right after it.
            self.sp = Some(sp);
        }
    }

    /// What the guest does is not what the block before leads to.
    #[inline(never)]
    fn turns(&mut self, shared: &Shared, before: &'static Block, block: &'static Block) {
        let [before, block] = self.where_they_are(before, block);
        if self.node == 0 {
            self.starts(shared, block);
        }
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
}
