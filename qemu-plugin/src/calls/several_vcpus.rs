//! Tests with several vCPUs: arbitrary guests, and guests whose calls are known.

use std::sync::{Barrier, Mutex};

use proptest::prelude::*;

use super::any_guest::{AnyGuest, VCPUS};
use super::block::{Block, Blocks};
use super::encode::Out;
use super::follow::{Clock, Shared, Vcpu};
use super::tree::Kind;
use crate::ending::Ending;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_interleaving_of_any_vcpus_is_followed_within_the_limits(alone: bool, bytes in prop::collection::vec(any::<u8>(), 0..6000)) {
        AnyGuest::new(alone).run(&bytes);
    }

    #[test]
    fn any_guest_whose_vcpus_run_at_once_is_followed_within_the_limits(alone: bool, bytes: [Vec<u8>; VCPUS]) {
        let bytes = bytes.map(|bytes| bytes.repeat(20));
        AnyGuest::new(alone).run_in_threads(bytes.each_ref().map(Vec::as_slice));
    }
}

/// Code of a guest with known calls: a task calls three nested functions, and yields its CPU in the innermost.
struct Code {
    blocks: Mutex<Blocks>,
}

/// The addresses of a task's functions; the innermost one changes stacks.
const FUNCTIONS: [u64; 4] = [0x1000, 0x2000, 0x3000, 0x4000];
/// A scheduler's loop; it calls the same function to change stacks.
const SCHEDULER: u64 = 0x8000;

impl Code {
    fn new() -> Code {
        Code { blocks: Mutex::new(Blocks::new(1 << 10)) }
    }

    fn block(&self, start: u64, ending: Ending, to: Option<u64>) -> &'static Block {
        let end = start + 16;
        let displacement = to.map(|to| to.wrapping_sub(end) as i64);
        let block = Block::new(start, end, end - 4, 10, ending, displacement);
        self.blocks.lock().expect("no test panicked").keep(block).expect("room")
    }

    fn call(&self, vcpu: &mut Vcpu, shared: &Shared, [at, to]: [u64; 2], sp: u64) {
        let block = self.block(at, Ending::Call, Some(to));
        vcpu.runs(shared, block);
        vcpu.stack_pointer(block, sp);
    }

    fn ret(&self, vcpu: &mut Vcpu, shared: &Shared, at: u64, sp: u64) {
        let block = self.block(at, Ending::Return, None);
        vcpu.runs(shared, block);
        vcpu.stack_pointer(block, sp);
    }

    /// Runs a task for one round, from the scheduler's loop and back.
    fn runs_task(&self, vcpu: &mut Vcpu, shared: &Shared, task: &mut Task, scheduler_sp: u64) {
        let [outer, middle, inner, switch] = FUNCTIONS;
        self.call(vcpu, shared, [SCHEDULER, switch], scheduler_sp);
        match task.rounds {
            // A new task: the return leads to its first instruction.
            0 => self.ret(vcpu, shared, switch, task.sp),
            _ => {
                self.ret(vcpu, shared, switch, task.sp - 48);
                self.ret(vcpu, shared, inner + 16, task.sp - 32);
                self.ret(vcpu, shared, middle + 16, task.sp - 16);
                vcpu.runs(shared, self.block(outer + 16, Ending::Jump, Some(outer)));
            }
        }
        self.call(vcpu, shared, [outer, middle], task.sp - 16);
        self.call(vcpu, shared, [middle, inner], task.sp - 32);
        self.call(vcpu, shared, [inner, switch], task.sp - 48);
        self.ret(vcpu, shared, switch, scheduler_sp);
        vcpu.runs(shared, self.block(SCHEDULER + 16, Ending::Jump, Some(SCHEDULER)));
        task.rounds += 1;
    }
}

struct Task {
    sp: u64,
    rounds: u64,
}

/// The number of calls of a function, on all paths.
fn calls_of(shared: &Shared, function: u64) -> u64 {
    let nodes = (1..shared.tree.capacity() as u32).map(|node| shared.tree.get(node));
    nodes
        .filter(|node| node.function() == function && node.path().kind == Kind::Call)
        .map(|node| node.totals().calls)
        .sum()
}

