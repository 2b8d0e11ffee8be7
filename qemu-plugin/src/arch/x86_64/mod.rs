//! x86-64 and its predecessors: the code of a guest, and the counter of a host.

pub mod counter;
mod decoder;
mod function_start;

use super::{Code, Exit, Stack};
use crate::ending::Ending;

/// Code of 16, 32 and 64 bits.
pub struct X86;

impl Code for X86 {
    fn ending(&self, last: &[u8], _: &[u8]) -> (Ending, Option<i64>) {
        decoder::decode(last)
    }

    fn stack(&self) -> Option<Stack> {
        Some(Stack::Accesses)
    }

    fn begins_function(&self, start: u64, first: &[u8], second: &[u8]) -> bool {
        function_start::begins_function(start, first, second)
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

    fn exit(&self, insn: &[u8]) -> Option<Exit> {
        decoder::exit(insn)
    }

    fn is_clock_at(&self, address: u64) -> bool {
        decoder::is_clock_at(address)
    }
}
