//! PCs with x86-64 CPUs.

pub mod entry;
pub mod port_io;
