//! The functions of a boot path, and those of a call trace, as `show --json` lists them.

use crate::Boot;
use analysis::{Row, RowKey, TrackNames};
use benchmark::is_zero;
use serde::{Deserialize, Serialize};
use timeline::Names;

/// A row of `functions`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FunctionLine {
    /// The function, or the kind of step (`initcall`).
    pub name: String,
    /// The one step (`acpi_init`); empty for a function.
    pub detail: String,
    /// Time in which it was innermost on the path.
    pub self_ns: i64,
    /// Time in which it was on the path at all.
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
    /// The number of its calls on the path.
    pub count: u64,
    /// True if only first calls have its time: its true time is at least this, and later calls are in its callers' rows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub first_calls_only: bool,
    /// The threads that ran it.
    pub tracks: TrackNames,
}

pub(crate) fn function_lines<'r>(boot: &Boot, rows: impl IntoIterator<Item = &'r Row>) -> Vec<FunctionLine> {
    let mut lines: Vec<FunctionLine> = rows.into_iter().map(|row| function_line(&boot.timeline.names, row)).collect();
    if let Some(priced) = &boot.priced {
        priced.add_to_functions(&mut lines);
    }
    lines
}

fn function_line(names: &Names, row: &Row) -> FunctionLine {
    let (name, detail) = match row.key {
        RowKey::Step(name, detail) => (names.get(name), names.get(detail)),
        RowKey::Other => (row.name.as_str(), ""),
    };
    FunctionLine {
        name: name.to_owned(),
        detail: detail.to_owned(),
        self_ns: row.self_time.0,
        total_ns: row.total_time.0,
        self_low_ns: None,
        self_high_ns: None,
        self_waited_ns: row.self_waited.0,
        total_waited_ns: row.total_waited.0,
        count: row.count,
        first_calls_only: row.first_calls_only,
        tracks: row.tracks.clone(),
    }
}

/// Figures of a recording with a call trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Calls {
    /// The number of recorded calls.
    pub count: u64,
    /// The share of returns that matched their call.
    pub matched: f64,
    /// The share of instructions in a known stack.
    pub owned: f64,
    /// Instructions up to the end mark.
    pub instructions: u64,
    /// Functions up to the end mark, those with the most self instructions first.
    #[serde(default)]
    pub functions: Vec<CallLine>,
}

/// A function of a recording with a call trace: all of its calls, on any path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CallLine {
    pub name: String,
    /// The number of its calls.
    pub calls: u64,
    /// Its own instructions.
    pub self_instructions: u64,
    /// Its instructions and those of its callees.
    pub total_instructions: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use timeline::NameId;

    /// The name of a wait for a softirq reads like the name and detail of its handler.
    #[test]
    fn a_function_is_split_into_its_name_and_detail() {
        let mut names = Names::default();
        let (softirq, rcu) = (names.intern("softirq"), names.intern("RCU"));
        names.intern("softirq RCU");
        let row = |key, name: &str| Row { key, name: name.to_owned(), ..Row::default() };
        let split = |row| {
            let line = function_line(&names, &row);
            (line.name, line.detail)
        };
        let pair = |name: &str, detail: &str| (name.to_owned(), detail.to_owned());
        assert_eq!(split(row(RowKey::Step(softirq, rcu), "softirq RCU")), pair("softirq", "RCU"));
        assert_eq!(split(row(RowKey::Step(softirq, NameId::EMPTY), "softirq")), pair("softirq", ""));
        assert_eq!(split(row(RowKey::Other, "after softirq RCU")), pair("after softirq RCU", ""));
    }
}
