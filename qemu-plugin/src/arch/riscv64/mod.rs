//! riscv64: the code of a guest.

mod decoder;
mod stack;

use super::{Code, Exit, Stack};
use crate::ending::Ending;

/// RV64GC.
pub struct Riscv64;

impl Code for Riscv64 {
    fn ending(&self, last: &[u8], before: &[u8]) -> (Ending, Option<i64>) {
        decoder::decode(last, before)
    }

    fn stack(&self) -> Option<Stack> {
        Some(Stack::Effects(stack::effect))
    }

    fn exit(&self, insn: &[u8]) -> Option<Exit> {
        decoder::exit(insn)
    }

    fn is_clock_at(&self, address: u64) -> bool {
        decoder::is_clock_at(address)
    }
}
