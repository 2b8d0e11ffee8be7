//! x86-64, and what it began as: the code of a guest, and the counter of a host.

mod beginning;
pub mod counter;
mod decoder;

use super::{Code, Stack};
use crate::ending::Ending;

/// Code of 16, 32 and 64 bits.
pub struct X86;

impl Code for X86 {
    fn ends(&self, last: &[u8], _: &[u8]) -> (Ending, Option<i64>) {
        decoder::decode(last)
    }

    fn stack(&self) -> Option<Stack> {
        Some(Stack::Accesses)
    }

    fn begins_function(&self, start: u64, first: &[u8], second: &[u8]) -> bool {
        beginning::is_of_function(start, first, second)
    }

    fn lacks_target(&self, insn: &[u8]) -> bool {
        decoder::lacks_target(insn)
    }

    fn is_far_call(&self, insn: &[u8]) -> bool {
        decoder::is_far_call(insn)
    }

    fn repeats(&self, insn: &[u8]) -> bool {
        decoder::repeats(insn)
    }

    fn writes_port(&self, insn: &[u8]) -> bool {
        decoder::writes_port(insn)
    }
}
