//! Boots of other architectures than the machine that runs the tests most often.

mod arm32;
mod arm64;
mod riscv64;
