//! Readers of evidence: bytes that a boot left behind become records, and records become a timeline.
//!
//! One module per format, each of the same shape: notes on the format, a `read` that takes the
//! file's name (for places in diagnostics) and its bytes, and typed records. A reader does no I/O,
//! panics on nothing, and drops nothing silently: what it could not use is counted in
//! [`timeline::Diagnostics`]. `Err` means one thing only: this is not that format
//! ([`NotThisFormat`]).
//!
//! Which format a file has is told by its content ([`detect`]), never by its name.
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)]

mod android_words;
mod arch;
mod archive;
mod before_kernel;
mod boot;
pub mod bootchart;
mod booted;
pub mod bootstage;
pub mod bootstat;
pub mod boottimes;
mod bytes;
pub mod calls;
pub mod cbmem;
mod clocks;
mod condition;
pub mod detect;
pub mod efi_loader;
mod files;
pub mod firmware;
pub mod first_executions;
pub mod fpdt;
pub mod ftrace;
pub mod function_graph;
mod gaps;
pub mod guest_messages;
pub mod guestfs;
pub mod index;
pub mod initcalls;
mod input;
pub mod journal;
pub mod kernel_log;
mod kernel_release;
mod linux;
mod meminfo;
mod merge;
mod offers;
pub mod perf_data;
pub mod perf_script;
mod plugin_header;
mod ports;
pub mod process_table;
mod reader;
mod readers;
mod shared;
pub mod silence;
mod subject;
pub mod systemd_analyze;
mod systemd_words;
mod text;
pub mod trace_dat;
pub mod tslog;
pub mod uftrace;
mod vmm;
pub mod watched;

pub use booted::booted;
pub use files::{Console, Recognised, console, recognise, tslog_log};
pub use input::UNPACKED_BYTES_MAX;
pub use kernel_release::kernel_release;
pub use meminfo::{GuestMemory, meminfo, meminfo_after_workload};
pub use merge::{Loaded, load, read, read_by_calls};
pub use readers::Format;
pub use subject::Subject;

/// The bytes are not of the format that the reader is for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: this is not {expected}: {found}")]
pub struct NotThisFormat {
    /// The file's name.
    pub file: String,
    /// What the reader reads, in words.
    pub expected: &'static str,
    /// What it found instead.
    pub found: String,
}
