//! Tests of the rules on handmade guests: a few instructions, with realistic stack pointers.

use super::block::Block;
use super::encode::Out;
use super::follow::{Clock, Shared, Vcpu};
use super::stack_effect::StackEffect;
use super::tree::{Kind, Totals};
use crate::ending::Ending;

/// A guest with one vCPU, whose code is made while it runs.
struct Guest {
    shared: Shared,
    vcpu: Vcpu,
    blocks: super::block::Blocks,
}

impl Guest {
    fn new() -> Guest {
        let shared = Shared::new(Clock::Virtual(None), 0, u64::MAX, [1 << 10, 1 << 10, 2]);
        let vcpu = Vcpu::new(&shared, Out::new(None, 0));
        Guest { shared, vcpu, blocks: super::block::Blocks::new(1 << 10) }
    }

    /// A block of ten instructions and 16 bytes.
    fn block(&mut self, start: u64, ending: Ending, to: u64) -> &'static Block {
        let end = start + 16;
        let displacement = (to != 0).then(|| to.wrapping_sub(end) as i64);
        self.blocks.keep(Block::new(start, end, end - 4, 10, ending, displacement)).expect("room")
    }

    fn runs(&mut self, block: &'static Block) {
        self.vcpu.runs(&self.shared, block);
    }

    /// Runs a block at `at` that calls `to` and pushes the return address at `sp`.
    fn call(&mut self, at: u64, to: u64, sp: u64) {
        let block = self.block(at, Ending::Call, to);
        self.runs(block);
        self.vcpu.stack_pointer(block, sp);
    }

    /// Runs a block that calls through a register.
    fn call_indirect(&mut self, at: u64, sp: u64) {
        let block = self.block(at, Ending::CallIndirect, 0);
        self.runs(block);
        self.vcpu.stack_pointer(block, sp);
    }

    /// Runs a block that returns to the address at `sp`.
    fn ret(&mut self, at: u64, sp: u64) {
        let block = self.block(at, Ending::Return, 0);
        self.runs(block);
        self.vcpu.stack_pointer(block, sp);
    }

    fn plain(&mut self, at: u64) {
        let block = self.block(at, Ending::Other, 0);
        self.runs(block);
    }

    fn jump(&mut self, at: u64, to: u64) {
        let block = self.block(at, Ending::Jump, to);
        self.runs(block);
    }

    fn jump_indirect(&mut self, at: u64) {
        let block = self.block(at, Ending::JumpIndirect, 0);
        self.runs(block);
    }

    fn interrupt_return(&mut self, at: u64) {
        let block = self.block(at, Ending::InterruptReturn, 0);
        self.runs(block);
    }

    fn user(&mut self) {
        let block = self.blocks.user(10);
        self.runs(block);
    }

    /// Runs a block of an architecture whose calls do not access the stack. It moves the stack pointer by `moves`, or
    /// sets it if that is `None`. If `sp` is given, an access shows it as the stack pointer at the block's end.
    fn run_with_effect(&mut self, at: u64, ending: Ending, to: u64, moves: Option<i32>, sp: Option<u64>) {
        let end = at + 16;
        let displacement = (to != 0).then(|| to.wrapping_sub(end) as i64);
        let mut block = Block::new(at, end, end - 4, 10, ending, displacement);
        block.stack_effect = Some(StackEffect { moves, access_insn: sp.map(|_| 0), end_offset: 8 });
        let block = self.blocks.keep(block).expect("room");
        self.vcpu.runs_by_effect(&self.shared, block);
        if let Some(sp) = sp {
            self.vcpu.stack_access(&self.shared, block, sp - 8);
        }
    }

    /// The nodes and their counts, as lines: path of functions, calls, self instructions.
    fn tree(&mut self) -> Vec<String> {
        self.vcpu.finish(&self.shared, true);
        let mut lines = Vec::new();
        for id in 1.. {
            let node = self.shared.tree.get(id);
            let path = node.path();
            if path.function + u64::from(path.parent) == 0 && path.kind != Kind::User {
                return lines;
            }
            let Totals { calls, insns, .. } = node.totals();
            if calls + insns > 0 {
                lines.push(format!("{} {calls} {insns}", self.name(id)));
            }
        }
        unreachable!("node numbers have no end")
    }

    fn name(&self, id: u32) -> String {
        let path = self.shared.tree.get(id).path();
        let mark = match path.kind {
            Kind::Stack => return format!("{:x}", path.function),
            Kind::User => return "user".into(),
            Kind::Call => "/",
            Kind::Tail => "~",
            Kind::Interrupt => "!",
        };
        format!("{}{mark}{:x}", self.name(path.parent), path.function)
    }

    fn check(&mut self, expected: &[&str]) {
        assert_eq!(self.tree(), expected);
        assert_eq!(self.vcpu.counts.lost_interrupts, 0);
    }
}

