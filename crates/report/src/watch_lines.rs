//! What a variable of the guest was where functions were entered, as `show --json` has it. `watched` makes the text for a
//! terminal.

use serde::{Deserialize, Serialize};
use timeline::{Reading, TimeBase, Watched};

/// What a variable was: the CPUs were stopped where functions were entered, and it was read. Times are the host's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct WatchedLine {
    /// The variable, as the user wrote it; empty where nothing says.
    pub variable: String,
    /// How long the CPUs stood still for it in all, at least: until the host heard of a stop, it stood too.
    pub stood_ns: i64,
    /// Whether that is part of the boot's times: the clock of a deterministic guest stands with it.
    pub stood_in_total: bool,
    /// Whether it has a sign: values are then its two's complement in 64 bits.
    #[serde(default)]
    pub signed: bool,
    /// The functions at whose entries it was to be read and that were never entered.
    pub never_entered: Vec<String>,
    /// Each stop, in order of time.
    pub readings: Vec<ReadingLine>,
    /// What else is to be known, in sentences.
    pub notes: Vec<String>,
}

/// A variable at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ReadingLine {
    /// When.
    pub at_ns: i64,
    /// How long the CPUs stood still for it, at least.
    pub stood_ns: i64,
    /// What it was, as a number without a sign; `null` where the guest had nothing mapped there.
    pub value: Option<u64>,
    /// The function that was entered.
    pub function: String,
}

impl WatchedLine {
    /// Of a boot.
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
