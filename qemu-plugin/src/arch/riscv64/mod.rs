//! riscv64: the code of a guest.

mod decoder;
mod stack;

use super::{Code, Stack};
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
}
