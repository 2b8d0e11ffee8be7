//! Tests of the reference kernel in QEMU.

mod boots;
mod correctness;
mod experiments;
mod sampling;
mod support;
