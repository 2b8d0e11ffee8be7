//! riscv64 machines: QEMU's `virt`.

pub mod entry;
pub mod port_io;
