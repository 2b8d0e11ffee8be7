//! riscv64: the decoder of a guest's code.

mod decoder;

pub use decoder::decode;