#[test]
fn calls_return_to_their_callers() {
    let mut g = Guest::new();
    for _ in 0..3 {
        g.call(0x1000, 0x2000, 0x8000);
        g.call(0x2000, 0x3000, 0x7ff0);
        g.ret(0x3000, 0x7ff0);
        g.ret(0x2010, 0x8000);
        g.jump(0x1010, 0x1000);
    }
    // The first block ran before its stack was known.
    g.check(&["1000 0 10", "1000 0 50", "1000/2000 3 60", "1000/2000/3000 3 30"]);
    assert_eq!((g.vcpu.counts.calls, g.vcpu.counts.matched, g.vcpu.counts.unmatched), (6, 6, 0));
}

#[test]
fn recursion_as_deep_as_there_is_room_and_deeper() {
    let mut g = Guest::new();
    let deep = 900;
    g.call(0x1000, 0x2000, 0x100_0000);
    for i in 1..deep {
        g.call(0x2000, 0x2000, 0x100_0000 - 0x100 * i);
    }
    for i in (1..deep).rev() {
        g.ret(0x2010, 0x100_0000 - 0x100 * i);
    }
    g.ret(0x2010, 0x100_0000);
    g.plain(0x1010);
    assert_eq!((g.vcpu.counts.matched, g.vcpu.counts.dropped, g.vcpu.counts.stacks), (deep, 0, 1));

    let mut g = Guest::new();
    for i in 0..2000 {
        g.call(0x2000, 0x2000, 0x100_0000 - 0x100 * i);
    }
    g.plain(0x2000);
    assert_eq!(g.vcpu.counts.calls, 2000);
    assert!(g.vcpu.counts.deep > 900 && g.vcpu.counts.folded > 900, "{:?}", g.vcpu.counts);
    let all: u64 = (0..1 << 10).map(|id| g.shared.tree.get(id).totals().insns).sum();
    g.vcpu.finish(&g.shared, true);
    assert!(all <= 20_010, "nothing is counted twice");
}

#[test]
fn a_longjmp_takes_its_frames_away() {
    let mut g = Guest::new();
    g.call(0x1000, 0x2000, 0x8000);
    g.call(0x2000, 0x3000, 0x7ff0);
    g.call(0x3000, 0x4000, 0x7fe0);
    // 4000 restores the stack pointer of 2000 and jumps there.
    g.jump(0x4000, 0x2010);
    g.call(0x2010, 0x5000, 0x7ff0);
    g.ret(0x5000, 0x7ff0);
    g.ret(0x2020, 0x8000);
    g.plain(0x1010);
    g.check(&[
        "1000 0 10",
        "1000 0 10",
        "1000/2000 1 20",
        "1000/2000/3000 1 10",
        "1000/2000/3000/4000 1 20",
        "1000/2000/5000 1 10",
    ]);
    assert_eq!((g.vcpu.counts.matched, g.vcpu.counts.unmatched, g.vcpu.counts.dropped), (2, 0, 2));
}

