//! The `show --json` document, schema `bootscope.show/1`: wire structs, apart from the model's types.
//!
//! Fields are added, never renamed or removed. Times are integers of nanoseconds in fields that end in
//! `_ns`; shares and ratios are fractions; what is unknown is `null`, an empty string, or 0. Text is as
//! the evidence has it: whoever shows it makes it harmless.
//!
//! `show.example.json`, beside this file, is a whole document; a test parses it.

use crate::sources::{end_evidence, rate_source};
use crate::text::amount;
use crate::user_space;
use crate::{
    Boot, DiagnosticLine, Facts, Finding, FoundLine, LISTED_MAX, Overhead, ProcessLine, SilencesLine, Subject,
    UnitLine, WarningLine, WatchedLine, WhereLine,
};
use analysis::{Row, RowKey};
use benchmark::{METRICS, Values};
use recording::OutcomeKind;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use timeline::{
    DiagnosticKind, Diagnostics, EndEvidence, MilestoneKind, NameId, Names, Ns, Os, Sampled, SampledEvent,
    SampledFunction, SampledOn, SampledTrack, TimeBase, Timeline, Unit,
};

/// The name and version of the document.
pub const SCHEMA: &str = "bootscope.show/1";

/// The whole document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Summary {
    /// [`SCHEMA`].
    pub schema: String,
    /// How the boot ended: `reached`, `panic`, `reset`, `power-off`, `hang`, `timeout`, `interrupted`, `vmm-failed`,
    /// `unpatched` (a change to the guest's code could not be made), `unit-failed` (the unit that was waited for),
    /// `line-lost` (the serial line to a board), `running` (the recorder is at work or was killed), `imported`, `unknown` (the manifest does not say).
    pub outcome: String,
    /// The line, reason or message that shows the outcome.
    pub outcome_detail: String,
    /// `host`, `guest-virtual` or `evidence`.
    pub time_base: String,
    /// What was booted.
    pub subject: Subject,
    /// What the numbers of all fields in `_ns` count: `ns`, or `ticks` where nobody knows how fast the counter runs.
    #[serde(default = "nanoseconds")]
    pub unit: String,
    /// What a reader must know first, in sentences: that the evidence ends too early, that times are ticks.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// The same in the same order, each with its name for programs.
    #[serde(default)]
    pub warning_lines: Vec<WarningLine>,
    /// From time zero to the end mark.
    pub total_ns: i64,
    /// The end mark; `null` where there is none: the total then ends with the last evidence.
    pub end: Option<EndLine>,
    /// Share of the boot path that is charged to steps (the VMM's, too), functions, threads and messages. The rest is charged
    /// to whole phases.
    pub explained: f64,
    /// Whether the evidence shows which thread ran and which waited for whom.
    pub scheduler_evidence: bool,
    /// Whether the evidence shows what threads waited for and who held that. With neither no blame is moved.
    #[serde(default)]
    pub hold_evidence: bool,
    /// Whether any wait of the boot path is blamed on another than who waited.
    #[serde(default)]
    pub blame_moved: bool,
    /// Whether the boot is followed on its CPU from beginning to end, because nothing says who waited for whom.
    #[serde(default)]
    pub cpu_followed: bool,
    /// The stages of the boot, contiguous; their lengths sum to `total_ns`.
    pub phases: Vec<PhaseLine>,
    /// The boot path by what one can fix, largest first; `self_ns` sums to `total_ns` where there is a path.
    #[serde(rename = "where")]
    pub wheres: Vec<WhereLine>,
    /// Initcalls, the longest first: each from its call to its return, so what it waited for is in it.
    #[serde(default)]
    pub initcalls: Vec<InitcallLine>,
    /// The boot path by function.
    pub functions: Vec<FunctionLine>,
    /// Another view: not the path, but what every thread did until the end mark.
    pub where_all_threads: Vec<WhereLine>,
    /// User processes, each after its parent, siblings by number.
    #[serde(default)]
    pub processes: Vec<ProcessLine>,
    /// Units of a manager of services (systemd's), in the order in which they were first heard of.
    #[serde(default)]
    pub units: Vec<UnitLine>,
    /// Milestones that the boot passed until its end mark, in order of time, and the end mark.
    #[serde(default)]
    pub milestones: Vec<MilestoneLine>,
    /// What samples say; `null` where none were taken.
    #[serde(default)]
    pub sampled: Option<SampledLines>,
    /// Where the CPUs were while the console was silent; `null` where nobody looked.
    #[serde(default)]
    pub silences: Option<SilencesLine>,
    /// What a variable of the guest was where functions were entered; `null` where nobody asked.
    #[serde(default)]
    pub watched: Option<WatchedLine>,
    /// Figures of a recording with calls; `null` without.
    pub calls: Option<Calls>,
    /// What recording costs on this machine; `null` where it was never measured.
    pub overhead: Option<Overhead>,
    /// Causes found, with remedies, the most valuable first; at most five.
    pub findings: Vec<Finding>,
    /// What stands beside them; `null` where nobody looked.
    #[serde(default)]
    pub found: Option<FoundLine>,
    /// What was measured beside the time.
    #[serde(default)]
    pub metrics: Values,
    /// Those in bytes, by the name before there were metrics of other units than bytes.
    #[serde(serialize_with = "benchmark::metrics::only_bytes")]
    #[schemars(schema_with = "benchmark::metrics::only_bytes_schema")]
    pub memory: Values,
    /// The clocks of the evidence.
    pub clocks: Vec<ClockLine>,
    /// What did not add up in the evidence.
    pub diagnostics: Vec<DiagnosticLine>,
    /// What else a reader should know, in sentences.
    pub notes: Vec<String>,
}

