//! Where the CPUs were while the console was silent, as `show --json` has it. `silences` makes the text for a terminal.

use serde::{Deserialize, Serialize};
use timeline::{MostlyAt, Silence, Silences, StoppedIn, TimeBase};

/// Where the CPUs were while the console was silent: they were stopped there and looked at. Times are the host's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SilencesLine {
    /// How long the console had to be silent.
    pub after_ns: i64,
    /// How long the CPUs stood still for it in all, at most.
    pub stood_ns: i64,
    /// Whether that is part of the boot's times: the clock of a deterministic guest stands with it.
    pub stood_in_total: bool,
    /// The silences, in order of time.
    pub silences: Vec<SilenceLine>,
    /// What named the functions, in sentences; or why something did not.
    pub names: Vec<String>,
    /// What else is to be known, in sentences.
    pub notes: Vec<String>,
}

/// One silence.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SilenceLine {
    /// From when.
    pub start_ns: i64,
    /// Until when.
    pub end_ns: i64,
    /// How often the CPUs were stopped and read in it.
    pub stops: u64,
    /// How long they stood still for that, at most, also where they could not be read.
    pub stood_ns: i64,
    /// Where they were.
    #[serde(rename = "where")]
    pub wheres: Vec<SilentWhere>,
}

/// Where CPUs were in most stops of a silence.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SilentWhere {
    /// The CPUs of which this is true.
    pub cpus: Vec<u64>,
    /// How many stops saw each of them.
    pub stops: u64,
    /// What ran on them.
    pub ran: SilentIn,
    /// Whether callers are a guess: what on the stack looks like return addresses.
    pub guessed: bool,
    /// The functions that more than half of the stops found on the stack, innermost first; empty where they differ.
    pub stack: Vec<SilentEntry>,
    /// What each stop found on the first of these CPUs.
    pub moments: Vec<SilentMoment>,
}

/// What ran on a silent CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SilentIn {
    /// A kernel.
    #[default]
    Kernel,
    /// A process.
    User,
    /// Firmware or a loader.
    Boot,
}

/// What one stop found on a silent CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SilentMoment {
    /// When.
    pub at_ns: i64,
    /// The function that ran and its callers, innermost first.
    pub stack: Vec<String>,
}

/// A function on the stack of a silent CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SilentEntry {
    /// The function; the address where nothing names it.
    pub name: String,
    /// How many stops found it there.
    pub stops: u64,
}

impl SilencesLine {
    /// Of a boot.
    pub(crate) fn of(found: &Silences, time_base: TimeBase) -> SilencesLine {
        SilencesLine {
            after_ns: found.after.0,
            stood_ns: found.stood().0,
            stood_in_total: time_base == TimeBase::Host,
            silences: found.silences.iter().map(SilenceLine::of).collect(),
            names: found.names.clone(),
            notes: found.notes.clone(),
        }
    }
}

impl SilenceLine {
    fn of(silence: &Silence) -> SilenceLine {
        SilenceLine {
            start_ns: silence.from.0,
            end_ns: silence.until.0,
            stops: silence.read_stops() as u64,
            stood_ns: silence.stood().0,
            wheres: silence.mostly_at().iter().map(|at| SilentWhere::of(at, silence)).collect(),
        }
    }
}

impl SilentWhere {
    fn of(at: &MostlyAt, silence: &Silence) -> SilentWhere {
        let moment = |stop: &timeline::Stop| {
            let cpu = stop.cpus.get(*at.cpus.first()?)?;
            Some(SilentMoment { at_ns: stop.at.0, stack: cpu.stack.clone() })
        };
        let entry = |(name, stops): &(String, usize)| SilentEntry { name: name.clone(), stops: *stops as u64 };
        SilentWhere {
            cpus: at.cpus.iter().map(|&cpu| cpu as u64).collect(),
            stops: at.stops as u64,
            ran: match at.ran {
                StoppedIn::Kernel => SilentIn::Kernel,
                StoppedIn::User => SilentIn::User,
                StoppedIn::Boot => SilentIn::Boot,
            },
            guessed: at.is_guess,
            stack: at.stack.iter().map(entry).collect(),
            moments: silence.stops.iter().filter_map(moment).collect(),
        }
    }
}
