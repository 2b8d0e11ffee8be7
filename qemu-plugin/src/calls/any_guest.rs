//! Guests with several vCPUs, driven by a string of bytes and without QEMU, for tests and for the fuzzer.
//!
//! [`AnyGuest::run`] interleaves the vCPUs in one thread; [`AnyGuest::run_in_threads`] gives each its own thread. Both
//! check that any guest stays within the rules. There is no panic and no memory beyond the limits. Every instruction is
//! charged once, and only calls and returns that the guest made are counted.

use std::fs::File;
use std::sync::{Arc, Mutex};

use super::block::{Block, Blocks, ENTRY};
use super::encode::{CallsFile, Limits, Out};
use super::follow::{Clock, Shared, Vcpu};
use super::stack_effect::StackEffect;
use super::stacks::{MAX_STACKS, MAX_WINDOWS};
use crate::ending::Ending;

/// The number of vCPUs of such a guest.
pub const VCPUS: usize = 3;
/// The capacity for nodes and for frames: small, so that guests exhaust it.
const MAX_NODES: usize = 1 << 9;
const MAX_FRAMES: usize = 1 << 9;
const MAX_BLOCKS: usize = 1 << 12;
/// The number of bytes that describe one step of a vCPU.
const STEP_BYTES: usize = 6;
/// The number of calls in a step that calls deeper and deeper.
const DEEP_CALLS: u64 = 40;

/// Stack pointers: two stacks of 8 KiB in one window, and the windows around them. Further ones are a kernel's stacks,
/// address 0, a device, user space, non-canonical addresses, and both ends of the address space.
const STACK_POINTERS: [u64; 12] = [
    0x2_3ff0,
    0x2_1ff0,
    0x2_0008,
    0x1_fff8,
    0xffff_c900_0000_3ff0,
    0xffff_c900_0000_7ff0,
    0,
    0xfee0_0000,
    0x7fff_ffff_f001,
    0x8000_0000_0000_0007,
    u64::MAX,
    0x3ffe,
];

/// The state that the vCPUs share.
struct Machine {
    shared: Shared,
    blocks: Mutex<Blocks>,
    /// True if calls do not access the stack, as on arm64.
    leaves_stack_alone: bool,
}

/// One vCPU, and the number of calls and returns that it made.
struct Cpu {
    vcpu: Vcpu,
    calls: u64,
    returns: u64,
    /// The number of steps to code at a new address.
    new_addresses: u64,
}

/// A guest driven by bytes.
pub struct AnyGuest {
    machine: Machine,
    cpus: Vec<Cpu>,
}

impl AnyGuest {
    /// A guest before its first instruction.
    pub fn new(leaves_stack_alone: bool) -> AnyGuest {
        let shared = Shared::new(Clock::Virtual(None), 20, 1000, [MAX_NODES, MAX_FRAMES, VCPUS]);
        // The file's content does not matter here, but its limit does.
        let limits = Limits { details: 4 << 10, tables: 16 << 10, all: 20 << 10 };
        let null = File::options().write(true).open("/dev/null").expect("/dev/null");
        let file = Arc::new(CallsFile::new(null, limits));
        let cpu = |n| {
            let vcpu = Vcpu::new(&shared, Out::new(Some(file.clone()), n));
            Cpu { vcpu, calls: 0, returns: 0, new_addresses: 0 }
        };
        let cpus = (0..VCPUS as u16).map(cpu).collect();
        let blocks = Mutex::new(Blocks::new(MAX_BLOCKS));
        AnyGuest { machine: Machine { shared, blocks, leaves_stack_alone }, cpus }
    }

    /// Runs all steps in order, each on the vCPU that it names.
    pub fn run(mut self, bytes: &[u8]) {
        for step in bytes.chunks_exact(STEP_BYTES) {
            let cpu = usize::from(step[0] >> 4) % VCPUS;
            self.cpus[cpu].step(&self.machine, step);
        }
        self.check(true);
    }

    /// Runs all steps of each vCPU in the vCPU's own thread.
    pub fn run_in_threads(mut self, bytes: [&[u8]; VCPUS]) {
        let machine = &self.machine;
        std::thread::scope(|scope| {
            for (cpu, bytes) in self.cpus.iter_mut().zip(bytes) {
                scope.spawn(move || bytes.chunks_exact(STEP_BYTES).for_each(|step| cpu.step(machine, step)));
            }
        });
        self.check(false);
    }

    fn check(mut self, one_thread: bool) {
        let shared = &self.machine.shared;
        for (n, cpu) in self.cpus.iter_mut().enumerate() {
            if cpu.vcpu.has_run() {
                cpu.vcpu.finish(shared, n == 0);
            }
        }
        let sum = |get: fn(&Cpu) -> u64| self.cpus.iter().fold(0u64, |sum, cpu| sum.wrapping_add(get(cpu)));
        let nodes = || (0..shared.tree.capacity() as u32).map(|node| u128::from(shared.tree.get(node).insns()));
        // If the table of nodes is full, a caller's node also counts for its callees, which may run on another vCPU.
        if one_thread || sum(|cpu| cpu.vcpu.counts.folded) == 0 {
            let charged = u128::from(sum(|cpu| cpu.vcpu.charged()));
            assert_eq!(nodes().sum::<u128>(), charged, "each instruction is charged once");
        }
        for Cpu { vcpu, .. } in &self.cpus {
            assert!(vcpu.counts.insns <= vcpu.charged(), "{:?} {}", vcpu.counts, vcpu.charged());
        }
        for Cpu { vcpu, calls, returns, .. } in &self.cpus {
            let counts = &vcpu.counts;
            assert!(counts.calls + counts.calls_without_stack <= *calls, "{counts:?} of {calls}");
            let returned = counts.matched + counts.redirected + counts.unmatched + counts.returns_without_stack;
            assert!(returned <= *returns, "{counts:?} of {returns}");
        }
        let [windows, stacks, free_frames] = shared.stacks.sizes();
        let own_frames: usize = self.cpus.iter().map(|cpu| cpu.vcpu.frames()).sum();
        assert!(windows <= MAX_WINDOWS && stacks <= 1 + VCPUS + MAX_STACKS);
        assert!(free_frames + own_frames <= MAX_FRAMES, "{free_frames} + {own_frames} frames");
    }
}

