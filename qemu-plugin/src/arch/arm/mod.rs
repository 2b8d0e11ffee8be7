//! 32-bit ARM: the code of a guest.

mod decoder;

use super::Code;
use crate::ending::Ending;

/// A32.
pub struct A32;

impl Code for A32 {
    fn ends(&self, last: &[u8], _: &[u8]) -> (Ending, Option<i64>) {
        decoder::decode(last)
    }
}
