//! What is only true of one architecture: of a guest's, the decoder, which says how a block ends and what else of an
//! instruction changes how calls are followed; of a host's, its counter. `crates/machine/src/arch/README.md` lists what a new one has to give.

mod aarch64;
mod riscv64;
pub mod x86_64;

pub use x86_64::counter;

use crate::ending::Ending;

/// How a block ends whose last instruction has these bytes, and how far from its end it leads where that is fixed. The instruction
/// before, whose bytes come second, is none where the block has but one: some architectures make a far call of two.
pub type Decode = fn(&[u8], &[u8]) -> (Ending, Option<i64>);

/// What is known of guests that QEMU calls so.
pub struct Guest {
    target: &'static [u8],
    /// The decoder of its code.
    pub decode: Decode,
    /// Whether its calls can be followed: an access to the stack of each call and return is what tells the stack pointer.
    pub is_followed: bool,
}

static ALL: [Guest; 4] = [
    Guest { target: b"x86_64", decode: |last, _| x86_64::decode(last), is_followed: true },
    Guest { target: b"i386", decode: |last, _| x86_64::decode(last), is_followed: true },
    Guest { target: b"aarch64", decode: |last, _| aarch64::decode(last), is_followed: false },
    Guest { target: b"riscv64", decode: riscv64::decode, is_followed: false },
];

/// What is known of a target's guests.
pub fn of(target: &[u8]) -> Option<&'static Guest> {
    ALL.iter().find(|guest| guest.target == target)
}

/// Says nothing of any block.
pub fn unknown(_: &[u8], _: &[u8]) -> (Ending, Option<i64>) {
    (Ending::Other, None)
}
