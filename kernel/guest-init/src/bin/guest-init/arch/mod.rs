//! The parts of process 1 that depend on the architecture: its first instructions ([`entry`]), and the output of bytes
//! to the host and the cycle counter ([`port_io`]). The messages in these bytes are the same on all architectures
//! ([`Port`]). `crates/machine/src/arch/README.md` lists what a new architecture must supply.

#[cfg(not(target_arch = "x86_64"))]
mod mark;
#[cfg(not(target_arch = "x86_64"))]
mod physical;
mod port;

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "arm")]
mod arm;
#[cfg(target_arch = "riscv64")]
mod riscv64;
#[cfg(not(target_arch = "x86_64"))]
mod virtio_console;
#[cfg(target_arch = "x86_64")]
mod x86_64;

pub use port::Port;

#[cfg(target_arch = "aarch64")]
pub use aarch64::{entry, port_io};
#[cfg(target_arch = "arm")]
pub use arm::{entry, port_io};
#[cfg(target_arch = "riscv64")]
pub use riscv64::{entry, port_io};
#[cfg(target_arch = "x86_64")]
pub use x86_64::{entry, port_io};
