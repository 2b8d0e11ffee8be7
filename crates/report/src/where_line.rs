//! A row of the boot path as documents have it. Which rows there are is the analysis' to say, how they look the views'.

use analysis::Row;
use serde::{Deserialize, Serialize};

/// A row of `where`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct WhereLine {
    /// What took the time.
    pub name: String,
    /// Time charged to this row.
    pub self_ns: i64,
    /// Time during which it was under way, also what other rows are charged for.
    pub total_ns: i64,
    /// How often it was.
    pub count: u64,
    /// `self_ns` as a share of the view's whole.
    pub share: f64,
    /// The threads that did it.
    pub tracks: Vec<String>,
    /// Threads that had the CPU while it slept, most first, where nothing says since when it could have run: it may have
    /// waited for these.
    #[serde(default)]
    pub cpu_held: Vec<CpuHeldLine>,
}

/// A thread that had the CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CpuHeldLine {
    /// What it is called.
    pub name: String,
    /// For how long.
    pub ns: i64,
}

impl WhereLine {
    /// The row of a table.
    pub(crate) fn of(row: &Row) -> WhereLine {
        WhereLine {
            name: row.name.clone(),
            self_ns: row.self_time.0,
            total_ns: row.total_time.0,
            count: row.count,
            share: row.share,
            tracks: row.tracks.clone(),
            cpu_held: row.cpu_held.iter().map(|(name, time)| CpuHeldLine { name: name.clone(), ns: time.0 }).collect(),
        }
    }
}
