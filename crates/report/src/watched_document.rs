//! The values of a guest variable at the entries of functions, as `show --json` lists them. `watched_text` makes the text
//! for a terminal.

use serde::{Deserialize, Serialize};
use timeline::{Reading, TimeBase, Watched};

/// The values of a variable. The recorder stopped the CPUs at the entries of functions and read it. Times are the
/// host's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct WatchedLine {
    /// The variable, as the user wrote it; empty if unknown.
    pub variable: String,
    /// The time that the CPUs stood still for it in all, at least. The time until the host noticed a stop is not in it.
    pub stood_ns: i64,
    /// True if that is part of the boot's times: the clock of a deterministic guest stands too.
    pub stood_in_total: bool,
    /// True if it has a sign: values are then its two's complement in 64 bits.
    #[serde(default)]
    pub signed: bool,
    /// The functions whose entries were watched and never reached.
    pub never_entered: Vec<String>,
    /// The value at each stop, in order of time.
    pub readings: Vec<ReadingLine>,
    /// Further remarks, in sentences.
    pub notes: Vec<String>,
}

/// The value of the variable at one stop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ReadingLine {
    pub at_ns: i64,
    /// The time that the CPUs stood still for it, at least.
    pub stood_ns: i64,
    /// The value, as a number without a sign; `null` if the guest had nothing mapped there.
    pub value: Option<u64>,
    /// The function that was entered.
    pub function: String,
}

impl WatchedLine {
    pub(crate) fn of(found: &Watched, time_base: TimeBase) -> WatchedLine {
        WatchedLine {
            variable: found.variable.clone(),
            stood_ns: found.stood().0,
            stood_in_total: time_base == TimeBase::Host,
            signed: found.is_signed,
            never_entered: found.unentered().map(str::to_owned).collect(),
            readings: found.readings.iter().map(ReadingLine::of).collect(),
            notes: found.notes.clone(),
        }
    }
}

impl ReadingLine {
    fn of(reading: &Reading) -> ReadingLine {
        ReadingLine {
            at_ns: reading.at.0,
            stood_ns: reading.stood.0,
            value: reading.value,
            function: reading.function.clone(),
        }
    }
}
