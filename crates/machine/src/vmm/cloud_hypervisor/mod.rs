//! cloud-hypervisor.
//!
//! [`CloudHypervisor`] is the binary and its known properties. A machine is described and started through its API ([`super::api`]) on a
//! socket that it inherits ([`launch`]). Its event monitor reports the start and the end of the machine ([`events`]). Its log
//! contains the reason why a vCPU cannot go on ([`log`]).
//!
//! Guest RAM is a file of bootscope's ([`memory`]). cloud-hypervisor does not report a vCPU's position, and bootscope gives it no network.
//! Its debug console records writes to port 0xe9 but does not answer reads, so guest-init does not detect it.
//! [`unsupported_options`] refuses options that would need any of these.

mod events;
mod launch;
mod log;
mod memory;
mod program;
mod requests;
mod unsupported_options;

/// The name for messages to the user.
const NAME: &str = recording::VmmKind::CloudHypervisor.name();

pub(crate) use program::CloudHypervisor;
pub(crate) use unsupported_options::check;
