//! What process 1 of a Linux guest and the host agree on, and the host's half of it.
//!
//! The binary of this package is process 1: it says that the kernel has handed over, gathers the kernel's evidence and
//! carries it to the host. This library holds what both sides must know, as pure and safe functions:
//!
//! - [`messages`]: the lines that process 1 sends on port 0xe9; [`port`]: finds them, and files sent by that port, in what the host heard;
//! - [`round`]: how files lie in the guest's memory while the host takes them; [`delivery`]: taking and checking them;
//! - [`files`]: which files there are; [`config`]: what the host asks for; [`cpio`]: the archive that starts it all.
//!
//! A guest is not trusted: everything it says is bounded and checked before it is used, and nothing here panics on it.
//! This library does no I/O of its own (memory is read and files are written through what the caller hands in) and
//! knows nothing of how the machine was started.

#![forbid(unsafe_code)]

pub mod config;
pub mod cpio;
pub mod delivery;
pub mod files;
pub mod messages;
pub mod port;
pub mod round;
