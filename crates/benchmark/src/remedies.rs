//! The part of a bench's header that makes it a try: the remedies, and what was claimed for each.

use crate::tree::Sources;
use findings::Change;
use serde::{Deserialize, Serialize};

/// The remedies that a bench tries, and the recording that proposed them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Trial {
    /// The recording whose findings made the claims.
    pub recording: String,
    /// The remedies: the first is variant 1.
    pub remedies: Vec<Remedy>,
    /// Findings for which no boot was made.
    #[serde(default)]
    pub untried: Vec<Untried>,
    /// True if the bench boots with all remedies that another try confirmed, together.
    #[serde(default)]
    pub together: bool,
    /// True if the recording that made the claims followed every call. Missing in a try of an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub followed: Option<bool>,
    /// The sources from which all of its kernels are built. Missing if the guest's own kernel is booted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sources: Option<Sources>,
}

/// A remedy that is tried.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Remedy {
    /// The findings that it addresses. Empty if the user proposed it.
    pub findings: Vec<Cause>,
    /// The changes that it makes, as the findings describe them.
    #[schemars(with = "Vec<serde_json::Value>")]
    pub changes: Vec<Change>,
    /// The claimed saving. Null if there is no claim.
    pub claimed: Option<Saved>,
    /// Options of the kernel's configuration that changed with it: `-NAME` went off, `+NAME` came on, `NAME=m` has another value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub along: Vec<String>,
}

/// A finding, identified by what is the same in all boots.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Cause {
    /// Name of the rule.
    pub rule: String,
    /// The row, function or device that the finding is about.
    pub about: String,
    /// The finding in a sentence.
    pub title: String,
}

/// A finding that cannot be tried.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Untried {
    /// The finding, identified as in [`Remedy::findings`].
    pub finding: Cause,
    /// The reason.
    pub why: String,
}

/// Time that a boot becomes shorter by, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Saved {
    /// Lower bound.
    pub low_ns: f64,
    /// Most likely value.
    pub likely_ns: f64,
    /// Upper bound.
    pub high_ns: f64,
}
