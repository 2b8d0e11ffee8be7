//! What is only true of one architecture: of a guest's, its code, and what that does to the stack; of a host's, its counter.
//! `crates/machine/src/arch/README.md` lists what a new one has to give.

mod aarch64;
mod arm;
mod riscv64;
mod x86_64;

pub use x86_64::counter;

use crate::ending::Ending;

/// The code of one architecture's guests. Instructions are given by their bytes; where the guest's memory has none, by no bytes.
pub trait Code: Sync {
    /// How a block ends whose last instruction is `last`, and how far from its end it leads where that is fixed. The instruction
    /// before is none where the block has but one: some architectures make a far call of two.
    fn ends(&self, last: &[u8], before: &[u8]) -> (Ending, Option<i64>);

    /// What tells the stack pointer at calls and returns; none if calls cannot be followed yet.
    fn stack(&self) -> Option<Stack> {
        None
    }

    /// Whether code begins as a function does, by its first two instructions. A function that is only ever jumped to (a tail call) can be
    /// separated from the rest of its caller by this alone. So it is strict: what compilers put at the start of functions and nowhere else.
    fn begins_function(&self, _start: u64, _first: &[u8], _second: &[u8]) -> bool {
        false
    }

    /// Whether these are only the first bytes of a jump or a call: they do not say where to.
    fn lacks_target(&self, _insn: &[u8]) -> bool {
        false
    }

    /// Whether it is a call to another segment.
    fn is_far_call(&self, _insn: &[u8]) -> bool {
        false
    }

    /// Whether it repeats itself.
    fn repeats(&self, _insn: &[u8]) -> bool {
        false
    }

    /// Whether it writes to a port.
    fn writes_port(&self, _insn: &[u8]) -> bool {
        false
    }
}

/// What tells the stack pointer where a call or a return is made. Version 1 of QEMU's interface has no registers.
#[derive(Clone, Copy)]
pub enum Stack {
    /// Both access the stack.
    Accesses,
    /// They leave it alone: the return address is in a register. So the stack pointer is followed through all code, by what each
    /// instruction does to it.
    Effects(fn(&[u8]) -> Effect),
}

/// What an instruction does to the stack pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    None,
    /// Moves it so many bytes.
    Moves(i64),
    /// Sets it to something that its bytes do not tell.
    Sets,
    /// Accesses memory so many bytes above it, and moves it then.
    Accesses {
        /// From the stack pointer to the address.
        above: i64,
        /// How far the stack pointer is moved.
        moves: i64,
    },
}

static ALL: [(&[u8], &dyn Code); 5] = [
    (b"x86_64", &x86_64::X86),
    (b"i386", &x86_64::X86),
    (b"aarch64", &aarch64::A64),
    (b"arm", &arm::A32),
    (b"riscv64", &riscv64::Riscv64),
];

/// The code of a target's guests; of one that is not known, code of which nothing is told.
pub fn of(target: &[u8]) -> &'static dyn Code {
    ALL.iter().find(|(name, _)| *name == target).map_or(&Unknown, |(_, code)| *code)
}

struct Unknown;

impl Code for Unknown {
    fn ends(&self, _: &[u8], _: &[u8]) -> (Ending, Option<i64>) {
        (Ending::Other, None)
    }
}