fn shared() -> Shared {
    Shared::new(Clock::Virtual(None), 0, u64::MAX, [1 << 12, 1 << 12, 4])
}

#[test]
fn a_task_that_moves_to_another_cpu_keeps_its_calls() {
    const CPUS: usize = 3;
    const ROUNDS: u64 = 2000;
    let (shared, code) = (shared(), Code::new());
    // Stacks of 16 KiB, more of them than CPUs, in a queue from which each CPU takes tasks.
    let tasks: Vec<_> = (0..7).map(|n| Mutex::new(Task { sp: 0x20_0000 + n * 0x4000 + 0x3ff0, rounds: 0 })).collect();
    let mut vcpus: Vec<_> = (0..CPUS as u16).map(|n| Vcpu::new(&shared, Out::new(None, n))).collect();
    let begin = Barrier::new(CPUS);
    std::thread::scope(|scope| {
        for (n, vcpu) in vcpus.iter_mut().enumerate() {
            let (shared, code, tasks, begin) = (&shared, &code, &tasks, &begin);
            scope.spawn(move || {
                vcpu.runs(shared, code.block(SCHEDULER - 16, Ending::Other, None));
                begin.wait();
                for round in 0..ROUNDS as usize {
                    let mut task = tasks[(round * (n + 1) + n) % tasks.len()].lock().expect("no task panicked");
                    code.runs_task(vcpu, shared, &mut task, 0x10_0000 + n as u64 * 0x4000 + 0x3f00);
                }
            });
        }
    });
    vcpus.iter_mut().enumerate().for_each(|(n, vcpu)| vcpu.finish(&shared, n == 0));
    let all = CPUS as u64 * ROUNDS;
    assert_eq!(FUNCTIONS.map(|function| calls_of(&shared, function)), [0, all, all, 2 * all]);
    let sum = |get: fn(&Vcpu) -> u64| vcpus.iter().map(get).sum::<u64>();
    let begun = tasks.len() as u64;
    assert_eq!(sum(|vcpu| vcpu.counts.unmatched), begun, "only a task's first instruction was never called");
    assert_eq!(sum(|vcpu| vcpu.counts.matched), all + 3 * (all - begun));
    assert_eq!((sum(|vcpu| vcpu.counts.dropped), sum(|vcpu| vcpu.counts.stacks)), (0, begun + CPUS as u64));
}

#[test]
fn two_cpus_with_their_stacks_in_one_window_count_as_two_in_windows_of_their_own() {
    const ROUNDS: u64 = 20_000;
    for tops in [[0x2_3ff0, 0x2_1ff0], [0x2_3ff0, 0x6_3ff0], [0x2_3ff0, 0x2_3ff0]] {
        let (shared, code) = (shared(), Code::new());
        let mut vcpus = [0, 1].map(|n| Vcpu::new(&shared, Out::new(None, n)));
        let begin = Barrier::new(2);
        std::thread::scope(|scope| {
            for (vcpu, top) in vcpus.iter_mut().zip(tops) {
                let (shared, code, begin) = (&shared, &code, &begin);
                scope.spawn(move || {
                    begin.wait();
                    let [outer, middle, inner, _] = FUNCTIONS;
                    for _ in 0..ROUNDS {
                        code.call(vcpu, shared, [outer, middle], top);
                        code.call(vcpu, shared, [middle, inner], top - 16);
                        code.ret(vcpu, shared, inner, top - 16);
                        code.ret(vcpu, shared, middle + 16, top);
                        vcpu.runs(shared, code.block(outer + 16, Ending::Jump, Some(outer)));
                    }
                });
            }
        });
        vcpus.iter_mut().enumerate().for_each(|(n, vcpu)| vcpu.finish(&shared, n == 0));
        assert_eq!(FUNCTIONS.map(|function| calls_of(&shared, function)), [0, 2 * ROUNDS, 2 * ROUNDS, 0], "{tops:x?}");
        for counts in vcpus.iter().map(|vcpu| vcpu.counts) {
            assert_eq!((counts.matched, counts.unmatched, counts.dropped), (2 * ROUNDS, 0, 0), "{tops:x?}");
        }
    }
}
