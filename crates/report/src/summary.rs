//! The `show --json` document, schema `bootscope.show/1`: wire structs, apart from the model's types.
//!
//! Fields are added, never renamed or removed. Times are integers of nanoseconds in fields that end in `_ns`. Shares
//! and ratios are fractions. An unknown value is `null`, an empty string, or 0. Text is unchanged from the evidence, so
//! a program that shows it must make it harmless.
//!
//! `show.example.json`, beside this file, is a complete document; a test parses it.

use crate::layout::cost;
use crate::sources::{end_evidence, rate_source};
use crate::text::amount;
use crate::user_space;
use crate::where_line::is_zero;
use crate::{
    Boot, DiagnosticLine, ExitsLine, Facts, Finding, FoundLine, MAX_LISTED, Overhead, Priced, PricedLine, ProcessLine,
    SilencesLine, Subject, UnitLine, WarningLine, WatchedLine, WhereLine,
};
use analysis::{OwnTimes, Row, RowKey, TrackNames};
use benchmark::{METRICS, Values};
use recording::OutcomeKind;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use timeline::{
    Cost, DiagnosticKind, Diagnostics, EndEvidence, MilestoneKind, NameId, Names, Ns, Os, Sampled, SampledEvent,
    SampledFunction, SampledOn, SampledTrack, TimeBase, Timeline, Unit,
};

/// The name and version of the document.
pub const SCHEMA: &str = "bootscope.show/1";

/// The whole document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Summary {
    /// `bootscope.show/1`.
    pub schema: String,
    /// The outcome of the boot: `reached`, `panic`, `reset`, `power-off`, `hang`, `timeout`, `interrupted`,
    /// `vmm-failed`, `unpatched` (a change to the guest's code could not be made), `unit-failed` (the unit that the
    /// recorder waited for failed), `line-lost` (the serial line to a board), `running` (the recorder is at work or was
    /// killed), `imported`, `unknown` (the manifest does not have it).
    pub outcome: String,
    /// The line, reason or message that shows the outcome.
    pub outcome_detail: String,
    /// `host`, `guest-virtual` or `evidence`.
    pub time_base: String,
    /// The kernel and the machine.
    pub subject: Subject,
    /// The unit of all fields in `_ns`: `ns`, or `ticks` if the counter's rate is unknown. In a deterministic boot they
    /// are ns of the guest's clock. `instructions`: what is not in a field `…waited_ns` is instructions. `priced`: they
    /// are ns on the machine of the model in `priced`. `guest-time`:
    /// instructions and timed waits are not told apart.
    #[serde(default = "nanoseconds")]
    pub unit: String,
    /// Warnings to read before any figure, in sentences: the evidence ends too early, times are ticks.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// The same warnings in the same order, each with its name for programs.
    #[serde(default)]
    pub warning_lines: Vec<WarningLine>,
    /// The time from zero to the end mark.
    pub total_ns: i64,
    /// The timed waits in `total_ns`. In a deterministic boot, the rest is instructions.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waited_ns: i64,
    /// The prices of a machine model, in which all times are then; missing without a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priced: Option<PricedLine>,
    /// The end mark; `null` if there is no evidence of it. The total then ends with the last evidence.
    pub end: Option<EndLine>,
    /// The share of the boot path charged to steps (including the VMM's), functions, threads and messages. The rest is
    /// charged to whole phases.
    pub explained: f64,
    /// True if the evidence shows which thread ran and which waited for which.
    pub scheduler_evidence: bool,
    /// True if the evidence shows the resources that threads waited for, and their holders. Without either kind of
    /// evidence no wait is charged to another thread.
    #[serde(default)]
    pub hold_evidence: bool,
    /// True if a wait on the boot path is charged to another thread than the waiting one.
    #[serde(default)]
    pub blame_moved: bool,
    /// True if the boot path follows a CPU from beginning to end, because no evidence shows which thread waited for
    /// which.
    #[serde(default)]
    pub cpu_followed: bool,
    /// The phases of the boot, contiguous; their lengths sum to `total_ns`.
    pub phases: Vec<PhaseLine>,
    /// The boot path in rows to act on, largest first. If there is a path, `self_ns` sums to `total_ns`.
    #[serde(rename = "where")]
    pub wheres: Vec<WhereLine>,
    /// Initcalls, the longest first. Each lasts from its call to its return, so it includes its waits.
    #[serde(default)]
    pub initcalls: Vec<InitcallLine>,
    /// Devices whose probe the kernel put off, those with the longest attempts first.
    #[serde(default)]
    pub deferred_probes: Vec<DeferredProbeLine>,
    /// The boot path by function.
    pub functions: Vec<FunctionLine>,
    /// Another view: not the path, but the work of every thread up to the end mark.
    pub where_all_threads: Vec<WhereLine>,
    /// User processes, each after its parent, siblings by number.
    #[serde(default)]
    pub processes: Vec<ProcessLine>,
    /// Units of a service manager (such as systemd), in the order of their first mention.
    #[serde(default)]
    pub units: Vec<UnitLine>,
    /// Milestones up to the end mark, in order of time, and the end mark.
    #[serde(default)]
    pub milestones: Vec<MilestoneLine>,
    /// The samples; `null` if no samples were taken.
    #[serde(default)]
    pub sampled: Option<SampledLines>,
    /// The places of the CPUs while the console was silent; `null` if the recorder did not look.
    #[serde(default)]
    pub silences: Option<SilencesLine>,
    /// The value of a watched guest variable at the entries of functions; `null` if no variable was watched.
    #[serde(default)]
    pub watched: Option<WatchedLine>,
    /// The accesses that left the guest; `null` if they were not counted.
    #[serde(default)]
    pub exits: Option<ExitsLine>,
    /// Figures of a recording with a call trace; `null` without one.
    pub calls: Option<Calls>,
    /// The cost of recording on this machine; `null` if it was never measured.
    pub overhead: Option<Overhead>,
    /// The findings, the most valuable first; at most five.
    pub findings: Vec<Finding>,
    /// The figures for all findings together; `null` if no rules ran.
    #[serde(default)]
    pub found: Option<FoundLine>,
    /// The measured metrics.
    #[serde(default)]
    pub metrics: Values,
    /// The metrics in bytes. The field is older than metrics of other units.
    #[serde(serialize_with = "benchmark::metrics::only_bytes")]
    #[schemars(schema_with = "benchmark::metrics::only_bytes_schema")]
    pub memory: Values,
    /// The clocks of the evidence.
    pub clocks: Vec<ClockLine>,
    /// The contradictions and gaps in the evidence.
    pub diagnostics: Vec<DiagnosticLine>,
    /// Further remarks for the reader, in sentences.
    pub notes: Vec<String>,
}

