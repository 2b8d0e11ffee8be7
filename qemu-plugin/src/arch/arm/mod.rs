//! 32-bit ARM: the code of a guest.

mod decoder;

use super::Code;
use crate::ending::Ending;

pub struct A32;

impl Code for A32 {
    fn ending(&self, last: &[u8], _: &[u8]) -> (Ending, Option<i64>) {
        decoder::decode(last)
    }
}
