//! The places of the CPUs while the console was silent, as `show --json` lists them. `silences_text` makes the text for a
//! terminal.

use serde::{Deserialize, Serialize};
use timeline::{MostlyAt, Silence, Silences, StoppedIn, TimeBase};

/// The places of the CPUs while the console was silent. The recorder stopped the CPUs and read their stacks. Times are
/// the host's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SilencesLine {
    /// The shortest silence that was examined.
    pub after_ns: i64,
    /// The time that the CPUs stood still for it in all, at most.
    pub stood_ns: i64,
    /// True if that is part of the boot's times: the clock of a deterministic guest stands too.
    pub stood_in_total: bool,
    /// The silences, in order of time.
    pub silences: Vec<SilenceLine>,
    /// The sources of the functions' names, in sentences; or the reason why a source could not be used.
    pub names: Vec<String>,
    /// Further remarks, in sentences.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SilenceLine {
    pub start_ns: i64,
    pub end_ns: i64,
    /// The number of stops in it at which the CPUs were read.
    pub stops: u64,
    /// The time that the CPUs stood still for that, at most, including stops that could not be read.
    pub stood_ns: i64,
    /// The places of the CPUs.
    #[serde(rename = "where")]
    pub wheres: Vec<SilentWhere>,
}

/// The place of one or more CPUs in most stops of a silence.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SilentWhere {
    /// The CPUs at this place.
    pub cpus: Vec<u64>,
    /// The number of stops that saw each of them.
    pub stops: u64,
    /// The kind of code that ran on them.
    pub ran: SilentIn,
    /// True if callers are a guess: values on the stack that look like return addresses.
    pub guessed: bool,
    /// The functions on the stack in more than half of the stops, innermost first; empty if the stacks differ.
    pub stack: Vec<SilentEntry>,
    /// The stack of the first of these CPUs at each stop.
    pub moments: Vec<SilentMoment>,
}

/// The kind of code on a silent CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SilentIn {
    #[default]
    Kernel,
    /// A process.
    User,
    /// Firmware or a loader.
    Boot,
}

/// The stack of a silent CPU at one stop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SilentMoment {
    pub at_ns: i64,
    /// The function that ran and its callers, innermost first.
    pub stack: Vec<String>,
}

/// A function on the stack of a silent CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SilentEntry {
    /// The function, or its address if it has no name.
    pub name: String,
    /// The number of stops that found it there.
    pub stops: u64,
}

impl SilencesLine {
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