/// A point of the boot that a user may wait for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct MilestoneLine {
    /// The milestone's name, as `--up-to` takes it.
    pub name: String,
    /// The time at which the boot passed it.
    pub at_ns: i64,
    /// The timed waits before it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waited_ns: i64,
    /// The largest error of `at_ns`.
    pub error_ns: i64,
}

/// The end mark: the instant at which the boot counts as done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct EndLine {
    /// The evidence for the end, in words.
    pub evidence: String,
    /// The code of that evidence, for programs: it never changes.
    #[serde(default)]
    pub code: String,
    pub at_ns: i64,
    /// The largest error of `at_ns`.
    pub error_ns: i64,
    /// The thread that reached it. The boot path is followed back from there.
    pub track: Option<String>,
}

impl PhaseLine {
    /// Its length in its parts.
    pub(crate) fn cost(&self) -> Cost {
        cost(self.end_ns - self.start_ns, self.waited_ns)
    }
}

impl EndLine {
    /// True if the end is a line that the recording's user requested.
    pub(crate) fn is_asked(&self) -> bool {
        self.code == EndEvidence::Asked(NameId::EMPTY).code()
    }

    /// True if the end is a milestone in place of the end mark.
    pub(crate) fn is_milestone(&self) -> bool {
        self.code == EndEvidence::Milestone(MilestoneKind::End).code()
    }
}

