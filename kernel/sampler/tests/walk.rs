//! Walks over stacks that are hostile, half switched, or deeper than the room for frames.

use proptest::prelude::*;
use sampler::walk::walk;
use sampler::{End, Interrupted, Stack, Stacks};

const BASE: u64 = 0x1000;
const WORDS: usize = 96;

/// Three stacks in one memory: a thread's, and two interrupts' above it. Reading any other address fails the test.
struct Memory {
    words: [u64; WORDS],
}

const THREAD: std::ops::Range<u64> = BASE..BASE + 256;
const INTERRUPT: std::ops::Range<u64> = BASE + 256..BASE + 512;
const FAULT: std::ops::Range<u64> = BASE + 512..BASE + 768;

impl Stacks for Memory {
    fn stack_of(&self, address: u64) -> Option<Stack> {
        match address {
            _ if THREAD.contains(&address) => Some(Stack { range: THREAD, is_interrupts: false }),
            _ if INTERRUPT.contains(&address) => Some(Stack { range: INTERRUPT, is_interrupts: true }),
            _ if FAULT.contains(&address) => Some(Stack { range: FAULT, is_interrupts: true }),
            _ => None,
        }
    }

    fn word(&self, address: u64) -> u64 {
        assert_eq!(address % 8, 0, "{address:#x}");
        assert!((THREAD.start..FAULT.end).contains(&address), "{address:#x} is not mapped");
        self.words[(address - BASE) as usize / 8]
    }
}

impl Memory {
    fn new(frames: &[(u64, u64, u64)]) -> Memory {
        let mut words = [0; WORDS];
        for &(at, next, back) in frames {
            words[(at - BASE) as usize / 8] = next;
            words[(at - BASE) as usize / 8 + 1] = back;
        }
        Memory { words }
    }

    fn walk(&self, stack_pointer: u64, frame_pointer: u64) -> (Vec<u64>, End) {
        let mut frames = [0; 8];
        let at = Interrupted { ip: 7, stack_pointer, frame_pointer, is_user: false };
        let (count, end) = walk(self, &at, &mut frames);
        (frames[..count].to_vec(), end)
    }
}

#[test]
fn callers_up_to_the_bottom() {
    let memory = Memory::new(&[(0x1010, 0x1040, 1), (0x1040, 0x1080, 2), (0x1080, 0, 3)]);
    assert_eq!(memory.walk(0x1000, 0x1010), (vec![7, 1, 2, 3], End::Bottom));
    assert_eq!(memory.walk(0x1000, 0), (vec![7], End::Bottom));
    // A new thread's first function returns nowhere.
    assert_eq!(Memory::new(&[(0x1010, 0x1040, 0)]).walk(0x1000, 0x1010), (vec![7], End::Bottom));
}

#[test]
fn an_interrupts_stack_leads_back_and_a_threads_does_not() {
    let memory = Memory::new(&[(0x1110, 0x1010, 1), (0x1010, 0, 2)]);
    assert_eq!(memory.walk(0x1100, 0x1110), (vec![7, 1, 2], End::Bottom));
    // Half switched: the stack is the thread's, the frame lies in another stack.
    assert_eq!(memory.walk(0x1000, 0x1110), (vec![7], End::BadPointer));
    // The other way round: the handler's entry, before it has a frame.
    assert_eq!(memory.walk(0x1100, 0x1010), (vec![7, 2], End::Bottom));
}

#[test]
fn circles_and_bad_pointers_end_it() {
    let bad = |memory: Memory, frame| assert_eq!(memory.walk(0x1000, frame).1, End::BadPointer, "{frame:#x}");
    bad(Memory::new(&[(0x1010, 0x1010, 1)]), 0x1010);
    bad(Memory::new(&[(0x1040, 0x1010, 1), (0x1010, 0x1040, 2)]), 0x1040);
    bad(Memory::new(&[]), 0x1011);
    // Below the stack pointer, across the stack's end, in no stack, at the end of the address space.
    assert_eq!(Memory::new(&[]).walk(0x1080, 0x1010).1, End::BadPointer);
    for frame in [0x10f8, 0x9000, u64::MAX, u64::MAX - 7, 0xffff_8000_0000_0000] {
        bad(Memory::new(&[]), frame);
    }
    assert_eq!(Memory::new(&[]).walk(0x5000, 0x1010), (vec![7], End::NoStack));
}

