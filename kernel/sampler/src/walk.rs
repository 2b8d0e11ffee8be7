//! Walking a stack by frame pointers, when anything at all may be on it.
//!
//! With frame pointers, a function's frame begins with two words: the caller's frame pointer, and the address to return to.
//! The walk trusts neither. It reads only words that lie in a stack that the kernel vouches for, it only ever goes
//! up in a stack, and it changes stacks a few times at most. So it ends whatever it finds: a pointer into itself, into
//! nothing, a stack that is being switched. Two interrupts' stacks that point at each other give false callers, but few.

use core::ops::Range;

/// What was running when the NMI came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted {
    /// The instruction that would have been next.
    pub ip: u64,
    /// The stack pointer.
    pub stack_pointer: u64,
    /// The frame pointer.
    pub frame_pointer: u64,
    /// Whether it was user code, whose stack is not looked at.
    pub is_user: bool,
}

/// A stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    /// Its addresses. All of it is mapped.
    pub range: Range<u64>,
    /// Whether the CPU switches to it for an interrupt: only from such a stack may a frame point into another one.
    pub is_interrupts: bool,
}

/// The kernel's stacks, as far as this CPU may be running on them.
pub trait Stacks {
    /// The stack that an address lies in; none if it is in none.
    fn stack_of(&self, address: u64) -> Option<Stack>;

    /// The word at an address, which is a multiple of eight and lies, with seven more bytes, in a stack of
    /// [`stack_of`](Stacks::stack_of)'s.
    fn word(&self, address: u64) -> u64;
}

/// Why a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// At a frame pointer or a return address of zero, which a kernel puts there where a stack begins.
    Bottom,
    /// In user code.
    User,
    /// There is no room for more frames.
    Full,
    /// The stack pointer lies in no stack.
    NoStack,
    /// The frame pointer leads nowhere: out of the stack, backwards, or to no whole word.
    BadPointer,
}

/// So many stacks can lie under each other: a thread's, and those of interrupts.
const STACKS_MAX: usize = 4;

/// Puts the interrupted instruction and the return addresses under it into `frames`, innermost first. Says how many there
/// are, and why there are no more.
pub fn walk(stacks: &impl Stacks, at: &Interrupted, frames: &mut [u64]) -> (usize, End) {
    let Some((first, callers)) = frames.split_first_mut() else { return (0, End::Full) };
    *first = at.ip;
    if at.is_user {
        return (1, End::User);
    }
    let Some(mut stack) = stacks.stack_of(at.stack_pointer) else { return (1, End::NoStack) };
    let (mut frame, mut above) = (at.frame_pointer, at.stack_pointer);
    let mut switches = 0;
    let mut found = 1;
    for caller in callers {
        if frame == 0 {
            return (found, End::Bottom);
        }
        if !holds_frame(&stack, frame) {
            // An interrupt's frame leads back to what was interrupted.
            let next = stacks.stack_of(frame).filter(|next| holds_frame(next, frame));
            match next {
                Some(next) if stack.is_interrupts && next != stack && switches < STACKS_MAX => {
                    above = next.range.start;
                    stack = next;
                    switches += 1;
                }
                _ => return (found, End::BadPointer),
            }
        }
        // Up only, so a circle in one stack ends here; one over several stacks ends with the switches.
        if frame < above {
            return (found, End::BadPointer);
        }
        above = frame + 16;
        *caller = stacks.word(frame + 8);
        if *caller == 0 {
            return (found, End::Bottom);
        }
        found += 1;
        frame = stacks.word(frame);
    }
    (found, if frame == 0 { End::Bottom } else { End::Full })
}

/// Whether a frame's two words lie in the stack.
fn holds_frame(stack: &Stack, frame: u64) -> bool {
    frame % 8 == 0 && frame >= stack.range.start && frame.checked_add(16).is_some_and(|end| end <= stack.range.end)
}