/// A phase of the boot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PhaseLine {
    /// The phase's name; `unexplained` if there is no evidence.
    pub name: String,
    /// True if there is no evidence for the phase.
    #[serde(skip)]
    pub is_unexplained: bool,
    /// The family that it shares a segment of the bar with; its name if it has no family.
    #[serde(skip)]
    pub family: String,
    pub start_ns: i64,
    /// The end, which is the start of the next phase.
    pub end_ns: i64,
    /// The timed waits in it. In a deterministic boot, the rest is instructions.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waited_ns: i64,
    /// The ends of the range of its length, in a boot at the prices of a machine model; otherwise missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low_ns: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high_ns: Option<i64>,
    /// The largest error of `start_ns`.
    pub error_ns: i64,
    /// The evidence for its start.
    pub evidence: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct InitcallLine {
    /// The function.
    pub name: String,
    /// The time of its call.
    pub start_ns: i64,
    /// The time from its call to its return.
    pub elapsed_ns: i64,
    /// The timed waits in `elapsed_ns`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waited_ns: i64,
    /// The part of it that the boot path spent on its thread. Threads that it waited for are not in it, nor is time for
    /// which the boot did not wait.
    #[serde(default)]
    pub path_ns: i64,
    /// The timed waits in `path_ns`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub path_waited_ns: i64,
    /// The thread that ran it.
    pub track: String,
}

/// A device whose probe the kernel put off, because something that it needs is missing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct DeferredProbeLine {
    /// The device.
    pub name: String,
    /// The attempts that were put off, as far as their lengths are known; Linux prints them with `initcall_debug`.
    pub attempts: u64,
    /// The sum of these attempts.
    pub elapsed_ns: i64,
    /// The timed waits in `elapsed_ns`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waited_ns: i64,
    /// The part of `elapsed_ns` that the boot path spent on the attempts' threads.
    pub path_ns: i64,
    /// The timed waits in `path_ns`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub path_waited_ns: i64,
    /// The suppliers in the kernel's words: what the device waits for, what that waits for, and so on. Empty if no
    /// message names one.
    pub suppliers: Vec<String>,
    /// True if the kernel gave up, and no later attempt is known.
    pub is_pending: bool,
}

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

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ClockLine {
    pub name: String,
    /// Ticks per second; for a clock in pieces, in the longest piece.
    pub hz: f64,
    /// The number of pieces with different rates.
    #[serde(default)]
    pub pieces: usize,
    /// The typical distance of sync points from the fit.
    pub residual_ns: i64,
    /// The source of the rate.
    pub rate_from: String,
}

/// The summary of a finalized timeline.
pub fn summarize(timeline: &Timeline, facts: &Facts) -> Summary {
    Summary::of(&Boot::new(timeline, facts))
}

impl Summary {
    /// The summary of an analysed boot.
    pub fn of(boot: &Boot) -> Summary {
        Summary {
            functions: function_lines(boot, &boot.tables().functions),
            where_all_threads: boot.tables().all_threads.iter().cloned().map(WhereLine::from).collect(),
            processes: user_space::process_lines(boot),
            ..Summary::brief(boot)
        }
    }

    /// The summary with at most this number of rows of each of the lists that are most of it. Rows beyond are not
    /// copied.
    pub(crate) fn with_rows(boot: &Boot, most: usize) -> Summary {
        let tables = boot.tables();
        let rows = |rows: &[Row]| rows.iter().take(most).cloned().map(WhereLine::from).collect();
        Summary {
            wheres: boot.lines_of(tables.wheres.iter().take(most).cloned()),
            functions: function_lines(boot, tables.functions.iter().take(most)),
            where_all_threads: rows(&tables.all_threads),
            processes: user_space::process_lines(boot),
            ..Summary::without_tables(boot)
        }
    }

    /// The summary of an analysed boot that is not shown again. It takes the rows of the boot, which can be most of the
    /// program's memory.
    pub fn of_last(mut boot: Boot) -> Summary {
        let summary = Summary::without_tables(&boot);
        let tables = boot.take_tables();
        Summary {
            wheres: boot.lines_of(tables.wheres.into_iter()),
            functions: function_lines(&boot, &tables.functions),
            where_all_threads: tables.all_threads.into_iter().map(WhereLine::from).collect(),
            processes: user_space::process_lines(&boot),
            ..summary
        }
    }