#[test]
fn a_tail_call_returns_with_its_caller() {
    let mut g = Guest::new();
    g.call(0x1000, 0x3000, 0x8000); // so that 3000 is known to be called
    g.ret(0x3000, 0x8000);
    g.call(0x1010, 0x2000, 0x8000);
    g.jump(0x2000, 0x3000);
    g.ret(0x3000, 0x8000);
    g.plain(0x1020);
    g.check(&["1000 0 10", "1000 0 20", "1000/3000 1 10", "1000/2000 1 10", "1000/2000~3000 1 10"]);
    assert_eq!((g.vcpu.counts.tail_calls, g.vcpu.counts.matched), (1, 2));
}

#[test]
fn functions_that_jump_to_each_other_do_not_get_deeper() {
    let mut g = Guest::new();
    g.call(0x1000, 0x2000, 0x8000);
    g.ret(0x2000, 0x8000);
    g.call(0x1010, 0x3000, 0x8000);
    g.jump(0x3000, 0x2000);
    for _ in 0..100 {
        g.jump(0x2000, 0x3000);
        g.jump(0x3000, 0x2000);
    }
    g.ret(0x2000, 0x8000);
    g.plain(0x1020);
    g.check(&["1000 0 10", "1000 0 20", "1000/2000 1 10", "1000/3000 1 1010", "1000/3000~2000 101 1010"]);
}

#[test]
fn a_retpoline_calls_what_it_returns_to() {
    let mut g = Guest::new();
    for target in [0x5000, 0x6000] {
        g.call(0x1000, 0x2000, 0x8000); // the thunk
        g.call(0x2000, 0x2020, 0x7ff8);
        g.ret(0x2020, 0x7ff8); // after it has put the target at 7ff8
        g.ret(target, 0x8000);
        g.jump(0x1010, 0x1000);
    }
    g.check(&["1000 0 10", "1000 0 30", "1000/2000 2 20", "1000/2000/2020 2 20", "1000/5000 1 10", "1000/6000 1 10"]);
    let counts = g.vcpu.counts;
    assert_eq!((counts.redirected, counts.matched, counts.unmatched), (2, 2, 0));
}

#[test]
fn an_interrupt_hangs_from_the_bottom_and_comes_back() {
    let mut g = Guest::new();
    g.call(0x1000, 0x2000, 0x8000);
    g.plain(0x2000);
    g.call(0x9000, 0xa000, 0x7f00); // the handler; no code led there
    g.ret(0xa000, 0x7f00);
    g.interrupt_return(0x9010);
    g.ret(0x2010, 0x8000);
    g.plain(0x1010);
    g.check(&["1000 0 10", "1000 0 10", "1000/2000 1 20", "1000!9000 1 20", "1000!9000/a000 1 10"]);
    assert_eq!((g.vcpu.counts.interrupts, g.vcpu.counts.matched, g.vcpu.counts.unmatched), (1, 2, 0));
}

#[test]
fn an_interrupt_that_comes_when_another_returns() {
    let mut g = Guest::new();
    g.call(0x1000, 0x2000, 0x8000);
    g.plain(0x2000);
    for _ in 0..3 {
        g.call(0x9000, 0xa000, 0x7f00);
        g.ret(0xa000, 0x7f00);
        g.interrupt_return(0x9010);
    }
    g.plain(0xb000); // an interrupt whose handler calls nothing and is not known yet: it came at 2000
    g.interrupt_return(0xb010);
    g.ret(0x2010, 0x8000);
    g.plain(0x1010);
    let handler = ["1000!9000 3 60", "1000!9000/a000 3 30"];
    g.check(&[&["1000 0 10", "1000 0 10", "1000/2000 1 40"][..], &handler].concat());
    assert_eq!((g.vcpu.counts.interrupts, g.vcpu.counts.matched, g.vcpu.counts.unmatched), (3, 4, 0));

    let mut g = Guest::new();
    g.interrupt_return(0x2000);
    g.user();
    for _ in 0..2 {
        g.call(0x9000, 0xa000, 0x8000);
        g.ret(0xa000, 0x8000);
        g.interrupt_return(0x9010);
    }
    g.user();
    let tree = g.tree();
    assert!(tree.iter().any(|line| line == "user!9000 0 20"), "{tree:?}");
    assert_eq!(g.vcpu.counts.interrupts, 2);
}

