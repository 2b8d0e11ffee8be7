//! 32-bit ARM machines: QEMU's `virt`, and boards.

pub mod entry;
pub mod port_io;
mod serial_port;
