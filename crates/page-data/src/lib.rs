//! The data of a boot in a page: the [format](Table) of its tables, and the [boot](Parts) read back from them.
//! [What-if](answer) then runs in a browser as it runs in the program.
//!
//! The crate is also compiled for WebAssembly. It must do no I/O, and without the feature `zlib` it neither packs nor
//! unpacks.
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)]

mod boot;
mod table;
mod what_if;

pub use boot::{Missing, Parts, can_run_again, phase_number};
pub use table::{Column, MAX_BYTES, Malformed, Table};
pub use what_if::{Less, answer, wrong};