#[test]
fn after_an_interrupt_on_a_stack_of_its_own_the_old_one_goes_on() {
    let mut g = Guest::new();
    g.call(0x1000, 0x2000, 0x8000);
    g.plain(0x2000);
    g.call(0x9000, 0xa000, 0x4_7f00); // the handler runs on another stack
    g.ret(0xa000, 0x4_7f00);
    g.interrupt_return(0x9010);
    g.jump(0x2010, 0x2010);
    g.jump(0x2010, 0x2010); // a loop without a call, which would show the stack
    g.ret(0x2010, 0x8000);
    g.plain(0x1010);
    // Until its first call, the handler counts as one on the old stack.
    let handler = ["1000!9000 0 10", "9000!9000 1 10", "9000!9000/a000 1 10"];
    g.check(&[&["1000 0 10", "1000 0 10", "1000/2000 1 40"][..], &handler].concat());
    assert_eq!((g.vcpu.counts.switches, g.vcpu.counts.matched, g.vcpu.counts.unmatched), (3, 2, 0));
}

#[test]
fn an_interrupt_right_after_a_call_or_a_return() {
    let mut g = Guest::new();
    let interrupt = |g: &mut Guest| {
        g.plain(0x9000);
        g.interrupt_return(0x9010);
    };
    g.plain(0xff0);
    interrupt(&mut g); // so that 9000 is known
    g.call(0x1000, 0x2000, 0x8000);
    interrupt(&mut g);
    g.ret(0x2000, 0x8000);
    interrupt(&mut g);
    g.call_indirect(0x1010, 0x8000);
    interrupt(&mut g);
    g.ret(0x3000, 0x8000);
    g.plain(0x1020);
    let tree = g.tree();
    for line in ["1000/2000 1 10", "1000/3000 1 10"] {
        assert!(tree.iter().any(|l| l == line), "{line}: {tree:?}");
    }
    assert_eq!((g.vcpu.counts.interrupts, g.vcpu.counts.matched, g.vcpu.counts.redirected), (4, 2, 0));
}

#[test]
fn what_an_exception_kept_from_running_is_not_counted() {
    let mut g = Guest::new();
    g.plain(0x1000);
    g.plain(0x1010);
    g.plain(0x9000); // 1010 failed half way
    g.interrupt_return(0x9010);
    let rest = g.blocks.keep(Block::new(0x1018, 0x1020, 0x101c, 5, Ending::Other, None)).unwrap();
    g.runs(rest);
    g.plain(0x1020);
    assert_eq!(g.vcpu.counts.left_early, 1);
    g.check(&["1000 0 30", "1000!9000 1 20"]);
}

#[test]
fn what_was_begun_again_or_taken_away_is_counted_once() {
    let mut g = Guest::new();
    g.plain(0x1000);
    g.plain(0x1000); // its first instruction changed the code that it is in
    g.plain(0x1010);
    // The last instruction of 1010 crosses into the next page, so it begins its own block.
    let crossing = g.blocks.keep(Block::new(0x101c, 0x1022, 0x101c, 1, Ending::Other, None)).unwrap();
    g.runs(crossing);
    // `rep` jumps to its own last instruction.
    let rep = g.blocks.keep(Block::new(0x1022, 0x1030, 0x102c, 5, Ending::Other, None).repeats()).unwrap();
    let again = g.blocks.keep(Block::new(0x102c, 0x1030, 0x102c, 1, Ending::Other, None).repeats()).unwrap();
    g.runs(rep);
    g.runs(again);
    g.runs(again);
    g.check(&["1000 0 27"]);
    assert_eq!((g.vcpu.counts.left_early, g.vcpu.counts.interrupts), (2, 0));
}

