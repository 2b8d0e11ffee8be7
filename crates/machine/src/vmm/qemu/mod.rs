//! QEMU.
//!
//! [`Qemu`] is the binary and what is known of it; it starts machines ([`launch`]) whose command line is made in
//! [`arguments`], and which are watched through what they inherit: pipes, the monitor's socket ([`monitor`]), a file that
//! is guest RAM. Its answers are text, and [`replies`] reads it.

mod arguments;
mod escape;
pub(in crate::vmm) mod launch;
mod linker;
mod monitor;
mod mtree;
pub(in crate::vmm) mod program;
mod refused;
mod replies;
mod root_device;
mod set_up;

/// What people call it.
const NAME: &str = recording::VmmKind::Qemu.name();

pub use mtree::{MtreeError, ram_extents};
pub(crate) use program::Qemu;
