//! The protocol between process 1 of a Linux guest and the host, and the host's half of it.
//!
//! The binary of this package is process 1. It reports that the kernel has handed over, gathers the kernel's evidence
//! and transfers it to the host. This library holds the parts that both sides need, as pure and safe functions:
//!
//! - [`messages`]: the lines that process 1 sends on port 0xe9; [`port`]: finds them, and files sent by that port, in
//!   the received bytes;
//! - [`round`]: the layout of files in the guest's memory while the host takes them; [`delivery`]: taking and checking
//!   them;
//! - [`files`]: the list of files; [`config`]: the host's configuration; [`cpio`]: the archive with process 1.
//!
//! A guest is not trusted: all its data is bounded and checked before it is used, and nothing here panics on it. This
//! library does no I/O itself: callers pass in functions to read memory and to write files. It does not depend on how
//! the machine was started.

#![forbid(unsafe_code)]

pub mod config;
pub mod cpio;
pub mod delivery;
pub mod files;
pub mod messages;
pub mod port;
pub mod round;
