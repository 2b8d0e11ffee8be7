//! What a page carries of a boot: the [format](Table) of its parts, and the [boot](Parts) read back from them, so that
//! [what-if](answer) runs in a browser as it runs in the program.
//!
//! It is compiled for WebAssembly too: so it does no I/O, and without the feature `zlib` it neither packs nor unpacks.
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)]

mod boot;
mod table;
mod what_if;

pub use boot::{Missing, Parts, can_run_again, phase_number};
pub use table::{Column, MOST_BYTES, Malformed, Table};
pub use what_if::{Less, answer, wrong};
