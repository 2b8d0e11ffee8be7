//! The rules for following calls on one vCPU: from blocks and stack pointers to shadow stacks.
//!
//! Each block that runs is compared with the expected successor of the block before. If it is as expected, its
//! instructions are counted, and that is all; this holds for nine of ten blocks. Otherwise the ending of the block
//! before decides:
//! - **call**: frames at or below the new stack pointer are gone (`longjmp`, a reused stack); a new one is pushed;
//! - **return**: frames below the stack pointer are gone; the one at it returns. If execution does not continue at its
//!   return address, code has changed that address. This is a retpoline, whose caller then called the function that
//!   comes next;
//! - **jump** to an address that is also called, or to code that begins like a function: a tail call, which returns
//!   with its caller's frame;
//! - **anything else** was not the block's doing: an interrupt, an exception or a system call. The handler's first call
//!   shows the stack of its frame, and the frame ends with the instruction that returns from interrupts. If execution
//!   returns to the middle of a block, that block was left early. The instructions that did not run are then
//!   subtracted.
//!
//! On architectures whose calls and returns do not access the stack, the stack pointer is followed through all code:
//! [`stack_pointer`].
//!
//! Each of these is a file here. [`context`] is the vCPU's place on its stack and in the call tree, [`time`] charges
//! time to it, and [`output`] writes records.
//!
//! In the call tree, interrupts are children of the bottom of their stack, not of the code that they interrupted. User
//! space is one node for each vCPU; calls in it are not followed.

mod calls;
mod context;
mod interrupts;
mod jumps;
mod moved_code;
mod output;
mod stack_pointer;
mod time;

use std::sync::atomic::AtomicBool;

use super::block::{Block, NOWHERE};
use super::encode::Out;
use super::stack::{InterruptedStack, Stack};
use super::stacks::Stacks;
use super::tree::{Kind, Path, Tree};
use crate::ending::Ending;
use plugin_formats::calls::Counts;

use interrupts::Pending;
use stack_pointer::{MAX_WAITING, Waiting};
pub use time::Clock;

/// The node of user space on the first vCPU.
const USER: u32 = 1;

/// The state that all vCPUs share.
pub struct Shared {
    /// The call tree.
    pub tree: Tree,
    /// The shadow stacks.
    pub stacks: Stacks,
    pub clock: Clock,
    /// The shortest call in the timeline, ticks.
    pub min_call: u64,
    /// The interval between tables of totals, ticks.
    pub interval: u64,
    user_seen: AtomicBool,
}

impl Shared {
    /// Makes room for `nodes` (a power of two), `frames`, and this number of vCPUs.
    pub fn new(clock: Clock, min_call: u64, interval: u64, [nodes, frames, vcpus]: [usize; 3]) -> Shared {
        let (tree, stacks) = (Tree::new(nodes, vcpus), Stacks::new(frames, vcpus));
        let user = tree.vcpu_node(&user_space(0), |_| {});
        debug_assert_eq!(user, Some(USER));
        Shared { tree, stacks, clock, min_call, interval, user_seen: AtomicBool::new(false) }
    }
}

/// The path of a vCPU's user space. Each vCPU has its own node, because only one vCPU may count in a node.
fn user_space(vcpu: u16) -> Path {
    Path { parent: 0, function: 0, place: vcpu.into(), kind: Kind::User }
}

