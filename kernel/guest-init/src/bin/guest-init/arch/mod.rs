//! What process 1 needs of the architecture: its first instructions ([`entry`]), and the bytes that it sends to the host and the
//! cycle counter ([`port_io`]). What it says with these bytes is the same everywhere ([`Port`]).
//! `crates/machine/src/arch/README.md` lists what a new one has to give.

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