#[test]
fn two_stacks_that_point_at_each_other() {
    let memory = Memory::new(&[(0x1110, 0x1010, 1), (0x1010, 0x1120, 2), (0x1120, 0x1040, 3)]);
    assert_eq!(memory.walk(0x1100, 0x1110), (vec![7, 1, 2], End::BadPointer));
}

#[test]
fn an_interrupt_in_an_interrupt_leads_back_over_both_stacks() {
    let memory = Memory::new(&[(0x1210, 0x1110, 1), (0x1110, 0x1130, 2), (0x1130, 0x1010, 3), (0x1010, 0, 4)]);
    assert_eq!(memory.walk(0x1200, 0x1210), (vec![7, 1, 2, 3, 4], End::Bottom));
    // The inner interrupt's entry, before it has a frame.
    assert_eq!(memory.walk(0x1200, 0x1110), (vec![7, 2, 3, 4], End::Bottom));
}

#[test]
fn two_interrupts_stacks_that_point_at_each_other_give_a_few_false_callers() {
    let memory = Memory::new(&[(0x1210, 0x1110, 1), (0x1110, 0x1210, 2)]);
    // The walk ends after four changes of stacks.
    assert_eq!(memory.walk(0x1200, 0x1210), (vec![7, 1, 2, 1, 2, 1], End::BadPointer));
    // The pointers go up each time they come back.
    let memory = Memory::new(&[(0x1210, 0x1110, 1), (0x1110, 0x1230, 2), (0x1230, 0x1130, 3), (0x1130, 0x1250, 4)]);
    assert_eq!(memory.walk(0x1200, 0x1210), (vec![7, 1, 2, 3, 4], End::Bottom));
}

#[test]
fn user_code_is_one_frame_and_too_deep_a_stack_is_cut() {
    let frames: Vec<_> = (0..12).map(|n| (0x1010 + n * 16, 0x1020 + n * 16, n + 1)).collect();
    let memory = Memory::new(&frames);
    let (frames, end) = memory.walk(0x1000, 0x1010);
    assert_eq!((frames.len(), end), (8, End::Full));
    let at = Interrupted { ip: 9, stack_pointer: 0x1000, frame_pointer: 0x1010, is_user: true };
    assert_eq!(walk(&memory, &at, &mut [0; 8]), (1, End::User));
    assert_eq!(walk(&memory, &at, &mut []), (0, End::Full));
}

proptest! {
    /// `word` asserts that the walk reads only stacks.
    #[test]
    fn no_stack_does_harm(
        words in proptest::array::uniform32(prop_oneof![0u64..16, (0u64..70).prop_map(|n| BASE + n * 8), any::<u64>()]),
        more in proptest::array::uniform32((0u64..100).prop_map(|n| BASE + n * 8)),
        most in proptest::array::uniform32((0u64..100).prop_map(|n| BASE + n * 8)),
        stack_pointer in (0u64..110).prop_map(|n| BASE + n * 7),
        frame_pointer in prop_oneof![(0u64..110).prop_map(|n| BASE + n * 8), any::<u64>()],
    ) {
        let mut memory = Memory { words: [0; WORDS] };
        memory.words[..32].copy_from_slice(&words);
        memory.words[32..64].copy_from_slice(&more);
        memory.words[64..].copy_from_slice(&most);
        let mut frames = [0; 300];
        let at = Interrupted { ip: 7, stack_pointer, frame_pointer, is_user: false };
        let (count, _) = walk(&memory, &at, &mut frames);
        // A walk only goes up in a stack of 16 frames, and changes stacks at most four times.
        prop_assert!(count <= 1 + 5 * 16, "{}", count);
    }
}
