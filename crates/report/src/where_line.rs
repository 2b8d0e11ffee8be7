//! A row of the boot path in documents. The analysis decides the rows; the views decide their look.

use crate::layout::cost;
use analysis::{Row, TrackNames};
use benchmark::is_zero;
use serde::{Deserialize, Serialize};
use timeline::Cost;

/// A row of `where`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct WhereLine {
    /// The owner of the time.
    pub name: String,
    /// Time charged to this row.
    pub self_ns: i64,
    /// Time in which it was active, including time that is charged to other rows.
    pub total_ns: i64,
    /// The timed waits in `self_ns`. In a deterministic boot, the rest is instructions.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub self_waited_ns: i64,
    /// The timed waits in `total_ns`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub total_waited_ns: i64,
    /// The ends of the range of `self_ns`, in a boot at the prices of a machine model; otherwise missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub self_low_ns: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub self_high_ns: Option<i64>,
    /// The number of times that it was active.
    pub count: u64,
    /// True if only first calls have its time: its true time is at least this, and later calls are in its callers' rows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub first_calls_only: bool,
    /// `self_ns` as a share of the view's whole.
    pub share: f64,
    /// The threads that ran it.
    pub tracks: TrackNames,
    /// Threads that had the CPU while it slept, most first. It may have waited for these: the evidence does not show
    /// since when it could have run.
    #[serde(default)]
    pub cpu_held: Vec<CpuHeldLine>,
}

/// A thread that had the CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CpuHeldLine {
    /// The thread's name.
    pub name: String,
    pub ns: i64,
}

impl WhereLine {
    /// The time charged to it, in its parts.
    pub(crate) fn self_cost(&self) -> Cost {
        cost(self.self_ns, self.self_waited_ns)
    }
}

impl From<Row> for WhereLine {
    /// The row of a table.
    fn from(row: Row) -> WhereLine {
        WhereLine {
            name: row.name,
            self_ns: row.self_time.0,
            total_ns: row.total_time.0,
            self_waited_ns: row.self_waited.0,
            total_waited_ns: row.total_waited.0,
            self_low_ns: None,
            self_high_ns: None,
            count: row.count,
            first_calls_only: row.first_calls_only,
            share: row.share,
            tracks: row.tracks,
            cpu_held: row.cpu_held.into_iter().map(|(name, time)| CpuHeldLine { name, ns: time.0 }).collect(),
        }
    }
}
