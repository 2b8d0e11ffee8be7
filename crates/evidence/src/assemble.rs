//! A recording becomes a timeline: its files are given to their readers, clocks are joined, and evidence is placed in passes.

mod alone;
pub(crate) mod archive;
pub(crate) mod booted;
pub(crate) mod clocks;
pub(crate) mod condition;
pub mod detect;
pub(crate) mod files;
pub(crate) mod gaps;
pub(crate) mod kernel_release;
pub(crate) mod meminfo;
pub(crate) mod merge;
pub(crate) mod reader_table;