/// A point of the boot that somebody may wait for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct MilestoneLine {
    /// Its name, as `--up-to` takes it.
    pub name: String,
    /// When the boot passed it.
    pub at_ns: i64,
    /// How far off that may be.
    pub error_ns: i64,
}

/// The instant at which the boot counts as done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct EndLine {
    /// What shows it.
    pub evidence: String,
    /// The name of that for programs: it never changes.
    #[serde(default)]
    pub code: String,
    /// When.
    pub at_ns: i64,
    /// How far off `at_ns` may be.
    pub error_ns: i64,
    /// The thread that reached it: the boot path is walked back from there.
    pub track: Option<String>,
}

impl EndLine {
    /// Whether it is a line that the recording's user asked for.
    pub(crate) fn is_asked(&self) -> bool {
        self.code == EndEvidence::Asked(NameId::EMPTY).code()
    }

    /// Whether it is a milestone that stands in place of the end mark.
    pub(crate) fn is_milestone(&self) -> bool {
        self.code == EndEvidence::Milestone(MilestoneKind::End).code()
    }
}

/// A stage of the boot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PhaseLine {
    /// What it is; `unexplained` where no evidence reaches.
    pub name: String,
    /// Whether no evidence reaches it.
    #[serde(skip)]
    pub is_unexplained: bool,
    /// What it and its neighbours are parts of, as one bar shows them; its name where it is no part.
    #[serde(skip)]
    pub family: String,
    /// When it starts.
    pub start_ns: i64,
    /// When it ends: where the next one starts.
    pub end_ns: i64,
    /// How far off its start may be.
    pub error_ns: i64,
    /// What shows its start.
    pub evidence: String,
}

/// An initcall.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct InitcallLine {
    /// The function.
    pub name: String,
    /// When it was called.
    pub start_ns: i64,
    /// From its call to its return.
    pub elapsed_ns: i64,
    /// The thread that ran it.
    pub track: String,
}

/// A row of `functions`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FunctionLine {
    /// The function, or what kind of step it is (`initcall`).
    pub name: String,
    /// Which one (`acpi_init`); empty if there is no more to say.
    pub detail: String,
    /// Time in which it was innermost on the path.
    pub self_ns: i64,
    /// Time in which it was on the path at all.
    pub total_ns: i64,
    /// How often it was.
    pub count: u64,
    /// The threads that did it.
    pub tracks: Vec<String>,
}

/// What samples say of where the CPUs were. All shares are of the samples, and have an error.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SampledLines {
    /// How many there are, of all events.
    pub samples: u64,
    /// How many were not taken; `null` where nothing says.
    pub lost: Option<u64>,
    /// When sampling began, on the samples' clock: what was before is unseen. `null` where nothing says.
    pub began_ns: Option<i64>,
    /// CPUs of which nothing was sampled, as far as the evidence says.
    #[serde(default)]
    pub unsampled_cpus: u64,
    /// How long a sampling interval is; `null` where nothing says.
    #[serde(default)]
    pub period_ns: Option<i64>,
    /// Intervals that passed while their CPU was sampled, of all CPUs; `null` where nothing says how long one is or when the first
    /// began.
    #[serde(default)]
    pub intervals: Option<u64>,
    /// How many of them brought no sample, because nothing interrupted the CPU. These are not in `lost`.
    #[serde(default)]
    pub empty_intervals: Option<u64>,
    /// Each event, that with most samples first. Nothing adds up two of them.
    pub events: Vec<SampledEventLines>,
}

