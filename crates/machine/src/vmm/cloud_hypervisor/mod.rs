//! cloud-hypervisor.
//!
//! [`CloudHypervisor`] is the binary and what is known of it. A machine is described and started through its API ([`super::api`]) on a
//! socket that it inherits ([`launch`]). Its event monitor tells how the machine starts and ends ([`events`]), its log why a vCPU
//! cannot go on ([`log`]).
//!
//! It shows guest memory: guest RAM is a file of ours ([`memory`]). It tells nothing of where a vCPU stands, and bootscope gives it no
//! network. Its debug console takes what a guest writes to port 0xe9 and gives a read no answer, so guest-init sees nobody there.
//! [`asked`] refuses what would need any of them.

mod asked;
mod events;
mod launch;
mod log;
mod memory;
mod program;
mod requests;

/// What people call it.
const NAME: &str = recording::VmmKind::CloudHypervisor.name();

pub(crate) use asked::check;
pub(crate) use program::CloudHypervisor;