#[test]
fn user_space_is_one_node_and_empties_the_stack() {
    let mut g = Guest::new();
    g.call(0x1000, 0x2000, 0x8000);
    g.interrupt_return(0x2000);
    g.user();
    g.user();
    g.call(0x9000, 0xa000, 0x8000); // a system call; its handler has changed to the thread's stack
    g.ret(0xa000, 0x8000);
    g.interrupt_return(0x9010);
    g.user();
    g.check(&["user 0 30", "1000 0 10", "1000/2000 1 10", "user!9000 0 10", "1000!9000 1 10", "1000!9000/a000 1 10"]);
    assert_eq!(g.vcpu.counts.dropped, 0);
}

#[test]
fn each_vcpu_counts_in_a_user_space_of_its_own() {
    let mut g = Guest::new();
    let mut other = Vcpu::new(&g.shared, Out::new(None, 1));
    g.interrupt_return(0x2000);
    g.user();
    let [kernel, user] = [g.block(0x3000, Ending::InterruptReturn, 0), g.blocks.user(10)];
    other.runs(&g.shared, kernel);
    other.runs(&g.shared, user);
    other.runs(&g.shared, user);
    other.finish(&g.shared, false);
    g.check(&["user 0 10", "2000 0 10", "3000 0 10", "user 0 20"]);
}

#[test]
fn stacks_separate_threads() {
    let mut g = Guest::new();
    g.call(0x1000, 0x5000, 0x8000); // 5000 switches stacks
    g.ret(0x5000, 0x1_8000); // to a new stack, whose thread begins at 6000
    g.call(0x6000, 0x5000, 0x1_7f00);
    g.ret(0x5000, 0x8000); // and back
    g.call(0x1010, 0x5000, 0x8000);
    g.ret(0x5000, 0x1_7f00);
    g.plain(0x6010);
    g.check(&["1000 0 10", "1000 0 10", "1000/5000 2 20", "6000 0 20", "6000/5000 1 10"]);
    let counts = g.vcpu.counts;
    assert_eq!((counts.stacks, counts.switches, counts.unmatched, counts.matched), (2, 4, 1, 2));
}

#[test]
fn an_access_that_is_not_the_block_s_is_a_stray() {
    let mut g = Guest::new();
    g.call(0x1000, 0x2000, 0x8000);
    let caller = g.block(0x1000, Ending::Call, 0x2000);
    g.plain(0x2000);
    g.vcpu.stack_pointer(caller, 0x6000);
    g.ret(0x2010, 0x8000);
    g.plain(0x1010);
    assert_eq!((g.vcpu.counts.strays, g.vcpu.counts.matched), (1, 1));
}

#[test]
fn only_the_first_access_to_the_stack_is_the_instruction_s_own() {
    let mut g = Guest::new();
    g.plain(0xff0);
    g.plain(0x9000); // so that it is known
    g.interrupt_return(0x9010);
    g.call(0x1000, 0x2000, 0x8000);
    g.ret(0x2000, 0x8000);
    let returns = g.block(0x2000, Ending::Return, 0);
    g.vcpu.stack_pointer(returns, 0x10_0000); // what an interrupt reads to find its handler
    g.plain(0x9000);
    g.interrupt_return(0x9010);
    g.plain(0x1010);
    assert_eq!((g.vcpu.counts.stacks, g.vcpu.counts.unmatched), (1, 0));
}

#[test]
fn a_return_that_an_exception_kept_from_running() {
    let mut g = Guest::new();
    g.call(0x1000, 0x2000, 0x8000);
    let half = g.block(0x2000, Ending::Return, 0);
    g.runs(half); // fails before its return, so no access to the stack is reported
    g.call(0x9000, 0xa000, 0x7f00);
    g.ret(0xa000, 0x7f00);
    g.interrupt_return(0x9010);
    let rest = g.blocks.keep(Block::new(0x2008, 0x2010, 0x200c, 5, Ending::Return, None)).unwrap();
    g.runs(rest);
    g.vcpu.stack_pointer(rest, 0x8000);
    g.plain(0x1010);
    g.check(&["1000 0 10", "1000 0 10", "1000/2000 1 10", "1000!9000 1 20", "1000!9000/a000 1 10"]);
    let counts = g.vcpu.counts;
    assert_eq!((counts.matched, counts.interrupts, counts.left_early, counts.returns_without_stack), (2, 1, 1, 0));
}

