//! Many boots instead of one: how long, how sure, and whether a change helped.
//!
//! [`run`] follows a [`Plan`]: warm-up, rounds in random order, and when it is enough; [`Journal`] keeps each boot the
//! moment it is over; [`Document`] is all of it and what [`stats`] say of it. This crate boots nothing itself (a boot is
//! its caller's, through [`Boots`]) and knows nothing of how a result looks.
#![forbid(unsafe_code)]

pub mod budgets;
mod dither;
mod document;
mod figures;
mod head;
pub mod history;
mod journal;
mod likely;
pub mod metrics;
mod overhead;
pub mod range;
mod results;
mod runs;
mod samples;
mod scaling;
pub mod stats;

pub use dither::dithered;
pub use document::Document;
pub use head::{Booted, Head, Host, InputFile, SCHEMA, Setting, Side, Variant};
pub use history::{History, HistoryError};
pub use journal::{Journal, JournalError, Journaled, read};
pub use likely::{Likely, Moved};
pub use metrics::{METRICS, Metric, PerMetric, Values};
pub use overhead::overhead;
pub use results::{Against, PhaseRuns, Results, RowRuns, Test, VariantRuns, results, rounds_least};
pub use runs::{Boot, Boots, Ended, Finished, Measured, PhaseTime, Plan, Stop, Turn, follow, resume, run};
pub use scaling::{Point, Predicted, RowScaling, Slice, TOTAL, ToldBy};
pub use stats::scaling_model::ScalingModel;
