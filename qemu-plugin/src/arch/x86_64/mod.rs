//! x86-64: the decoder of a guest's code, and the counter of a host.

pub mod counter;
mod decoder;

pub use decoder::{decode, is_far_call, lacks_target, repeats, writes_port};
