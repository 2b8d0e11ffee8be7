//! What a view shows beside the timeline: how the boot was run and what it used. The program fills it in.
//!
//! Unknown text is empty, an unknown number is 0 or `None`; a view then leaves it out.

use benchmark::Values;
use serde::{Deserialize, Serialize};

/// Everything about a boot that is not time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// What was booted.
    pub subject: Subject,
    /// How it ended, as one word (`reached`, `panic`, `hang`, …).
    pub outcome: String,
    /// The line, reason or message that shows the outcome.
    pub outcome_detail: String,
    /// What was measured beside the time.
    pub metrics: Values,
    /// What recording costs on this machine, as last measured.
    pub overhead: Option<Overhead>,
    /// How it was run, as the page lists it: label and text (`command line`, `host CPU`, `kernel sha256`, …).
    pub how: Vec<(String, String)>,
    /// What else a reader should know, in sentences.
    pub notes: Vec<String>,
}

/// What was booted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Subject {
    /// Operating system, such as `Linux`.
    pub os: String,
    /// Kernel release or file name.
    pub kernel: String,
    /// Machine type, such as `pc`.
    pub machine: String,
    /// `tcg`, `kvm`, or empty.
    pub accelerator: String,
    /// Virtual CPUs; 0 if unknown.
    pub cpus: u32,
    /// Guest memory in bytes; 0 if unknown.
    pub memory_bytes: u64,
}

/// What recording costs: recorded boot ÷ plain boot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Overhead {
    /// Ratio of medians.
    pub ratio: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end of its interval.
    pub high: f64,
    /// How it was measured.
    pub how: String,
}
