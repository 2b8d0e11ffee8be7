//! The `show --json` document, schema `bootscope.show/1`: wire structs, apart from the model's types.
//!
//! Fields are added, never renamed or removed. Times are integers of nanoseconds in fields that end in `_ns`. Shares
//! and ratios are fractions. An unknown value is `null`, an empty string, or 0. Text is unchanged from the evidence, so
//! a program that shows it must make it harmless.
//!
//! `show.example.json`, beside this file, is a complete document; a test parses it.

use crate::drivers_document::{deferred_probe_lines, initcall_lines};
use crate::functions_document::function_lines;
use crate::layout::cost;
use crate::phase_colour::phase_tone;
use crate::sources::{end_evidence, rate_source};
use crate::text::amount;
use crate::user_space;
use crate::{
    Boot, Calls, DeferredProbeLine, DiagnosticLine, ExitsLine, Facts, Finding, FoundLine, FunctionLine, InitcallLine,
    MAX_LISTED, Overhead, Priced, PricedLine, ProcessLine, SampledLines, SilencesLine, Subject, UnitLine, WarningLine,
    WatchedLine, WhereLine,
};
use analysis::{OwnTimes, Row};
use benchmark::{METRICS, Values, is_zero};
use recording::OutcomeKind;
use serde::{Deserialize, Serialize};
use timeline::{
    Cost, DiagnosticKind, Diagnostics, EndEvidence, MilestoneKind, NameId, Ns, Os, Sampled, TimeBase, Timeline, Unit,
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
    /// The number of its colour; `None` if there is no evidence for the phase.
    #[serde(skip)]
    pub tone: Option<usize>,
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

fn phase_lines(boot: &Boot) -> Vec<PhaseLine> {
    let line = |p: &analysis::Phase| PhaseLine {
        name: p.name.clone(),
        tone: phase_tone(p.what, &p.name),
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
    beyond("the list of initcalls", boot.initcalls().len());
    beyond("the list of deferred probes", boot.deferred_probes().len());
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
}