    /// The summary without the lists of functions, of all threads and of processes. These are most of it, and are not
    /// kept for many boots.
    pub fn brief(boot: &Boot) -> Summary {
        Summary { wheres: boot.wheres(), ..Summary::without_tables(boot) }
    }

    fn without_tables(boot: &Boot) -> Summary {
        let (timeline, facts) = (boot.timeline, boot.facts);
        let warning_lines = WarningLine::all(timeline);
        let own = OwnTimes::new(&boot.stays);
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
            waited_ns: timeline.cost(Ns::ZERO, boot.total).waited.0,
            priced: boot.priced.as_ref().map(Priced::line),
            end: end_line(boot),
            explained: boot.tables().explained,
            scheduler_evidence: boot.path().scheduler_evidence,
            hold_evidence: boot.path().hold_evidence,
            blame_moved: boot.path().blame_moved,
            cpu_followed: timeline.cpus_followed_until == Some(Ns::MAX),
            phases: phase_lines(boot),
            wheres: Vec::new(),
            initcalls: initcall_lines(boot, &own),
            deferred_probes: deferred_probe_lines(boot, &own),
            functions: Vec::new(),
            where_all_threads: Vec::new(),
            processes: Vec::new(),
            units: user_space::unit_lines(boot),
            milestones: timeline.milestones().iter().map(|passed| milestone_line(timeline, passed)).collect(),
            sampled: timeline.sampled.as_ref().map(|sampled| SampledLines::of(sampled, &timeline.names)),
            silences: timeline.silences.as_ref().map(|found| SilencesLine::of(found, timeline.time_base)),
            watched: timeline.watched.as_ref().map(|found| WatchedLine::of(found, timeline.time_base)),
            exits: timeline
                .exits
                .as_ref()
                .map(|exits| ExitsLine::of(exits, &phase_lines(boot), boot.total, &timeline.names)),
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

    /// A sentence about how waits were charged to other threads; empty if the scheduler's trace shows it.
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

    /// True if the boot reached its end mark.
    pub(crate) fn is_reached(&self) -> bool {
        self.outcome == OutcomeKind::Reached.as_str()
    }

    /// The origin of its times, if known.
    pub(crate) fn zero(&self) -> Option<TimeBase> {
        let all = [TimeBase::Host, TimeBase::GuestVirtual, TimeBase::Evidence];
        all.into_iter().find(|base| time_base(*base) == self.time_base)
    }

    /// The kernel's word for its initcalls.
    pub(crate) fn initcalls_word(&self) -> &'static str {
        match Os::of(&self.subject.os) {
            Os::FreeBsd | Os::NetBsd | Os::Lab => "SYSINITs",
            Os::Unknown | Os::Linux | Os::Other(_) => "initcalls",
        }
    }

