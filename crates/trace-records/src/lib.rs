//! The binary records of a Linux kernel's trace, and the kernel's text form of them in `/sys/kernel/tracing/trace`.
//!
//! The same records lie in a guest's memory, in a `trace.dat` and in a `perf.data`. [`page`] splits a page of a ring
//! buffer into records; a [`Printer`] formats a record as a line. The places of an event's fields differ between
//! kernels. The caller supplies them as [`Fields`], from the kernel's types or from its descriptions of events.
//!
//! It does no I/O, and it does not trust a record: fields outside of it are empty.
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)]

mod names;
pub mod page;
mod print;

pub use names::Names;
pub use print::{Forms, Printer, Stamps};

/// A part of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Offset from the structure's start.
    pub offset: usize,
    /// Length; 0 for a field that extends to the end of a record.
    pub bytes: usize,
}

/// The places of the fields of a kernel's records.
pub trait Fields {
    /// A field that every record has: `type`, `flags`, `preempt_count`, `pid`.
    fn common(&self, field: &str) -> Option<Field>;

    /// A field of one event. `structure` is Linux' name of its record, after `trace_event_raw_`; several events may
    /// share it. For a text outside the fixed part, `field` is `__data_loc_` and the text's name.
    fn own(&self, event: &str, structure: &str, field: &str) -> Option<Field>;
}
