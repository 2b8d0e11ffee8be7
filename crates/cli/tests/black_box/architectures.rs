//! Boots of other architectures than that of the usual test machine.

mod arm32;
mod arm64;
mod riscv64;
