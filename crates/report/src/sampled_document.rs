//! The samples of the CPUs, as `show --json` lists them. `sampled` makes the text for a terminal.

use crate::MAX_LISTED;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use timeline::{Names, Sampled, SampledEvent, SampledFunction, SampledOn, SampledTrack};

/// The samples of the CPUs. All shares are of the samples, and have an error.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SampledLines {
    /// The number of samples, of all events.
    pub samples: u64,
    /// The number of lost samples; `null` if unknown.
    pub lost: Option<u64>,
    /// The start of sampling on the samples' clock; the time before is not covered. `null` if unknown.
    pub began_ns: Option<i64>,
    /// The number of CPUs without a sample, according to the evidence.
    #[serde(default)]
    pub unsampled_cpus: u64,
    /// The length of a sampling interval; `null` if unknown.
    #[serde(default)]
    pub period_ns: Option<i64>,
    /// The number of intervals that passed while their CPU was sampled, summed over CPUs. `null` if the length of an
    /// interval or the start is unknown.
    #[serde(default)]
    pub intervals: Option<u64>,
    /// The number of intervals without a sample, because nothing interrupted the CPU. They are not in `lost`.
    #[serde(default)]
    pub empty_intervals: Option<u64>,
    /// Each event, the one with most samples first. Two events must not be added up.
    pub events: Vec<SampledEventLines>,
}

/// The samples of one event.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SampledEventLines {
    /// The event that triggered the samples.
    pub name: String,
    pub samples: u64,
    /// The number of samples of equal weight that say as much. Errors are computed for this number.
    pub effective_samples: f64,
    /// True if a sample's weight is its period; otherwise all weights are equal.
    pub by_period: bool,
    /// The number of samples in user code; `null` if it is not known of every sample.
    pub user: Option<u64>,
    /// Each function, those on most sampled stacks first.
    pub functions: Vec<SampledLine>,
    /// Each thread and each CPU with samples, and each program with several threads, the one with the largest share first.
    pub tracks: Vec<SampledTrackLine>,
}

/// A sampled function.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SampledLine {
    pub name: String,
    /// The share of the event with the function running.
    pub self_share: f64,
    /// The share of the event with the function on the stack.
    pub total_share: f64,
    /// One standard error of `self_share`, from the binomial distribution.
    pub self_error: f64,
    /// One standard error of `total_share`.
    pub total_error: f64,
}

/// The kind of a sampled track.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SampledOnKind {
    /// A thread, on any CPU.
    #[default]
    Thread,
    /// All threads of one name.
    Program,
    /// A CPU, with any thread.
    Cpu,
}

/// The samples of one thread, program or CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SampledTrackLine {
    /// `thread`, `program` or `cpu`.
    pub kind: SampledOnKind,
    /// The name of the thread, the program or the CPU.
    pub name: String,
    /// The number of the thread or the CPU; of a program, how many threads had this name.
    pub id: u64,
    /// The number of samples.
    pub samples: u64,
    /// Their share of the event.
    pub share: f64,
    /// One standard error of `share`.
    pub error: f64,
    /// The time of the first of them, on the samples' clock; `null` if they have no times.
    pub first_ns: Option<i64>,
    /// The time of the last of them.
    pub last_ns: Option<i64>,
}

impl SampledLines {
    pub(crate) fn of(sampled: &Sampled, names: &Names) -> SampledLines {
        let intervals = sampled.intervals();
        SampledLines {
            samples: sampled.samples().len() as u64,
            lost: sampled.lost,
            began_ns: sampled.began.map(|began| began.0),
            unsampled_cpus: sampled.unsampled_cpus,
            period_ns: sampled.period.map(|period| period.0),
            intervals: intervals.map(|intervals| intervals.passed),
            empty_intervals: intervals.map(|intervals| intervals.empty),
            events: sampled.events().iter().map(|event| SampledEventLines::of(event, names)).collect(),
        }
    }
}

impl SampledEventLines {
    fn of(event: &SampledEvent, names: &Names) -> SampledEventLines {
        let mut functions = event.functions();
        functions.sort_by_key(|f| (Reverse((f.total.weight, f.own.weight)), names.get(f.name)));
        let line = |f: SampledFunction| SampledLine {
            name: names.get(f.name).to_owned(),
            self_share: event.share(f.own),
            total_share: event.share(f.total),
            self_error: event.error(f.own),
            total_error: event.error(f.total),
        };
        let mut tracks = event.tracks();
        tracks.sort_by_key(|track| (Reverse(track.part.weight), track.on));
        let track = |SampledTrack { on, part, within }| {
            let (kind, name, id) = match on {
                SampledOn::Thread(thread) => (SampledOnKind::Thread, names.get(thread.name).to_owned(), thread.tid),
                SampledOn::Program { name, threads } => (SampledOnKind::Program, names.get(name).to_owned(), threads),
                SampledOn::Cpu(cpu) => (SampledOnKind::Cpu, format!("CPU {cpu}"), cpu),
            };
            SampledTrackLine {
                kind,
                name,
                id,
                samples: part.samples,
                share: event.share(part),
                error: event.error(part),
                first_ns: within.map(|(first, _)| first.0),
                last_ns: within.map(|(_, last)| last.0),
            }
        };
        SampledEventLines {
            name: names.get(event.name).to_owned(),
            samples: event.all.samples,
            effective_samples: event.effective_samples(),
            by_period: event.has_periods,
            user: event.user,
            functions: functions.into_iter().take(MAX_LISTED).map(line).collect(),
            tracks: tracks.into_iter().take(MAX_LISTED).map(track).collect(),
        }
    }
}
