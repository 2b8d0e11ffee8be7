//! The binary records of a Linux kernel's trace, and the lines that the kernel prints of them in `/sys/kernel/tracing/trace`.
//!
//! The same records lie in a guest's memory, in a `trace.dat` and in a `perf.data`. What a page of a ring buffer has is in
//! [`page`]; [`Printer`] makes a line of a record. Where an event's fields are differs from one kernel to the next: whoever
//! has the records knows it, by the kernel's types or by its own descriptions of events ([`Fields`]).
//!
//! It does no I/O. It believes nothing of a record: fields that lie outside of it are empty.
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
    /// From the structure's start.
    pub offset: usize,
    /// How long it is; 0 for what goes on to the end of a record.
    pub bytes: usize,
}

/// Where the fields of a kernel's records are.
pub trait Fields {
    /// One that every record has: `type`, `flags`, `preempt_count`, `pid`.
    fn common(&self, field: &str) -> Option<Field>;

    /// One of an event's own. `structure` is what Linux calls its record, behind `trace_event_raw_`; several events may share it.
    /// The place of a text that lies elsewhere has the field `__data_loc_` and its name.
    fn own(&self, event: &str, structure: &str, field: &str) -> Option<Field>;
}
