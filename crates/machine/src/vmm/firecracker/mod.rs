//! Firecracker.
//!
//! [`Firecracker`] is the binary and its known properties. A machine is described and started through its API ([`super::api`]), on a
//! Unix socket that it makes ([`launch`]). A configuration file would need no socket. But the API reports which setting is refused and
//! why, and sets the machine up before the vCPUs start.
//!
//! Its one serial port is its standard output. It gives bootscope no access to guest memory, reports no vCPU's position, and has no
//! device for messages that works without a driver. [`unsupported_options`] refuses options that would need any of these. Its log goes
//! into a pipe, and contains the steps of the set-up ([`log`]).

mod launch;
mod log;
mod program;
mod requests;
mod unsupported_options;

/// The name for messages to the user.
const NAME: &str = recording::VmmKind::Firecracker.name();

pub(crate) use program::Firecracker;
pub(crate) use unsupported_options::check;
