//! The document that a bench is, schema `bootscope.bench/1`: how it was run, every boot, and what they say.
//!
//! ```text
//! { "schema": "bootscope.bench/1", "tool_version": "0.1.0", "created": "2026-01-01T00:00:00Z",
//!   "plan":     {"variants": 2, "warm_ups": 1, "stop": {"rounds", "width", "budget_ns"}, "seed"},
//!   "variants": [{"name", "settings": [{"key", "value"}], "how": {…}, "booted": {"kernel", "inputs": […], …}}],
//!                                                the first is the baseline; `how` is in the recorder's own form
//!   "sweep":    [{"key": "cpus", "values": ["1", "2"]}],                        the grid's axes; empty without
//!   "deterministic": false, "dithered": false, "host_cpus_allowed": "0-3", "host": {"cpu", "cores", "kernel"},
//!   "ask":      {"margin": 0.05, "power": 0.9},
//!   "boots":    [{"number", "round", "variant", "began_ns", "outcome", "total_ns", "phases": [{"name", "ns"}],
//!                 "rows": [{"name", "ns"}], …}],
//!   "continued": [7],                   boots that were over when it went on after it had been cut off; left out without
//!   "ended":    "rounds" | "width" | "budget" | "interrupted" | {"never-reached": 1} | "error" | null (killed),
//!   "results":  {"variants": […], "comparisons": […], "laws": […]} }
//! ```
//! Raw samples first, so that anybody can test them again: `results` are computed from the rest, by [`crate::results`].
//! Fields are added, never renamed. Times are integers in ns; estimates and intervals are numbers in ns, ratios are bare.

use crate::head::Head;
use crate::results::{Results, results};
use crate::runs::{Boot, Ended};
use serde::{Deserialize, Serialize};

/// The document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Document {
    /// How it was run.
    #[serde(flatten)]
    pub head: Head,
    /// Every boot, in order of time.
    pub boots: Vec<Boot>,
    /// Why there are no more; none if the program was killed.
    pub ended: Option<Ended>,
    /// How many boots were over each time that the bench went on after it had been cut off.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub continued: Vec<u32>,
    /// What they say.
    pub results: Results,
}

impl Document {
    /// Computes the results.
    pub fn new(head: Head, boots: Vec<Boot>, ended: Option<Ended>) -> Document {
        let results = results(&head, &boots);
        Document { head, boots, ended, continued: Vec::new(), results }
    }
}