#[test]
fn code_of_16_bits_wraps_around_in_its_segment() {
    let mut g = Guest::new();
    g.call(0xf_6000, 0xe_f000, 0x8000);
    g.jump(0xf_f000, 0xe_6100); // both targets are given without wrapping
    g.ret(0xf_6100, 0x8000);
    g.plain(0xf_6010);
    g.check(&["f6000 0 10", "f6000 0 10", "f6000/ff000 1 20"]);
    assert_eq!((g.vcpu.counts.interrupts, g.vcpu.counts.matched), (0, 1));
}

#[test]
fn a_return_address_that_was_moved_down() {
    let mut g = Guest::new();
    g.call(0x1000, 0x2000, 0x8000);
    g.plain(0x2000);
    g.call(0x9000, 0xa000, 0x7f00); // an interrupt, whose handler calls what saves the registers
    g.ret(0xa000, 0x7e80); // below its own return address
    g.call(0x9010, 0xb000, 0x7e88);
    g.ret(0xb000, 0x7e88);
    g.interrupt_return(0x9020);
    g.ret(0x2010, 0x8000);
    g.plain(0x1010);
    let handler = ["1000!9000 1 30", "1000!9000/a000 1 10", "1000!9000/b000 1 10"];
    g.check(&[&["1000 0 10", "1000 0 10", "1000/2000 1 20"][..], &handler].concat());
    assert_eq!((g.vcpu.counts.matched, g.vcpu.counts.unmatched, g.vcpu.counts.dropped), (3, 0, 0));
}

#[test]
fn an_interrupt_ends_although_a_call_in_it_never_returned() {
    let mut g = Guest::new();
    g.call(0x1000, 0x2000, 0x8000);
    g.plain(0x2000);
    g.call(0x9000, 0xa000, 0x7f00);
    g.interrupt_return(0xa000); // back to 2010, past the handler's own end
    g.ret(0x2010, 0x8000);
    g.plain(0x1010);
    g.check(&["1000 0 10", "1000 0 10", "1000/2000 1 20", "1000!9000 1 10", "1000!9000/a000 1 10"]);
    assert_eq!((g.vcpu.counts.matched, g.vcpu.counts.dropped), (1, 1));
}

#[test]
fn code_that_was_translated_before_the_upper_half_was_mapped() {
    const UPPER: u64 = 0xffff_ffff_8000_0000;
    let mut g = Guest::new();
    g.call(0x10_1000, 0x10_2000, 0x8000);
    g.ret(0x10_2000, 0x8000);
    g.jump_indirect(0x10_1010);
    // From here on, QEMU still reports 2000 and the code after its call at their old addresses.
    g.call(UPPER + 0x10_3000, UPPER + 0x10_2000, 0x8000);
    g.ret(0x10_2000, 0x8000);
    g.jump(UPPER + 0x10_3010, UPPER + 0x10_1000);
    g.call(0x10_1000, 0x10_2000, 0x8000);
    g.ret(0x10_2000, 0x8000);
    g.jump_indirect(0x10_1010);
    g.plain(UPPER + 0x10_3000);
    let upper = "101000/ffffffff80102000 2 20";
    g.check(&["101000 0 10", "101000 0 60", "101000/102000 1 10", upper]);
    assert_eq!((g.vcpu.counts.interrupts, g.vcpu.counts.matched, g.vcpu.counts.unmatched), (0, 3, 0));
}

