//! The document that a bench is, schema `bootscope.bench/1`: how it was run, every boot, and what they say.
//!
//! ```text
//! { "schema": "bootscope.bench/1", "tool_version": "0.1.0", "created": "2026-01-01T00:00:00Z",
//!   "plan":     {"variants": 2, "warm_ups": 1, "stop": {"rounds", "width", "budget_ns"}, "seed"},
//!   "variants": [{"name", "how": {…}}],          the first is the baseline; `how` is in the recorder's own form
//!   "deterministic": false, "host_cpus_allowed": "0-3",
//!   "ask":      {"margin": 0.05, "power": 0.9},
//!   "boots":    [{"number", "round", "variant", "began_ns", "outcome", "total_ns", "phases": [{"name", "ns"}], …}],
//!   "ended":    "rounds" | "width" | "budget" | "interrupted" | {"never-reached": 1} | "error" | null (killed),
//!   "results":  {"variants": […], "comparisons": […]} }
//! ```
//! Raw samples first, so that anybody can test them again: `results` are computed from the rest, by [`crate::results`].
//! Fields are added, never renamed. Times are integers in ns; estimates and intervals are numbers in ns, ratios are bare.

use crate::results::{Results, results};
use crate::runs::{Boot, Ended, Plan};
use crate::stats::verdict::Ask;
use serde::{Deserialize, Serialize};

/// What `schema` says.
pub const SCHEMA: &str = "bootscope.bench/1";

/// How a bench is run: all that is known before the first boot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// [`SCHEMA`].
    pub schema: String,
    /// Version of the bootscope that ran it.
    pub tool_version: String,
    /// When it began, RFC 3339, UTC.
    pub created: String,
    /// What was run.
    pub plan: Plan,
    /// The variants; the first is the baseline.
    pub variants: Vec<Variant>,
    /// Whether boots are deterministic and dithered, and times guest-virtual.
    pub deterministic: bool,
    /// The CPUs that the boots could run on, as Linux lists them; empty if unknown.
    #[serde(default)]
    pub host_cpus_allowed: String,
    /// What is asked of comparisons.
    pub ask: Ask,
}

/// One of the things that are compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Variant {
    /// What tells it from the others.
    pub name: String,
    /// How it is booted, in the recorder's own form.
    pub how: serde_json::Value,
}

/// The document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// How it was run.
    #[serde(flatten)]
    pub head: Head,
    /// Every boot, in order of time.
    pub boots: Vec<Boot>,
    /// Why there are no more; none if the program was killed.
    pub ended: Option<Ended>,
    /// What they say.
    pub results: Results,
}

impl Document {
    /// Computes the results.
    pub fn new(head: Head, boots: Vec<Boot>, ended: Option<Ended>) -> Document {
        let results = results(&head, &boots);
        Document { head, boots, ended, results }
    }
}
