//! What a try is, beside a bench: its remedies, and what was claimed for each.

use crate::tree::Sources;
use findings::Change;
use serde::{Deserialize, Serialize};

/// What a try is, beside a bench.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Trial {
    /// The recording whose claims these are.
    pub recording: String,
    /// The remedies: the first is variant 1.
    pub remedies: Vec<Remedy>,
    /// Findings that no boot was made for.
    #[serde(default)]
    pub untried: Vec<Untried>,
    /// Whether it is the boot with all remedies that another try confirmed.
    #[serde(default)]
    pub together: bool,
    /// Whether every call was followed in the recording whose claims these are; none in a try of an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub followed: Option<bool>,
    /// What all of its kernels are built from; none if the guest's own kernel is booted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sources: Option<Sources>,
}

/// A remedy that is tried.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Remedy {
    /// The findings that it is for; none if the user thought of it.
    pub findings: Vec<Cause>,
    /// What it changes, as the findings say it.
    #[schemars(with = "Vec<serde_json::Value>")]
    pub changes: Vec<Change>,
    /// How much shorter the boot is said to become; none where nobody said.
    pub claimed: Option<Saved>,
    /// Options of the kernel's configuration that changed too: `-NAME` went, `+NAME` came, `NAME=m` has another value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub along: Vec<String>,
}

/// A finding, by what is the same in all boots.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Cause {
    /// The rule's name.
    pub rule: String,
    /// Who it is about.
    pub about: String,
    /// What it is, in a sentence.
    pub title: String,
}

/// A finding that cannot be tried.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Untried {
    /// Which.
    pub finding: Cause,
    /// Why.
    pub why: String,
}

/// How much shorter a boot becomes, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Saved {
    /// At the least.
    pub low_ns: f64,
    /// Most likely.
    pub likely_ns: f64,
    /// At the most.
    pub high_ns: f64,
}