#[test]
fn calls_without_stack_access_are_found_by_the_followed_stack_pointer() {
    use Ending::{Call, Other, Return};
    let mut g = Guest::new();
    g.run_with_effect(0x1000, Other, 0, Some(0), Some(0x8000));
    for _ in 0..3 {
        g.run_with_effect(0x1010, Call, 0x2000, Some(0), None);
        g.run_with_effect(0x2000, Call, 0x3000, Some(-32), Some(0x7fe0)); // makes a frame
        g.run_with_effect(0x3000, Return, 0, Some(0), None); // makes none
        g.run_with_effect(0x2010, Return, 0, Some(32), Some(0x8000));
        g.run_with_effect(0x1020, Ending::Jump, 0x1010, Some(0), None);
    }
    // The first blocks ran before their stack was known.
    g.check(&["1000 0 20", "1010 0 50", "1010/2000 3 60", "1010/2000/3000 3 30"]);
    assert_eq!((g.vcpu.counts.calls, g.vcpu.counts.matched, g.vcpu.counts.unmatched), (6, 6, 0));
}

/// Like riscv64's `memmove`, which calls a part of itself with another register for the return address.
#[test]
fn a_function_may_call_on_where_it_was_called_itself() {
    use Ending::{Call, Other, Return};
    let mut g = Guest::new();
    g.run_with_effect(0x1000, Other, 0, Some(0), Some(0x8000));
    for _ in 0..2 {
        g.run_with_effect(0x1010, Call, 0x2000, Some(0), None);
        g.run_with_effect(0x2000, Call, 0x3000, Some(0), None);
        g.run_with_effect(0x3000, Return, 0, Some(0), None);
        g.run_with_effect(0x2010, Return, 0, Some(0), None);
        g.run_with_effect(0x1020, Ending::Jump, 0x1010, Some(0), None);
    }
    g.check(&["1000 0 20", "1010 0 30", "1010/2000 2 40", "1010/2000/3000 2 20"]);
    // A call that never returned is dropped when the same call is made again.
    for _ in 0..3 {
        g.run_with_effect(0x1010, Call, 0x2000, Some(0), None);
        g.run_with_effect(0x2000, Ending::Jump, 0x1010, Some(0), None);
    }
    assert_eq!((g.vcpu.counts.unmatched, g.vcpu.counts.dropped), (0, 2));
}

#[test]
fn an_interrupt_gives_back_the_stack_pointer_that_it_came_to() {
    use Ending::{Call, InterruptReturn, Other, Return};
    let mut g = Guest::new();
    g.run_with_effect(0x1000, Other, 0, Some(0), Some(0x8000));
    g.run_with_effect(0x1010, Call, 0x2000, Some(0), None);
    g.run_with_effect(0x2000, Other, 0, Some(-16), None);
    g.run_with_effect(0x9000, Call, 0xa000, Some(0), Some(0x7f00)); // comes before 2010
    g.run_with_effect(0xa000, Return, 0, Some(0), None);
    g.run_with_effect(0x9010, InterruptReturn, 0, Some(0), None);
    // No access has shown it since.
    g.run_with_effect(0x2010, Call, 0x3000, Some(0), None);
    g.run_with_effect(0x3000, Return, 0, Some(0), None);
    g.run_with_effect(0x2020, Return, 0, Some(16), None);
    g.run_with_effect(0x1020, Other, 0, Some(0), None);
    g.check(&[
        "1000 0 20",
        "1010 0 10",
        "1010/2000 1 30",
        "1010!9000 1 20",
        "1010!9000/a000 1 10",
        "1010/2000/3000 1 10",
    ]);
    assert_eq!((g.vcpu.counts.matched, g.vcpu.counts.unmatched, g.vcpu.counts.calls_without_stack), (3, 0, 0));
}