pub struct Vcpu {
    /// The block that runs.
    block: &'static Block,
    /// The number of instructions until now, including those of that block.
    insns: u64,
    /// The stack pointer at the call or return at the block's end, once known.
    sp: Option<u64>,
    /// The stack pointer at the end of any block, on architectures whose calls and returns do not access the stack.
    end_sp: Option<u64>,
    /// True if an access in the block has shown it.
    has_access: bool,
    /// Calls and returns for which the stack pointer is not known yet.
    waiting: Vec<Waiting>,
    /// The place to which the last return from an interrupt leads.
    resumed_at: InterruptedStack,
    /// True if it ever ran in the upper half of the address space, where kernels are.
    ran_in_upper_half: bool,
    /// The address of the current function.
    function: u64,
    /// The node to which time is charged now.
    node: u32,
    /// The current stack, which no other vCPU uses; its window, and the last known stack pointer.
    stack: Stack,
    window: u64,
    last_sp: u64,
    /// The node where this vCPU began, and the node of its user space.
    start_node: u32,
    user_node: u32,
    spent_insns: u64,
    spent_ticks: u64,
    slept: u64,
    synced: u64,
    next_interval: u64,
    /// The length of the next interval, in intervals.
    intervals: u64,
    halted: Option<u64>,
    pending: Option<Pending>,
    touched: Vec<u32>,
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
            has_access: false,
            resumed_at: InterruptedStack::default(),
            waiting: Vec::with_capacity(MAX_WAITING),
            ran_in_upper_half: false,
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
            // Each node is in it at most once.
            touched: Vec::with_capacity(shared.tree.capacity()),
            counts: Counts::default(),
            out,
        }
    }

    /// The node to which time is charged now; 0 before its first block.
    pub fn node(&self) -> u32 {
        self.node
    }

    pub fn block(&self) -> &'static Block {
        self.block
    }

    /// True if it ever ran.
    pub fn has_run(&self) -> bool {
        self.node != 0
    }

    /// True if it ever ran in the upper half of the address space.
    pub fn ran_in_upper_half(&self) -> bool {
        self.ran_in_upper_half
    }

    /// The number of instructions charged to nodes. It includes those that ran, and those that did not run but that no
    /// node could give back yet.
    #[cfg(any(test, not(feature = "qemu")))]
    pub fn charged(&self) -> u64 {
        self.spent_insns
    }

    /// The capacity of its stack, in frames.
    #[cfg(any(test, not(feature = "qemu")))]
    pub fn frames(&self) -> usize {
        self.stack.room
    }

    /// Handles the run of a block.
    #[inline(always)]
    pub fn runs(&mut self, shared: &Shared, block: &'static Block) {
        let before = std::mem::replace(&mut self.block, block);
        if !(before.leads_to(block.start) && block.is_plain()) {
            self.handle_transfer_by_access(shared, before, block);
        }
        self.insns = self.insns.wrapping_add(block.insns.into());
    }

    #[inline(never)]
    fn handle_transfer_by_access(&mut self, shared: &Shared, before: &'static Block, block: &'static Block) {
        if self.sp.is_some_and(|sp| self.calls_or_returns(shared, before, block, sp)) {
            self.sp = None;
        } else {
            self.handle_transfer(shared, before, block);
        }
    }

    /// Handles an access to the stack at `sp` by the instruction at the end of `block`.
    #[inline(always)]
    pub fn stack_pointer(&mut self, block: &'static Block, sp: u64) {
        // QEMU 7.2 also calls for instructions other than the registered one.
        if !std::ptr::eq(self.block, block) && !std::ptr::eq(self.block, block.now()) {
            self.counts.strays += 1;
        } else if block.far_call || self.sp.is_none() {
            // The last write of a far call is the lowest one. For other instructions, the first access is their own:
            // QEMU 7.2 also reports the accesses of an interrupt right after them.
            self.sp = Some(sp);
        }
    }

    /// Handles a block that is not the expected successor of the block before.
    #[inline(never)]
    fn handle_transfer(&mut self, shared: &Shared, before: &'static Block, block: &'static Block) {
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
            _ if block.user => self.enter_user(shared, before, block),
            _ if before.user => self.leave_user(shared, before, block),
            Ending::Call | Ending::CallIndirect => self.called(shared, before, block),
            Ending::Return => self.returned(shared, before, block),
            Ending::InterruptReturn => self.resumed(shared, block),
            _ => self.jumped(shared, before, block),
        }
    }
}
