//! The readers of evidence, one for each format: the files that it takes, and the place of its records on the timeline.

pub(crate) mod android_words;
pub(crate) mod before_kernel;
pub(crate) mod bootchart;
pub mod calls;
pub mod first_executions;
pub(crate) mod ftrace;
pub(crate) mod guestfs;
pub(crate) mod journal;
pub(crate) mod kernel_log;
pub(crate) mod reader;
pub(crate) mod symbols;
pub(crate) mod systemd_analyze;
pub(crate) mod tslog;
