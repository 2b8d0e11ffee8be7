//! Benches: many boots, their statistics, and the verdict on whether a change helped.
//!
//! [`run`] follows a [`Plan`]: warm-up boots, then rounds in random order, until a condition to stop holds. [`Journal`] writes
//! each boot to disk as soon as it ends. [`Document`] has all boots and the results that [`statistics`] computes from them.
//! This crate starts no machine: its caller boots, through [`Boots`]. It prints nothing: `report` does.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

pub mod budgets;
mod did_you_mean;
mod dither;
mod document;
mod figures;
pub mod fit;
mod head;
pub mod history;
mod journal;
mod likely_rows;
mod looks;
pub mod metrics;
mod overhead;
mod process_group;
pub mod range;
mod remedies;
mod results;
mod runs;
mod samples;
mod scaling;
pub mod tree;
pub mod trial;
mod uncountable;
pub mod variants;

pub use dither::dithered;
pub use document::{Document, NotPassed};
pub use head::{Axis, Booted, Head, Host, InputFile, SCHEMA, Setting, Variant};
pub use history::{History, HistoryError};
pub use journal::{JOURNAL, Journal, JournalError, Journaled, later_schema, read};
pub use likely_rows::{Likely, Moved};
pub use looks::{Test, looks, rounds_least};
pub use metrics::{METRICS, Metric, PerMetric, Values};
pub use overhead::overhead;
pub use results::{Against, NotComparable, PhaseRuns, Results, RowRuns, VariantRuns, results};
pub use runs::{Boot, Boots, Ended, Finished, Measured, PhaseTime, Plan, Stop, Turn, follow, is_zero, resume, run};
pub use scaling::{AxisScaling, GrowthTest, Point, Predicted, RowScaling, TOTAL};
pub use statistics::scaling_model::ScalingModel;
pub use statistics::verdict::Ask;

/// Bytes in hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
