//! QEMU.
//!
//! [`Qemu`] is the binary and its known properties. It starts machines ([`launch`]) with a command line from [`arguments`]. The recorder
//! watches them through inherited descriptors: pipes, the monitor's socket ([`monitor`]) and a file that holds guest RAM. [`replies`]
//! parses the monitor's answers, which are text.

mod arguments;
mod escape;
mod host_devices;
pub(in crate::vmm) mod launch;
mod linker;
mod machine_facts;
mod monitor;
mod mtree;
pub(in crate::vmm) mod program;
mod replies;
mod root_device;
mod set_up;
#[cfg(test)]
mod tests;

/// The name for messages to the user.
const NAME: &str = recording::VmmKind::Qemu.name();

pub use mtree::{MtreeError, ram_extents};
pub(crate) use program::Qemu;
