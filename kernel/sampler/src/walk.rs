//! Walks a stack by frame pointers. The stack may hold anything.
//!
//! With frame pointers, a function's frame begins with two words: the caller's frame pointer, and the return address. The
//! walk trusts neither. It reads only words in a stack that the kernel declares readable, it only goes up in a stack, and
//! it changes stacks at most four times. So it always ends: at a pointer into the same frame, at a pointer to nowhere, or
//! on a stack that is being switched. Two interrupts' stacks that point at each other give false callers, but few.

use core::ops::Range;

/// The state of the CPU when the NMI came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted {
    /// Address of the interrupted instruction.
    pub ip: u64,
    pub stack_pointer: u64,
    pub frame_pointer: u64,
    /// True if the CPU ran user code. The walk does not read the user's stack.
    pub is_user: bool,
}

/// A stack of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    /// Addresses of the stack. All of it is mapped.
    pub range: Range<u64>,
    /// True if the CPU switches to this stack for an interrupt. Only from such a stack may a frame point into another one.
    pub is_interrupts: bool,
}

/// The kernel's stacks that this CPU may be running on.
pub trait Stacks {
    /// The stack that contains an address; `None` if no stack does.
    fn stack_of(&self, address: u64) -> Option<Stack>;

    /// The word at an address. The address is a multiple of eight, and all eight bytes lie in a stack that
    /// [`stack_of`](Stacks::stack_of) returned.
    fn word(&self, address: u64) -> u64;
}

/// The reason why a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The frame pointer or the return address is zero. A kernel stores zero where a stack begins.
    Bottom,
    /// The CPU ran user code.
    User,
    /// There is no room for more frames.
    Full,
    /// The stack pointer lies in no stack.
    NoStack,
    /// The frame pointer is invalid: it points out of the stack or downwards, or is not aligned to a word.
    BadPointer,
}

/// Largest number of changes from one stack to another. A thread's stack lies below the stacks of nested interrupts.
const MAX_SWITCHES: usize = 4;

/// Puts the interrupted instruction and its return addresses into `frames`, innermost first. Returns the number of frames
/// and the reason why there are no more.
pub fn walk(stacks: &impl Stacks, at: &Interrupted, frames: &mut [u64]) -> (usize, End) {
    let Some((first, callers)) = frames.split_first_mut() else { return (0, End::Full) };
    *first = at.ip;
    if at.is_user {
        return (1, End::User);
    }
    let Some(mut stack) = stacks.stack_of(at.stack_pointer) else { return (1, End::NoStack) };
    let (mut frame, mut above) = (at.frame_pointer, at.stack_pointer);
    let mut switches = 0;
    let mut count = 1;
    for caller in callers {
        if frame == 0 {
            return (count, End::Bottom);
        }
        if !holds_frame(&stack, frame) {
            // An interrupt's frame leads back to the interrupted stack.
            let next = stacks.stack_of(frame).filter(|next| holds_frame(next, frame));
            match next {
                Some(next) if stack.is_interrupts && next != stack && switches < MAX_SWITCHES => {
                    above = next.range.start;
                    stack = next;
                    switches += 1;
                }
                _ => return (count, End::BadPointer),
            }
        }
        // The walk only goes up, so a circle in one stack ends here. The limit on switches ends a circle over several stacks.
        if frame < above {
            return (count, End::BadPointer);
        }
        above = frame + 16;
        *caller = stacks.word(frame + 8);
        if *caller == 0 {
            return (count, End::Bottom);
        }
        count += 1;
        frame = stacks.word(frame);
    }
    (count, if frame == 0 { End::Bottom } else { End::Full })
}

/// True if both words of a frame lie in the stack.
fn holds_frame(stack: &Stack, frame: u64) -> bool {
    frame % 8 == 0 && frame >= stack.range.start && frame.checked_add(16).is_some_and(|end| end <= stack.range.end)
}
