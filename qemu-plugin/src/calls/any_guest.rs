//! Guests of several vCPUs that do what a string of bytes says, without QEMU: for tests and for the fuzzer.
//!
//! [`AnyGuest::run`] interleaves the vCPUs in one thread, [`AnyGuest::run_in_threads`] gives each a thread of its own. Both
//! check what must hold of any guest: no panic, no more memory than the limits, every instruction charged once, and no call or
//! return counted that was not made.

use std::fs::File;
use std::sync::{Arc, Mutex};

use super::block::{Block, Blocks, ENTRY};
use super::encode::{CallsFile, Limits, Out};
use super::follow::{Clock, Shared, Vcpu};
use super::on_stack::OnStack;
use super::stacks::{STACKS_MAX, WINDOWS_MAX};
use crate::ending::Ending;

/// vCPUs of such a guest.
pub const VCPUS: usize = 3;
/// Room for nodes and for frames: little, so that guests use it up.
const NODES: usize = 1 << 9;
const FRAMES: usize = 1 << 9;
const BLOCKS: usize = 1 << 12;
/// Bytes that say what a vCPU does next.
const STEP_BYTES: usize = 6;
/// The calls of one step that makes many of them.
const MANY: u64 = 40;

/// Where stack pointers are: two stacks of 8 KiB in one window and the windows around them; a kernel's stacks, nowhere, a device,
/// user space, addresses that no CPU has, and both ends of all addresses.
const STACKS: [u64; 12] = [
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

/// What the vCPUs share.
struct Machine {
    shared: Shared,
    blocks: Mutex<Blocks>,
    /// Whether calls leave the stack alone, as on arm64.
    leaves_stack_alone: bool,
}

/// One vCPU, and what it has made.
struct Cpu {
    vcpu: Vcpu,
    calls: u64,
    returns: u64,
    /// Steps that came to code at an address of their own.
    fresh: u64,
}

/// A guest that does what bytes say.
pub struct AnyGuest {
    machine: Machine,
    cpus: Vec<Cpu>,
}

impl AnyGuest {
    /// A guest before its first instruction.
    pub fn new(leaves_stack_alone: bool) -> AnyGuest {
        let shared = Shared::new(Clock::Virtual(None), 20, 1000, [NODES, FRAMES, VCPUS]);
        // What is written is not of interest here; that there is a limit is.
        let limits = Limits { details: 4 << 10, tables: 16 << 10, all: 20 << 10 };
        let null = File::options().write(true).open("/dev/null").expect("/dev/null");
        let file = Arc::new(CallsFile::new(null, limits));
        let cpu = |n| {
            let vcpu = Vcpu::new(&shared, Out::new(Some(file.clone()), n));
            Cpu { vcpu, calls: 0, returns: 0, fresh: 0 }
        };
        let cpus = (0..VCPUS as u16).map(cpu).collect();
        let blocks = Mutex::new(Blocks::new(BLOCKS));
        AnyGuest { machine: Machine { shared, blocks, leaves_stack_alone }, cpus }
    }

    /// Runs one step after the other, each on the vCPU that it names.
    pub fn run(mut self, bytes: &[u8]) {
        for step in bytes.chunks_exact(STEP_BYTES) {
            let cpu = usize::from(step[0] >> 4) % VCPUS;
            self.cpus[cpu].step(&self.machine, step);
        }
        self.check(true);
    }

    /// Runs all steps of each vCPU in a thread of its own.
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
                cpu.vcpu.ends(shared, n == 0);
            }
        }
        let of_all = |get: fn(&Cpu) -> u64| self.cpus.iter().fold(0u64, |sum, cpu| sum.wrapping_add(get(cpu)));
        let nodes = || (0..shared.tree.capacity() as u32).map(|node| u128::from(shared.tree.get(node).insns()));
        // Where the table of nodes is full, a caller's node counts for what it calls, on whichever vCPU that goes on.
        if one_thread || of_all(|cpu| cpu.vcpu.counts.folded) == 0 {
            let charged = u128::from(of_all(|cpu| cpu.vcpu.charged()));
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
        assert!(windows <= WINDOWS_MAX && stacks <= 1 + VCPUS + STACKS_MAX);
        assert!(free_frames + own_frames <= FRAMES, "{free_frames} + {own_frames} frames");
    }
}

