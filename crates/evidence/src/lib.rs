//! Readers of evidence: bytes that a boot left behind become records, and records become a timeline.
//!
//! * `input`: files, lines and numbers.
//! * `formats`: one module per format, each of the same shape: notes on the format, a `read` that takes the file's name (for places
//!   in diagnostics) and its bytes, and typed records. It does no I/O, panics on nothing, and drops nothing silently: what it could not
//!   use is counted in [`timeline::Diagnostics`]. `Err` means one thing only: this is not that format ([`NotThisFormat`]).
//! * `boot`: what is found in files, and what the passes make of it.
//! * `readers`: the files that each format takes, and the place of its records on the timeline.
//! * `assemble`: a recording's files to their readers, clocks, and the passes.
//!
//! Each imports only from those above it.
//!
//! The format of a file follows from its content ([`detect`]), never from its name.
#![forbid(unsafe_code)]
#![warn(unreachable_pub)]
#![warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)]

mod assemble;
mod boot;
mod formats;
mod input;
mod readers;

pub use assemble::booted::booted;
pub use assemble::detect;
pub use assemble::files::{Console, Recognised, console, recognise, tslog_log};
pub use assemble::meminfo::{GuestMemory, meminfo, meminfo_after_workload};
pub use assemble::merge::{Loaded, load, read, read_by_calls};
pub use assemble::reader_table::Format;
pub use boot::followed::Followed;
pub use boot::regions;
pub use boot::subject::Subject;
pub use formats::{
    bootchart, bootstage, calls, cbmem, efi_loader, exits, firmware, first_executions, fpdt, ftrace, function_graph,
    guest_messages, guestfs, initcalls, journal, kernel_log, perf_data, perf_script, perfetto, process_table, silence,
    symbols, systemd_analyze, trace_dat, tslog, uftrace, watched,
};
pub use input::{UNPACKED_BYTES_MAX, index};
pub use readers::calls::{BootCalls, contexts, profile};
pub use readers::first_executions::first_calls;

/// The bytes are not of the format that the reader is for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: this is not {expected}: {found}")]
pub struct NotThisFormat {
    /// The file's name.
    pub file: String,
    /// The format that the reader reads, in words.
    pub expected: &'static str,
    /// The content that it found instead.
    pub found: String,
}
