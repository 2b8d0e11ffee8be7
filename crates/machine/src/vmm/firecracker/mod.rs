//! Firecracker.
//!
//! [`Firecracker`] is the binary and what is known of it. A machine is described and started through its API ([`super::api`]), a Unix socket
//! that it is told to make ([`launch`]). A configuration file would do without the socket. The API says instead which setting is
//! refused and why, and what is set up has been set up before the vCPUs are started.
//!
//! Its one serial port is its standard output. It shows no guest memory, has no monitor that tells where a vCPU stands, and gives a
//! guest no way for messages that needs no driver: [`asked`] refuses what would need any of them. What it logs goes into a pipe, and
//! tells when it had set up what ([`log`]).

mod asked;
mod launch;
mod log;
mod program;
mod requests;

/// What people call it.
const NAME: &str = recording::VmmKind::Firecracker.name();

pub(crate) use asked::check;
pub(crate) use program::Firecracker;