/// The samples of one event.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SampledEventLines {
    /// The event: what made the samples be taken.
    pub name: String,
    /// How many there are.
    pub samples: u64,
    /// How many samples of equal weight would say as much; errors are those of so many.
    pub effective_samples: f64,
    /// Whether each sample weighs as much of the event as it stands for, its period; else each weighs the same.
    pub by_period: bool,
    /// How many found user code; `null` where that is not known of each.
    pub user: Option<u64>,
    /// Each function, the longest on stacks first.
    pub functions: Vec<SampledLine>,
    /// Each thread and each CPU that it was taken on, that with the largest share first.
    pub tracks: Vec<SampledTrackLine>,
}

/// A function that samples found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SampledLine {
    /// The function.
    pub name: String,
    /// Share of the event whose samples found it running.
    pub self_share: f64,
    /// Share of the event whose samples found it on the stack.
    pub total_share: f64,
    /// One standard error of `self_share`, as the binomial distribution has it.
    pub self_error: f64,
    /// One standard error of `total_share`.
    pub total_error: f64,
}

/// What samples were taken on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SampledOnKind {
    /// A thread, wherever it ran.
    #[default]
    Thread,
    /// A CPU, whatever it ran.
    Cpu,
}

/// Where samples were taken.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SampledTrackLine {
    /// `thread` or `cpu`.
    pub kind: SampledOnKind,
    /// The thread's name, or that of the CPU.
    pub name: String,
    /// The number of the thread or the CPU.
    pub id: u64,
    /// How many samples.
    pub samples: u64,
    /// Their share of the event.
    pub share: f64,
    /// One standard error of it.
    pub error: f64,
    /// When the first of them was taken, on the samples' clock; `null` where they have no times.
    pub first_ns: Option<i64>,
    /// When the last of them was.
    pub last_ns: Option<i64>,
}

impl SampledLines {
    fn of(sampled: &Sampled, names: &Names) -> SampledLines {
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
        let mut found = event.functions();
        found.sort_by_key(|f| (Reverse((f.total.weight, f.own.weight)), names.get(f.name)));
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
            functions: found.into_iter().take(LISTED_MAX).map(line).collect(),
            tracks: tracks.into_iter().take(LISTED_MAX).map(track).collect(),
        }
    }
}

/// Figures of a recording with calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Calls {
    /// Calls seen.
    pub count: u64,
    /// Share of returns that matched their call.
    pub matched: f64,
    /// Share of instructions that lie in a known stack.
    pub owned: f64,
    /// Instructions seen until the end mark.
    pub instructions: u64,
    /// Functions until the end mark, those with the most instructions of their own first.
    #[serde(default)]
    pub functions: Vec<CallLine>,
}

/// A function of a recording with calls: all of its calls, on whatever path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CallLine {
    /// The function.
    pub name: String,
    /// How often it was called.
    pub calls: u64,
    /// Instructions in it itself.
    pub self_instructions: u64,
    /// Instructions in it and what it called.
    pub total_instructions: u64,
}

/// A clock of the evidence.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ClockLine {
    /// What it is called.
    pub name: String,
    /// Ticks a second; of a clock in pieces, in its longest one.
    pub hz: f64,
    /// How many pieces of different rate it has.
    #[serde(default)]
    pub pieces: usize,
    /// How far sync points typically lie from the fit.
    pub residual_ns: i64,
    /// Where the rate came from.
    pub rate_from: String,
}

/// The summary of a finalized timeline.
pub fn summarize(timeline: &Timeline, facts: &Facts) -> Summary {
    Summary::of(&Boot::new(timeline, facts))
}

impl Summary {
    /// The summary of a boot that was analysed already.
    pub fn of(boot: &Boot) -> Summary {
        let timeline = boot.timeline;
        Summary {
            functions: boot.tables().functions.iter().map(|row| function_line(&timeline.names, row)).collect(),
            where_all_threads: boot.tables().all_threads.iter().map(WhereLine::of).collect(),
            processes: user_space::process_lines(boot),
            ..Summary::brief(boot)
        }
    }

