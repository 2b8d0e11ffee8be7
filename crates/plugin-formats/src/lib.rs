//! The files of the QEMU plugin, each format written once: `first-run.bin` ([`first_executions`]), `calls.bin`
//! ([`calls`]) and `exits.bin` ([`exits`]).
//!
//! The plugin writes the records that the readers read. This
//! crate only converts records to bytes and back; the readers interpret them. It never allocates, because it runs in
//! the plugin's callbacks. It has no dependency, because the plugin is a separate object under another licence.
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)]

pub mod calls;
pub mod exits;
pub mod first_executions;
mod header;
mod number;

pub use header::{Clock, NotThisHeader, Start, target};
pub use number::{Broken, Bytes, Sink};