impl Machine {
    fn block(
        &self,
        start: u64,
        ending: Ending,
        to: Option<u64>,
        stack_effect: Option<StackEffect>,
    ) -> Option<&'static Block> {
        let end = start.wrapping_add(16);
        let displacement = to.map(|to| to.wrapping_sub(end) as i64);
        let mut block = Block::new(start, end, end.wrapping_sub(4), 10, ending, displacement);
        block.stack_effect = stack_effect.filter(|_| self.leaves_stack_alone);
        self.blocks.lock().expect("no test panicked").keep(block)
    }
}

impl Cpu {
    /// One step: its kind, the address of the code, its target, and the stack pointer.
    fn step(&mut self, machine: &Machine, step: &[u8]) {
        let [kind, at, to, stack, low, high] = *step else { return };
        let sp = STACK_POINTERS[usize::from(stack) % STACK_POINTERS.len()];
        let sp = sp.wrapping_sub(u64::from(u16::from_le_bytes([low, high])) % 0x1000);
        let [at, to] = [at, to].map(address);
        // Where calls do not access the stack, a byte gives the block's effect on the stack pointer.
        let moves = (stack & 0x80 == 0).then_some(i32::from(low) - 128);
        let access = (stack & 0x40 == 0).then_some(sp);
        let code = |ending, to| machine.block(at, ending, to, stack_effect(moves, access.is_some()));
        match kind & 15 {
            0 | 1 => self.runs(machine, code(Ending::Call, Some(to)), access.or(Some(sp))),
            2 => self.runs(machine, code(Ending::CallIndirect, None), Some(sp)),
            3 | 4 => self.runs(machine, code(Ending::Return, None), Some(sp)),
            5 => self.runs(machine, code(Ending::Jump, Some(to)), access),
            6 => self.runs(machine, code(Ending::JumpIndirect, None), access),
            7 => self.runs(machine, code(Ending::Branch, Some(to)), access),
            8 => self.runs(machine, code(Ending::InterruptReturn, None), access),
            9 => self.runs(machine, code(Ending::Trap, None), access),
            10 => {
                self.runs(machine, code(Ending::Halt, None), access);
                self.vcpu.halts(&machine.shared);
            }
            11 => {
                let user = machine.blocks.lock().expect("no test panicked").user(u32::from(low));
                self.runs(machine, Some(user), None);
            }
            12 => self.runs(machine, code(Ending::Call, Some(to)), None),
            13 => self.runs(machine, code(Ending::Return, None), None),
            14 => self.call_deeper(machine, at, sp),
            _ => self.call_new_code(machine, to, sp),
        }
    }

    /// Runs a block. An access to the stack at its end is reported, also for code where the plugin expects none.
    fn runs(&mut self, machine: &Machine, block: Option<&'static Block>, access: Option<u64>) {
        let Some(block) = block else { return };
        self.calls += u64::from(matches!(block.ending, Ending::Call | Ending::CallIndirect));
        self.returns += u64::from(block.ending == Ending::Return);
        let shared = &machine.shared;
        match machine.leaves_stack_alone && !block.user {
            true => self.vcpu.runs_by_effect(shared, block),
            false => self.vcpu.runs(shared, block),
        }
        match access {
            Some(address) if machine.leaves_stack_alone => self.vcpu.stack_access(shared, block, address),
            Some(address) => self.vcpu.stack_pointer(block, address),
            None => {}
        }
    }

    /// Calls a function recursively, each time a little further down the stack.
    fn call_deeper(&mut self, machine: &Machine, at: u64, sp: u64) {
        for n in 0..DEEP_CALLS {
            let block = machine.block(at, Ending::Call, Some(at), stack_effect(Some(-64), true));
            self.runs(machine, block, Some(sp.wrapping_sub(64 * n)));
        }
    }

    /// Calls code at a new address, on a new stack.
    fn call_new_code(&mut self, machine: &Machine, at: u64, sp: u64) {
        self.new_addresses += 1;
        let to = at.wrapping_add(0x10_0000 * self.new_addresses);
        let block = machine.block(at, Ending::Call, Some(to), stack_effect(None, true));
        self.runs(machine, block, Some(sp.wrapping_add(self.new_addresses << 20)));
        let block = machine.block(to, Ending::Other, None, stack_effect(Some(0), false));
        block.inspect(|block| block.set(ENTRY));
        self.runs(machine, block, None);
    }
}

fn stack_effect(moves: Option<i32>, has_access: bool) -> Option<StackEffect> {
    Some(StackEffect { moves, access_insn: has_access.then_some(0), end_offset: 8 })
}

/// Code is in both halves of the address space, close together, so that blocks overlap and lead to each other.
fn address(byte: u8) -> u64 {
    let half = if byte & 0x80 == 0 { 0x10_0000 } else { 0xffff_ffff_8010_0000 };
    half + u64::from(byte & 0x7f) * 8
}