    /// The same without the lists by function, of all threads and of processes, which are most of it and no part of what is kept
    /// of many boots.
    pub fn brief(boot: &Boot) -> Summary {
        let (timeline, facts) = (boot.timeline, boot.facts);
        let warning_lines = WarningLine::all(timeline);
        Summary {
            schema: SCHEMA.to_owned(),
            outcome: facts.outcome.clone(),
            outcome_detail: facts.outcome_detail.clone(),
            time_base: time_base(timeline.time_base).to_owned(),
            subject: facts.subject.clone(),
            unit: timeline.unit.name().to_owned(),
            warnings: warning_lines.iter().map(|line| line.text.clone()).collect(),
            warning_lines,
            total_ns: boot.total.0,
            end: end_line(boot),
            explained: boot.tables().explained,
            scheduler_evidence: boot.path().scheduler_evidence,
            hold_evidence: boot.path().hold_evidence,
            blame_moved: boot.path().blame_moved,
            cpu_followed: timeline.cpus_followed_until == Some(Ns::MAX),
            phases: phase_lines(boot),
            wheres: boot.tables().wheres.iter().map(WhereLine::of).collect(),
            initcalls: initcall_lines(boot),
            functions: Vec::new(),
            where_all_threads: Vec::new(),
            processes: Vec::new(),
            units: user_space::unit_lines(boot),
            milestones: timeline.milestones().iter().map(|passed| milestone_line(&timeline.names, passed)).collect(),
            sampled: timeline.sampled.as_ref().map(|sampled| SampledLines::of(sampled, &timeline.names)),
            silences: timeline.silences.as_ref().map(|found| SilencesLine::of(found, timeline.time_base)),
            watched: timeline.watched.as_ref().map(|found| WatchedLine::of(found, timeline.time_base)),
            calls: None,
            overhead: facts.overhead.clone(),
            findings: boot.findings.as_ref().map_or_else(Vec::new, |found| found.findings.clone()),
            found: boot.findings.as_ref().map(|found| found.found.clone()),
            metrics: facts.metrics,
            memory: facts.metrics,
            clocks: clock_lines(timeline),
            diagnostics: diagnostic_lines(boot),
            notes: facts.notes.clone(),
        }
    }

    /// How blame was moved from those who waited; empty where the scheduler shows it.
    pub fn blame(&self) -> &'static str {
        match (self.scheduler_evidence, self.hold_evidence) {
            (true, _) => "",
            _ if self.cpu_followed => {
                "calls alone show what the CPU ran, not who waited: --trace events,calls shows both"
            }
            (false, true) if self.blame_moved => {
                "each wait is charged to the last thread that held what was waited for"
            }
            (false, true) => {
                "all waits stay with the waiting thread: the evidence shows nobody else holding what the boot path waited for"
            }
            (false, false) => "all waits stay with the waiting thread: there is neither scheduler nor hold evidence",
        }
    }

    /// Whether the boot reached its end mark.
    pub(crate) fn is_reached(&self) -> bool {
        self.outcome == OutcomeKind::Reached.as_str()
    }

    /// Where the zero of its times is, if that is known.
    pub(crate) fn zero(&self) -> Option<TimeBase> {
        let all = [TimeBase::Host, TimeBase::GuestVirtual, TimeBase::Evidence];
        all.into_iter().find(|base| time_base(*base) == self.time_base)
    }

    /// What its kernel calls its initcalls.
    pub(crate) fn initcalls_word(&self) -> &'static str {
        match Os::of(&self.subject.os) {
            Os::FreeBsd | Os::NetBsd | Os::Lab => "SYSINITs",
            Os::Unknown | Os::Linux | Os::Other(_) => "initcalls",
        }
    }

    /// What was measured beside the time, as people read it.
    pub(crate) fn measured(&self) -> impl Iterator<Item = (&'static str, String)> + '_ {
        METRICS.iter().filter_map(|metric| Some((metric.text, amount(metric.unit, self.metrics.get(metric)? as f64))))
    }

    /// What its times count.
    pub fn time_unit(&self) -> Unit {
        if self.unit == Unit::Ticks.name() { Unit::Ticks } else { Unit::Nanoseconds }
    }

    /// A length of time as text.
    pub(crate) fn time(&self, ns: i64) -> String {
        self.time_unit().show(Ns(ns))
    }

    /// The document, indented, ending in a newline.
    pub fn to_json(&self) -> String {
        let mut text = crate::json(self, true).expect("plain data always serializes");
        text.push('\n');
        text
    }
}

