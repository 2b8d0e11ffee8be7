//! arm64: the code of a guest.

mod decoder;
mod stack;

use super::{Code, Exit, Stack};
use crate::ending::Ending;

pub struct A64;

impl Code for A64 {
    fn ending(&self, last: &[u8], _: &[u8]) -> (Ending, Option<i64>) {
        decoder::decode(last)
    }

    fn stack(&self) -> Option<Stack> {
        Some(Stack::Effects(stack::effect))
    }

    fn begins_function(&self, _: u64, first: &[u8], second: &[u8]) -> bool {
        decoder::begins_function(first, second)
    }

    fn exit(&self, insn: &[u8]) -> Option<Exit> {
        decoder::exit(insn)
    }
}