    /// The measured metrics, as text.
    pub(crate) fn measured(&self) -> impl Iterator<Item = (&'static str, String)> + '_ {
        METRICS.iter().filter_map(|metric| Some((metric.text, amount(metric.unit, self.metrics.get(metric)? as f64))))
    }

    /// The unit of its times. Documents of bootscope 0.2 call a deterministic boot's times nanoseconds.
    pub fn time_unit(&self) -> Unit {
        match Unit::named(&self.unit) {
            Unit::Nanoseconds => self.zero().map_or(Unit::Nanoseconds, TimeBase::unit),
            unit => unit,
        }
    }

    /// A length of time as text, in its parts.
    pub(crate) fn cost(&self, cost: Cost) -> String {
        self.time_unit().show_cost(cost)
    }

    /// An instant as text. In a deterministic boot it is on the guest's clock.
    pub(crate) fn at(&self, ns: i64) -> String {
        self.time_unit().show_at(Ns(ns))
    }

    /// The length of the boot in its parts.
    pub(crate) fn total_cost(&self) -> Cost {
        cost(self.total_ns, self.waited_ns)
    }

    /// The document as indented JSON, ending in a newline.
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

fn initcall_lines(boot: &Boot, own: &OwnTimes) -> Vec<InitcallLine> {
    let line = |i: &analysis::Initcall| {
        let end = i.start + i.elapsed;
        let on_path = own.within(i.track, i.start, end);
        InitcallLine {
            name: boot.timeline.names.get(i.function).to_owned(),
            start_ns: i.start.0,
            elapsed_ns: i.elapsed.0,
            waited_ns: boot.timeline.cost(i.start, end).waited.0,
            path_ns: on_path.length.0,
            path_waited_ns: on_path.waited.0,
            track: boot.track_name(i.track).to_owned(),
        }
    };
    analysis::initcalls(boot.timeline).iter().take(MAX_LISTED).map(line).collect()
}

fn deferred_probe_lines(boot: &Boot, own: &OwnTimes) -> Vec<DeferredProbeLine> {
    let name = |id| boot.timeline.names.get(id).to_owned();
    let on_path =
        |attempt: &analysis::Attempt| attempt.span.map_or(Cost::ZERO, |row| own.within(row.track, row.start, row.end));
    let line = |probe: &analysis::DeferredProbe| {
        let elapsed: Cost = probe.attempts.iter().map(|attempt| boot.timeline.cost(attempt.from, attempt.to)).sum();
        let on_path: Cost = probe.attempts.iter().map(on_path).sum();
        DeferredProbeLine {
            name: name(probe.device),
            attempts: probe.attempts.len() as u64,
            elapsed_ns: elapsed.length.0,
            waited_ns: elapsed.waited.0,
            path_ns: on_path.length.0,
            path_waited_ns: on_path.waited.0,
            suppliers: probe.suppliers.iter().map(|&supplier| name(supplier)).collect(),
            is_pending: probe.is_pending,
        }
    };
    let mut lines: Vec<_> = analysis::deferred_probes(boot.timeline).iter().map(line).collect();
    lines.sort_by_key(|line| Reverse(line.elapsed_ns));
    lines.truncate(MAX_LISTED);
    lines
}

fn phase_lines(boot: &Boot) -> Vec<PhaseLine> {
    let line = |p: &analysis::Phase| PhaseLine {
        name: p.name.clone(),
        is_unexplained: p.what == timeline::Phase::Unexplained,
        family: p.what.family().map_or_else(|| p.name.clone(), str::to_owned),
        start_ns: p.start.0,
        end_ns: p.end.0,
        waited_ns: boot.timeline.cost(p.start, p.end).waited.0,
        low_ns: None,
        high_ns: None,
        error_ns: p.error.0,
        evidence: p.evidence.clone(),
    };
    let mut lines: Vec<PhaseLine> = boot.phases.iter().map(line).collect();
    if let Some(priced) = &boot.priced {
        priced.add_to_phases(&mut lines);
    }
    lines
}

fn function_lines<'r>(boot: &Boot, rows: impl IntoIterator<Item = &'r Row>) -> Vec<FunctionLine> {
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

fn milestone_line(timeline: &Timeline, passed: &timeline::Milestone) -> MilestoneLine {
    let name = passed.kind.name(&timeline.names).into_owned();
    let waited_ns = timeline.cost(Ns::ZERO, passed.at).waited.0;
    MilestoneLine { name, at_ns: passed.at.0, waited_ns, error_ns: passed.error.0 }
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
    let mut derived = Diagnostics::default();
    derived.note_many(DiagnosticKind::WaitsTooDeep, boot.path().too_deep, String::new);
    let mut beyond = |list: &str, rows: usize| {
        let rows = rows.saturating_sub(MAX_LISTED) as u64;
        derived.add(DiagnosticKind::RowsBeyondBound, list, rows, None, String::new);
    };
    beyond("the list of processes", boot.timeline.processes.len());
    beyond("the list of initcalls", analysis::initcalls(boot.timeline).len());
    beyond("the list of deferred probes", analysis::deferred_probes(boot.timeline).len());
    for event in boot.timeline.sampled.iter().flat_map(Sampled::events) {
        beyond("the list of sampled functions", event.function_count());
        beyond("the list of sampled threads", event.tracks().len());
    }
    let impossible = analysis::impossible(boot.timeline, boot.path(), &boot.phases, boot.tables());
    let line = |d| DiagnosticLine::new(d, boot.timeline.unit);
    impossible.iter().chain(boot.timeline.diagnostics.iter()).chain(derived.iter()).map(line).collect()
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