fn nanoseconds() -> String {
    Unit::Nanoseconds.name().to_owned()
}

pub(crate) fn time_base(base: TimeBase) -> &'static str {
    match base {
        TimeBase::Host => "host",
        TimeBase::GuestVirtual => "guest-virtual",
        TimeBase::Evidence => "evidence",
    }
}

fn end_line(boot: &Boot) -> Option<EndLine> {
    boot.timeline.end.map(|end| EndLine {
        evidence: end_evidence(end.evidence, &boot.timeline.names).into_owned(),
        code: end.evidence.code().to_owned(),
        at_ns: end.at.0,
        error_ns: end.error.0,
        track: end.track.map(|t| boot.track_name(t).to_owned()),
    })
}

fn initcall_lines(boot: &Boot) -> Vec<InitcallLine> {
    let line = |i: &analysis::Initcall| InitcallLine {
        name: boot.timeline.names.get(i.function).to_owned(),
        start_ns: i.start.0,
        elapsed_ns: i.elapsed.0,
        track: boot.track_name(i.track).to_owned(),
    };
    analysis::initcalls(boot.timeline).iter().take(LISTED_MAX).map(line).collect()
}

fn phase_lines(boot: &Boot) -> Vec<PhaseLine> {
    let line = |p: &analysis::Phase| PhaseLine {
        name: p.name.clone(),
        is_unexplained: p.what == timeline::Phase::Unexplained,
        family: p.what.family().map_or_else(|| p.name.clone(), str::to_owned),
        start_ns: p.start.0,
        end_ns: p.end.0,
        error_ns: p.error.0,
        evidence: p.evidence.clone(),
    };
    boot.phases.iter().map(line).collect()
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
        count: row.count,
        tracks: row.tracks.clone(),
    }
}

fn milestone_line(names: &Names, passed: &timeline::Milestone) -> MilestoneLine {
    MilestoneLine { name: passed.kind.name(names).into_owned(), at_ns: passed.at.0, error_ns: passed.error.0 }
}

fn clock_lines(timeline: &Timeline) -> Vec<ClockLine> {
    let line = |c: &timeline::Clock| ClockLine {
        name: c.name.clone(),
        hz: c.hz,
        pieces: c.pieces(),
        residual_ns: c.residual.0,
        rate_from: rate_source(&c.rate_from).into_owned(),
    };
    timeline.clocks.iter().map(line).collect()
}

fn diagnostic_lines(boot: &Boot) -> Vec<DiagnosticLine> {
    let mut own = Diagnostics::default();
    own.note_many(DiagnosticKind::WaitsTooDeep, boot.path().too_deep, String::new);
    let mut beyond = |list: &str, rows: usize| {
        let rows = rows.saturating_sub(LISTED_MAX) as u64;
        own.add(DiagnosticKind::RowsBeyondBound, list, rows, None, String::new);
    };
    beyond("the list of processes", boot.timeline.processes.len());
    beyond("the list of initcalls", analysis::initcalls(boot.timeline).len());
    for event in boot.timeline.sampled.iter().flat_map(Sampled::events) {
        beyond("the list of sampled functions", event.functions().len());
        beyond("the list of sampled threads", event.tracks().len());
    }
    let impossible = analysis::impossible(boot.timeline, boot.path(), &boot.phases, boot.tables());
    let line = |d| DiagnosticLine::new(d, boot.timeline.unit);
    impossible.iter().chain(boot.timeline.diagnostics.iter()).chain(own.iter()).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_is_the_document() {
        let text = include_str!("show.example.json");
        let example: Summary = serde_json::from_str(text).expect("the example parses");
        assert_eq!(example.schema, SCHEMA);
        let again: serde_json::Value = serde_json::to_value(&example).unwrap();
        // Equal as values: the example has every field that is written, and no other.
        assert_eq!(again, serde_json::from_str::<serde_json::Value>(text).unwrap());
        assert_eq!(example.phases.iter().map(|p| p.end_ns - p.start_ns).sum::<i64>(), example.total_ns);
        assert_eq!(example.wheres.iter().map(|w| w.self_ns).sum::<i64>(), example.total_ns);
    }

    /// A wait for a softirq has a name that reads as name and detail of its handler do.
    #[test]
    fn a_function_is_split_into_what_the_timeline_calls_it() {
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
