//! Everything that holds for one architecture only: a guest's code and its effect on the stack, and a host's counter.
//! `crates/machine/src/arch/README.md` lists what a new architecture must supply.

mod aarch64;
mod arm;
mod riscv64;
mod x86_64;

pub use x86_64::counter;

use crate::ending::Ending;
use plugin_formats::exits::Kind;

/// The code of one architecture's guests. An instruction is given as its bytes; the slice is empty if the guest's
/// memory has no bytes there.
pub trait Code: Sync {
    /// The ending of a block whose last instruction is `last`, and its target relative to the block's end, if that is
    /// fixed. `before` is the instruction before it, and empty if the block has only one. Some architectures make a far
    /// call of two instructions.
    fn ending(&self, last: &[u8], before: &[u8]) -> (Ending, Option<i64>);

    /// The source of the stack pointer at calls and returns; `None` if calls cannot be followed yet.
    fn stack(&self) -> Option<Stack> {
        None
    }

    /// True if code begins like a function, by its first two instructions. Only this separates a function that is only
    /// ever jumped to (a tail call) from the rest of its caller. So the test is strict: it accepts only instructions
    /// that compilers put at the start of functions and nowhere else.
    fn begins_function(&self, _start: u64, _first: &[u8], _second: &[u8]) -> bool {
        false
    }

    /// True if these are only the first bytes of a jump or a call, without its target.
    fn lacks_target(&self, _insn: &[u8]) -> bool {
        false
    }

    /// True for a call to another segment.
    fn is_far_call(&self, _insn: &[u8]) -> bool {
        false
    }

    /// True if the instruction repeats itself.
    fn repeats(&self, _insn: &[u8]) -> bool {
        false
    }

    /// True if the instruction writes to a port.
    fn writes_port(&self, _insn: &[u8]) -> bool {
        false
    }

    /// The access of an instruction that leaves the guest whenever it runs, or that reads a clock's register.
    fn exit(&self, _insn: &[u8]) -> Option<Exit> {
        None
    }

    /// True if a clock is at this physical address.
    fn is_clock_at(&self, _address: u64) -> bool {
        false
    }
}

/// The access of an instruction that leaves the guest by itself, not by an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    pub kind: Kind,
    /// The port, if the instruction has it.
    pub port: Option<u8>,
    /// True for an instruction that moves a string between a port and memory: it leaves the guest once for each element.
    pub is_string: bool,
    /// True if it reads a clock.
    pub is_clock: bool,
    /// True if user space has the same instruction for system calls.
    pub is_also_system_call: bool,
}

impl Exit {
    fn new(kind: Kind) -> Exit {
        let is_clock = kind == Kind::ClockRead;
        Exit { kind, port: None, is_string: false, is_clock, is_also_system_call: false }
    }
}

/// The source of the stack pointer at a call or a return. Version 1 of QEMU's interface has no registers.
#[derive(Clone, Copy)]
pub enum Stack {
    /// Both the call and the return access the stack.
    Accesses,
    /// Calls and returns do not access the stack: the return address is in a register. So the stack pointer is followed
    /// through all code, by the effect of each instruction.
    Effects(fn(&[u8]) -> Effect),
}

/// The effect of an instruction on the stack pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It does not change or use it.
    None,
    /// It adds this number of bytes to it.
    Moves(i64),
    /// It sets it to a value that is not in the instruction's bytes.
    Sets,
    /// It accesses memory `above` bytes above it, and then adds `moves` to it.
    Accesses {
        /// Offset of the address from the stack pointer.
        above: i64,
        /// Bytes added to the stack pointer.
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

/// The code of a target's guests; for an unknown target, code in which nothing can be decoded.
pub fn for_target(target: &[u8]) -> &'static dyn Code {
    ALL.iter().find(|(name, _)| *name == target).map_or(&Unknown, |(_, code)| *code)
}

struct Unknown;

impl Code for Unknown {
    fn ending(&self, _: &[u8], _: &[u8]) -> (Ending, Option<i64>) {
        (Ending::Other, None)
    }
}