impl Machine {
    fn block(&self, start: u64, ending: Ending, to: Option<u64>, on_stack: Option<OnStack>) -> Option<&'static Block> {
        let end = start.wrapping_add(16);
        let displacement = to.map(|to| to.wrapping_sub(end) as i64);
        let mut block = Block::new(start, end, end.wrapping_sub(4), 10, ending, displacement);
        block.on_stack = on_stack.filter(|_| self.leaves_stack_alone);
        self.blocks.lock().expect("no test panicked").keep(block)
    }
}

impl Cpu {
    /// One step: what, code at which address, leading to which, at which stack pointer.
    fn step(&mut self, machine: &Machine, step: &[u8]) {
        let [kind, at, to, stack, low, high] = *step else { return };
        let sp = STACKS[usize::from(stack) % STACKS.len()];
        let sp = sp.wrapping_sub(u64::from(u16::from_le_bytes([low, high])) % 0x1000);
        let [at, to] = [at, to].map(address);
        // A byte of the stack's says what the block does to the stack pointer, where calls leave that alone.
        let moves = (stack & 0x80 == 0).then_some(i32::from(low) - 128);
        let told = (stack & 0x40 == 0).then_some(sp);
        let code = |ending, to| machine.block(at, ending, to, on_stack(moves, told.is_some()));
        match kind & 15 {
            0 | 1 => self.runs(machine, code(Ending::Call, Some(to)), told.or(Some(sp))),
            2 => self.runs(machine, code(Ending::CallIndirect, None), Some(sp)),
            3 | 4 => self.runs(machine, code(Ending::Return, None), Some(sp)),
            5 => self.runs(machine, code(Ending::Jump, Some(to)), told),
            6 => self.runs(machine, code(Ending::JumpIndirect, None), told),
            7 => self.runs(machine, code(Ending::Branch, Some(to)), told),
            8 => self.runs(machine, code(Ending::InterruptReturn, None), told),
            9 => self.runs(machine, code(Ending::Trap, None), told),
            10 => {
                self.runs(machine, code(Ending::Halt, None), told);
                self.vcpu.halts(&machine.shared);
            }
            11 => {
                let user = machine.blocks.lock().expect("no test panicked").user(u32::from(low));
                self.runs(machine, Some(user), None);
            }
            12 => self.runs(machine, code(Ending::Call, Some(to)), None),
            13 => self.runs(machine, code(Ending::Return, None), None),
            14 => self.calls_deeper(machine, at, sp),
            _ => self.comes_to_new_code(machine, to, sp),
        }
    }

    /// The block runs. An access to the stack at its end is reported, also of code where none was expected.
    fn runs(&mut self, machine: &Machine, block: Option<&'static Block>, access: Option<u64>) {
        let Some(block) = block else { return };
        self.calls += u64::from(matches!(block.ending, Ending::Call | Ending::CallIndirect));
        self.returns += u64::from(block.ending == Ending::Return);
        let shared = &machine.shared;
        match machine.leaves_stack_alone && !block.user {
            true => self.vcpu.runs_on_stack(shared, block),
            false => self.vcpu.runs(shared, block),
        }
        match access {
            Some(address) if machine.leaves_stack_alone => self.vcpu.told(shared, block, address),
            Some(address) => self.vcpu.stack_pointer(block, address),
            None => {}
        }
    }

    /// A function that calls itself, each time a little further down.
    fn calls_deeper(&mut self, machine: &Machine, at: u64, sp: u64) {
        for n in 0..MANY {
            let block = machine.block(at, Ending::Call, Some(at), on_stack(Some(-64), true));
            self.runs(machine, block, Some(sp.wrapping_sub(64 * n)));
        }
    }

    /// A call of code that nothing has called, on a stack that nothing has used.
    fn comes_to_new_code(&mut self, machine: &Machine, at: u64, sp: u64) {
        self.fresh += 1;
        let to = at.wrapping_add(0x10_0000 * self.fresh);
        let block = machine.block(at, Ending::Call, Some(to), on_stack(None, true));
        self.runs(machine, block, Some(sp.wrapping_add(self.fresh << 20)));
        let block = machine.block(to, Ending::Other, None, on_stack(Some(0), false));
        block.inspect(|block| block.set(ENTRY));
        self.runs(machine, block, None);
    }
}

fn on_stack(moves: Option<i32>, tells: bool) -> Option<OnStack> {
    Some(OnStack { moves, told_by: tells.then_some(0), from_address: 8 })
}

/// Code is in both halves of the address space, close together: blocks overlap and lead to each other.
fn address(byte: u8) -> u64 {
    let half = if byte & 0x80 == 0 { 0x10_0000 } else { 0xffff_ffff_8010_0000 };
    half + u64::from(byte & 0x7f) * 8
}