/// As in Linux' thread switch: it sets the stack pointer, and the return leads to the place where the other thread was
/// left.
#[test]
fn a_return_on_another_stack_waits_for_an_access_that_shows_it() {
    use Ending::{Call, Other, Return};
    let mut g = Guest::new();
    for (at, sp) in [(0x1000, 0x8000), (0x5000, 0x2_8000)] {
        // Each thread calls 2000, which changes to the other one.
        g.run_with_effect(at, Other, 0, None, Some(sp));
        g.run_with_effect(at + 0x10, Call, 0x2000, Some(0), None);
        g.run_with_effect(0x2000, Return, 0, None, None);
    }
    g.run_with_effect(0x1020, Call, 0x3000, Some(0), None); // back in the first: only its callee accesses the stack
    g.run_with_effect(0x3000, Return, 0, Some(0), Some(0x8000));
    g.run_with_effect(0x1030, Call, 0x2000, Some(0), None);
    g.run_with_effect(0x2000, Return, 0, None, None);
    g.run_with_effect(0x5020, Other, 0, Some(0), Some(0x2_8000));
    g.run_with_effect(0x5030, Other, 0, Some(0), None);
    assert_eq!((g.vcpu.counts.calls, g.vcpu.counts.matched), (4, 3), "{:?}", g.vcpu.counts);
    assert_eq!((g.vcpu.counts.returns_without_stack, g.vcpu.counts.dropped, g.vcpu.counts.stacks), (0, 0, 2));
    let all: u64 = g.tree().iter().map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(all, 120, "each block is counted once");
}

/// Some devices make QEMU leave a block and translate its rest again.
#[test]
fn a_block_that_ends_with_a_return_and_is_left_before_it_has_not_returned() {
    use Ending::{Call, Other, Return};
    let mut g = Guest::new();
    g.run_with_effect(0x1000, Other, 0, Some(0), Some(0x8000));
    g.run_with_effect(0x1010, Call, 0x2000, Some(0), None);
    g.run_with_effect(0x2000, Return, 0, Some(0), None); // left at once
    g.run_with_effect(0x2000, Other, 0, Some(0), None);
    g.run_with_effect(0x2010, Return, 0, Some(0), None);
    g.run_with_effect(0x1020, Other, 0, Some(0), None);
    g.check(&["1000 0 20", "1010 0 10", "1010/2000 1 20"]);
    assert_eq!((g.vcpu.counts.matched, g.vcpu.counts.unmatched, g.vcpu.counts.left_early), (1, 0, 1));
}

/// A function whose first block is a loop, which may run any number of times.
#[test]
fn a_block_that_leads_to_itself_is_not_left() {
    use Ending::{Branch, Call, JumpIndirect, Other, Return};
    let mut g = Guest::new();
    g.run_with_effect(0x1000, Other, 0, Some(0), Some(0x8000));
    g.run_with_effect(0x1010, Call, 0x2000, Some(0), None);
    for _ in 0..3 {
        g.run_with_effect(0x2000, Branch, 0x2000, Some(0), None);
    }
    for _ in 0..2 {
        g.run_with_effect(0x2010, JumpIndirect, 0, Some(0), None); // by a register
    }
    g.run_with_effect(0x2020, Return, 0, Some(0), None);
    g.run_with_effect(0x1020, Other, 0, Some(0), None);
    g.check(&["1000 0 20", "1010 0 10", "1010/2000 1 60"]);
    assert_eq!((g.vcpu.counts.matched, g.vcpu.counts.left_early, g.vcpu.counts.interrupts), (1, 0, 0));
}

/// A return from a recursive function leads to the very block that returned.
#[test]
fn a_function_that_called_itself_returns_to_the_block_that_it_returns_from() {
    use Ending::{Call, Other, Return};
    let mut g = Guest::new();
    g.run_with_effect(0x1000, Other, 0, Some(0), Some(0x9000));
    g.run_with_effect(0x1010, Call, 0x2000, Some(0), None);
    for _ in 0..2 {
        g.run_with_effect(0x2000, Call, 0x2000, Some(-16), None);
    }
    g.run_with_effect(0x2000, Return, 0, Some(0), None); // deep enough
    for _ in 0..2 {
        g.run_with_effect(0x2010, Return, 0, Some(16), None);
    }
    g.run_with_effect(0x1020, Other, 0, Some(0), None);
    g.check(&["1000 0 20", "1010 0 10", "1010/2000 1 20", "1010/2000/2000 1 20", "1010/2000/2000/2000 1 10"]);
    assert_eq!((g.vcpu.counts.calls, g.vcpu.counts.matched, g.vcpu.counts.left_early), (3, 3, 0));
}
