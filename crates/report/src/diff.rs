//! The comparison of two boots, as a document. `text` makes the text for a terminal.
//!
//! The document has the schema `bootscope.diff/1`; fields are added, never renamed or removed. `diff.example.json`,
//! beside this file, is a complete document; a test parses it. If both boots have a call trace, the diff compares each
//! function and each call path. Amounts are in nanoseconds. In a deterministic boot, each is an instruction or a part of
//! a timed wait.

mod dither;
mod signed;
mod tables;
mod text;

pub use dither::Dither;
pub(crate) use signed::signed;
pub(crate) use tables::changed_lines;

use crate::Boot;
use crate::layout::cost;
use analysis::floor;
use analysis::{Amount, Change, RowChange, Side};
use benchmark::is_zero;
use recording::Difference;
use serde::{Deserialize, Serialize};
use timeline::{Cost, Ns, SpanKind, TimeBase, Unit};

/// The label of a function that both boots have.
const CHANGED: &str = "changed";

/// The name and version of the document.
const SCHEMA: &str = "bootscope.diff/1";

/// The evidence that a diff compares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub enum Compared {
    #[serde(rename = "calls")]
    Calls,
    /// The functions of their boot paths.
    #[default]
    #[serde(rename = "boot path")]
    BootPath,
}

/// The whole document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Diff {
    /// `bootscope.diff/1`.
    pub schema: String,
    /// One boot.
    pub before: DiffSide,
    /// The other.
    pub after: DiffSide,
    /// The compared evidence: `calls` for every call, or `boot path` for the functions of the boot paths.
    pub evidence: Compared,
    /// True if only one boot has a trace or a kernel log, which was therefore left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub evidence_left_out: bool,
    /// True if both boots are deterministic: a nanosecond is an instruction, and every difference has a cause.
    pub deterministic: bool,
    /// True if one boot is deterministic and the other is not: their times are of two kinds.
    #[serde(default)]
    pub clocks_differ: bool,
    /// True if kernel, initrd and command line are known to be the same.
    pub same_inputs: bool,
    /// The differences in how the two boots were run, according to their recordings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub how_differs: Vec<Difference>,
    /// For deterministic boots with different inputs: a smaller relative change of the total says nothing. `null`
    /// otherwise.
    pub floor: Option<f64>,
    /// The dithering, if each side was booted several times with dummy arguments. Only changes larger than the noise
    /// are then listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dither: Option<Dither>,
    /// The evidence that only one boot has, and how much is therefore not compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_comparable: Option<DiffLost>,
    /// The number of functions that were compared.
    pub functions_compared: usize,
    /// The number of call paths that were compared.
    pub paths_compared: usize,
    /// Phases whose length changed, in order of time.
    pub phases: Vec<DiffRow>,
    /// Rows of `where` whose charge changed, the greatest effect first.
    pub rows: Vec<DiffRow>,
    /// Functions that differ, the greatest effect on the boot path first.
    pub functions: Vec<DiffLine>,
    /// Call paths whose own time changed, not only that of their callees.
    pub paths: Vec<DiffLine>,
    /// The direction of the changes to list, if not both. The tables sum to the total change in any case.
    #[serde(skip)]
    pub only: Option<Direction>,
}

/// The direction of a change on the boot path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Slower,
    Faster,
}

impl Direction {
    fn is_of(self, change_ns: i64) -> bool {
        match self {
            Direction::Slower => change_ns > 0,
            Direction::Faster => change_ns < 0,
        }
    }
}

/// Evidence that one boot lacks. What is lost with it took no less time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct DiffLost {
    /// True if the second boot lacks it, false if the first does.
    pub after_lacks: bool,
    pub lacks: Lacks,
    /// The number of phases that are not compared: only one boot has them.
    pub phases: usize,
    /// The number of rows that are not compared.
    pub rows: usize,
    /// The number of functions that are not compared. Those of call traces are compared.
    pub functions: usize,
}

/// The evidence that a boot lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Lacks {
    /// The trace of its threads.
    #[default]
    Trace,
    /// The lengths of its initcalls.
    Initcalls,
}

impl Lacks {
    fn is_lacking(self, boot: &Boot) -> bool {
        match self {
            Lacks::Trace => boot.timeline.running.is_empty(),
            Lacks::Initcalls => !boot.timeline.spans.iter().any(|(_, row)| row.kind == SpanKind::Initcall),
        }
    }

    fn text(self) -> &'static str {
        match self {
            Lacks::Trace => "trace",
            Lacks::Initcalls => "initcalls",
        }
    }

    /// The evidence that one of the two boots lacks and the other has; true if the second one lacks it.
    fn of_one(before: &Boot, after: &Boot) -> Option<(Lacks, bool)> {
        let differs = |lacks: &Lacks| lacks.is_lacking(before) != lacks.is_lacking(after);
        let lacks = [Lacks::Trace, Lacks::Initcalls].into_iter().find(differs)?;
        Some((lacks, lacks.is_lacking(after)))
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct DiffSide {
    pub recording: String,
    /// The name of the kernel.
    pub kernel: String,
    /// The outcome of the boot.
    pub outcome: String,
    /// The unit of its `_ns`, as in `show`.
    #[serde(default = "nanoseconds")]
    pub unit: String,
    /// The time to the end mark.
    pub total_ns: i64,
    /// The timed waits in `total_ns`. In a deterministic boot, the rest is instructions.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waited_ns: i64,
}

fn nanoseconds() -> String {
    Unit::Nanoseconds.name().to_owned()
}

/// A phase or a row that changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct DiffRow {
    pub name: String,
    /// The time before; `null` if the row appeared.
    pub before_ns: Option<i64>,
    /// The time after; `null` if the row vanished.
    pub after_ns: Option<i64>,
    /// The timed waits in `before_ns`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub before_waited_ns: i64,
    /// The timed waits in `after_ns`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub after_waited_ns: i64,
    /// For dithered boots, the difference of the medians.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change_ns: Option<i64>,
    /// For dithered boots, the noise of the row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor_ns: Option<i64>,
}

impl DiffRow {
    /// The change; a row that only one boot has counts as 0 in the other.
    pub fn change(&self) -> i64 {
        self.change_ns.unwrap_or_else(|| self.after_ns.unwrap_or(0) - self.before_ns.unwrap_or(0))
    }

    /// The times before and after, in their parts.
    fn times(&self) -> tables::Times {
        let [before, after] = [(self.before_ns, self.before_waited_ns), (self.after_ns, self.after_waited_ns)];
        [before, after].map(|(ns, waited_ns)| ns.map(|ns| cost(ns, waited_ns)))
    }

    /// The change in its parts. For dithered boots, the parts of medians are not known.
    fn cost_change(&self) -> Cost {
        let [before, after] = self.times().map(Option::unwrap_or_default);
        self.change_ns.map_or(after - before, |ns| Cost::busy(Ns(ns)))
    }
}

impl DiffSide {
    fn cost(&self) -> Cost {
        cost(self.total_ns, self.waited_ns)
    }
}

/// A function or a call path that changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct DiffLine {
    /// The function.
    pub name: String,
    /// For a call path, the callers, with the thread first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub callers: Vec<String>,
    /// `changed`, `appeared` or `vanished`.
    pub what: String,
    /// The function's likely name in the first kernel, if that is another name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renamed_from: Option<String>,
    /// For a function that appeared or vanished: the function that likely contains its code in the other kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inlined_in: Option<String>,
    /// The amounts before; `null` if it appeared.
    pub before: Option<DiffAmount>,
    /// The amounts after; `null` if it vanished.
    pub after: Option<DiffAmount>,
    /// The change of its self time on the boot path; for dithered boots, the difference of the medians.
    pub on_path_change_ns: i64,
    /// For dithered boots, the noise of that time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor_ns: Option<i64>,
}

impl DiffLine {
    /// The identity of a line: its callers and its name.
    fn key(&self) -> (&[String], &str) {
        (&self.callers, &self.name)
    }

    /// The name, and the likely name or caller in the other kernel.
    fn name_and_kin(&self) -> String {
        match (&self.renamed_from, &self.inlined_in) {
            (Some(old), _) => format!("{} (likely {old} before)", self.name),
            (None, Some(into)) if self.before.is_none() => format!("{} (likely inlined in {into} before)", self.name),
            (None, Some(into)) => format!("{} (likely inlined in {into} now)", self.name),
            (None, None) => self.name.clone(),
        }
    }
}

/// The amounts of a function or a call path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct DiffAmount {
    /// Calls before the end mark.
    pub calls: u64,
    /// Self time.
    pub self_ns: i64,
    /// Total time: its own and that of its callees.
    pub total_ns: i64,
    /// Self time on the boot path.
    pub on_path_ns: i64,
}

impl From<Amount> for DiffAmount {
    fn from(a: Amount) -> DiffAmount {
        DiffAmount { calls: a.calls, self_ns: a.own.0, total_ns: a.total.0, on_path_ns: a.on_path.0 }
    }
}

impl Diff {
    /// Compares two boots, each with the name of its recording.
    pub fn new(before: (&str, &Boot), after: (&str, &Boot), same_inputs: bool) -> Diff {
        let base_and_total = |boot: &Boot| -> (TimeBase, Ns) { (boot.timeline.time_base, boot.total) };
        let deterministic = [before.1, after.1].iter().all(|boot| base_and_total(boot).0 == TimeBase::GuestVirtual);
        let [old, new] = [before.1, after.1].map(|boot| Side {
            timeline: boot.timeline,
            path: boot.path(),
            functions: &boot.tables().functions,
            wheres: &boot.tables().wheres,
        });
        let kernels = [before.1, after.1].map(|boot| (&boot.facts.subject.os, &boot.facts.subject.kernel));
        let changes = analysis::diff(old, new, kernels[0] == kernels[1]);
        let path = |change: &Change| {
            let mut names: Vec<String> = changes.path(change).map(str::to_owned).collect();
            let name = if names.is_empty() { String::new() } else { names.remove(0) };
            names.reverse();
            line(change, name, names)
        };
        let diff = Diff {
            schema: SCHEMA.to_owned(),
            before: side(before),
            after: side(after),
            evidence: if changes.followed { Compared::Calls } else { Compared::BootPath },
            evidence_left_out: false,
            deterministic,
            clocks_differ: base_and_total(before.1).0 != base_and_total(after.1).0,
            same_inputs,
            how_differs: Vec::new(),
            floor: (deterministic && !same_inputs).then_some(floor::VIRTUAL_TIME),
            dither: None,
            functions_compared: changes.compared.0,
            paths_compared: changes.compared.1,
            phases: phases(before.1, after.1),
            rows: changes.rows.iter().map(row).collect(),
            functions: changes
                .functions
                .iter()
                .map(|change| DiffLine {
                    renamed_from: changes.renamed_from(change).map(str::to_owned),
                    inlined_in: changes.inlined_in(change).map(str::to_owned),
                    ..line(change, changes.function(change).to_owned(), Vec::new())
                })
                .collect(),
            paths: changes.paths.iter().map(path).collect(),
            not_comparable: None,
            only: None,
        };
        match Lacks::of_one(before.1, after.1) {
            Some((lacks, after_lacks)) => diff.without(lacks, after_lacks),
            None => diff,
        }
    }

    /// Takes out what only one boot has evidence of, and what may have absorbed it.
    fn without(mut self, lacks: Lacks, after_lacks: bool) -> Diff {
        let all = self.phases.len();
        self.phases.retain(|phase| phase.before_ns.is_some() && phase.after_ns.is_some());
        let rows = std::mem::take(&mut self.rows).len();
        let functions = match self.evidence {
            Compared::Calls => 0,
            Compared::BootPath => std::mem::take(&mut self.functions).len(),
        };
        self.not_comparable = Some(DiffLost { after_lacks, lacks, phases: all - self.phases.len(), rows, functions });
        self
    }

    /// Takes functions and paths from another diff of the same two boots. The phases and rows then come from a kernel's
    /// log, and the functions from its call trace.
    pub fn with_functions_of(mut self, calls: Diff) -> Diff {
        self.evidence = calls.evidence;
        (self.functions_compared, self.paths_compared) = (calls.functions_compared, calls.paths_compared);
        (self.functions, self.paths) = (calls.functions, calls.paths);
        if let Some(lost) = &mut self.not_comparable {
            lost.functions = 0;
        }
        self
    }

    /// Removes the rows that are not to be listed, for a document.
    pub fn without_unlisted(mut self) -> Diff {
        if let Some(only) = self.only {
            [&mut self.phases, &mut self.rows].into_iter().for_each(|rows| rows.retain(|row| only.is_of(row.change())));
            for lines in [&mut self.functions, &mut self.paths] {
                lines.retain(|line| only.is_of(line.on_path_change_ns));
            }
        }
        self
    }

    /// Marks that one of the two boots has evidence that the other lacks, and that it was left out.
    pub fn although_more_is_known(self) -> Diff {
        Diff { evidence_left_out: true, ..self }
    }

    /// True if nothing differs.
    pub fn is_empty(&self) -> bool {
        let same_length = self.before.total_ns == self.after.total_ns;
        same_length
            && self.not_comparable.is_none()
            && self.phases.is_empty()
            && self.rows.is_empty()
            && self.functions.is_empty()
            && self.paths.is_empty()
    }
}

fn side((recording, boot): (&str, &Boot)) -> DiffSide {
    let subject = &boot.facts.subject;
    DiffSide {
        recording: recording.to_owned(),
        kernel: [subject.os.as_str(), subject.kernel.as_str()].join(" ").trim().to_owned(),
        outcome: boot.facts.outcome.clone(),
        unit: boot.timeline.unit.name().to_owned(),
        total_ns: boot.total.0,
        waited_ns: boot.timeline.cost(Ns::ZERO, boot.total).waited.0,
    }
}

fn row(change: &RowChange) -> DiffRow {
    DiffRow {
        name: change.name.clone(),
        before_ns: change.before.map(|cost| cost.length.0),
        after_ns: change.after.map(|cost| cost.length.0),
        before_waited_ns: change.before.unwrap_or_default().waited.0,
        after_waited_ns: change.after.unwrap_or_default().waited.0,
        ..DiffRow::default()
    }
}

fn line(change: &Change, name: String, callers: Vec<String>) -> DiffLine {
    let what = match (change.before, change.after) {
        (None, _) => "appeared",
        (_, None) => "vanished",
        _ => CHANGED,
    };
    DiffLine {
        name,
        callers,
        what: what.to_owned(),
        before: change.before.map(DiffAmount::from),
        after: change.after.map(DiffAmount::from),
        on_path_change_ns: change.on_path().0,
        ..DiffLine::default()
    }
}

/// Phases by name, in the order of the boots. Phases of one name (stretches without evidence) are added up.
fn phases(before: &Boot, after: &Boot) -> Vec<DiffRow> {
    let cost = |boot: &Boot, phase: &analysis::Phase| boot.timeline.cost(phase.start, phase.end);
    let lengths = |boot: &Boot| boot.phases.iter().map(|phase| (phase.name.clone(), cost(boot, phase))).collect();
    merged(lengths(before), lengths(after))
}

/// Merges two lists of phases. A phase that only the second boot has stands after its predecessor in that boot.
fn merged(before: Vec<(String, Cost)>, after: Vec<(String, Cost)>) -> Vec<DiffRow> {
    let mut all: Vec<DiffRow> = Vec::new();
    type Slots = fn(&mut DiffRow) -> (&mut Option<i64>, &mut i64);
    let mut add = |phases: Vec<(String, Cost)>, slots: Slots| {
        let mut next = 0;
        for (name, cost) in phases {
            let place = all.iter().position(|p| p.name == name).unwrap_or_else(|| {
                all.insert(next, DiffRow { name, ..DiffRow::default() });
                next
            });
            let (ns, waited_ns) = slots(&mut all[place]);
            *ns.get_or_insert(0) += cost.length.0;
            *waited_ns += cost.waited.0;
            next = place + 1;
        }
    };
    add(before, |p| (&mut p.before_ns, &mut p.before_waited_ns));
    add(after, |p| (&mut p.after_ns, &mut p.after_waited_ns));
    all.retain(|p| p.before_ns != p.after_ns || p.before_waited_ns != p.after_waited_ns);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Facts, Layout};
    use timeline::{End, EndEvidence, Initcalls, Phase, Running, SpanRow, Timeline, TrackKind};

    #[test]
    fn the_example_is_the_document() {
        let text = include_str!("diff.example.json");
        let example: Diff = serde_json::from_str(text).expect("the example parses");
        assert_eq!(example.schema, SCHEMA);
        let again: serde_json::Value = serde_json::to_value(&example).unwrap();
        assert_eq!(again, serde_json::from_str::<serde_json::Value>(text).unwrap());
    }

    /// A boot of 1 ms in firmware and 9 ms in the kernel, of which a trace shows an initcall.
    fn timeline(is_traced: bool) -> Timeline {
        let mut t = Timeline::new(TimeBase::Host);
        let (name, initcall, detail) = (t.names.intern("init"), t.names.intern("initcall"), t.names.intern("slow"));
        let track = t.tracks.add(name, TrackKind::Thread, 1);
        let ms = Ns::from_ms;
        t.boundary(Phase::Firmware, Ns::ZERO, Ns::ZERO, "reset");
        if is_traced {
            t.boundary(Phase::Initcalls(Initcalls::All), ms(1), Ns::ZERO, "trace");
            t.running.push(Running { track, cpu: 0, from: Ns::ZERO, to: ms(10) });
            let row = SpanRow { name: initcall, detail, start: ms(2), end: ms(9), track, kind: SpanKind::Initcall };
            t.spans.push(row, None);
        } else {
            t.boundary(Phase::HandOver, ms(1), Ns::ZERO, "log");
        }
        t.end = Some(End { at: ms(10), error: Ns::ZERO, track: Some(track), evidence: EndEvidence::OfAllEvidence });
        t.finalize(Ns::from_us(50));
        t
    }

    #[test]
    fn what_one_boot_has_no_evidence_of_is_not_compared() {
        let (traced, untraced, facts) = (timeline(true), timeline(false), Facts::default());
        let [traced, untraced] = [&traced, &untraced].map(|timeline| Boot::new(timeline, &facts));
        let same = Diff::new(("a", &traced), ("b", &traced), true);
        assert!(same.is_empty() && same.not_comparable.is_none());
        for (before, after, after_lacks) in [(&traced, &untraced, true), (&untraced, &traced, false)] {
            let diff = Diff::new(("a", before), ("b", after), false);
            let lost = diff.not_comparable.clone().expect("one has no trace");
            assert_eq!((lost.lacks, lost.after_lacks, lost.phases), (Lacks::Trace, after_lacks, 2), "{diff:?}");
            assert!(lost.rows > 0 && diff.rows.is_empty() && diff.functions.is_empty() && !diff.is_empty());
            let text = diff.text(Layout { width: 120, ..Layout::default() });
            let side = if after_lacks { "after" } else { "before" };
            assert!(text.contains(&format!("not comparable: {side} has no trace (2 phases, ")), "{text}");
            assert!(!text.contains("initcall slow"), "no saving, and no loss: {text}");
        }
    }

    #[test]
    fn a_phase_that_only_one_boot_has_stands_where_it_lies_in_the_boot() {
        let list =
            |names: &[&str], ns: i64| names.iter().map(|name| ((*name).to_owned(), Cost::busy(Ns(ns)))).collect();
        let names = |before: &[&str], after: &[&str]| -> Vec<String> {
            merged(list(before, 1), list(after, 2)).into_iter().map(|row| row.name).collect()
        };
        assert_eq!(
            names(&["firmware", "kernel", "init"], &["firmware", "EFI stub", "kernel", "init"]),
            ["firmware", "EFI stub", "kernel", "init"]
        );
        assert_eq!(
            names(&["kernel"], &["firmware", "loader", "kernel", "init"]),
            ["firmware", "loader", "kernel", "init"]
        );
        assert_eq!(
            names(&["firmware", "decompressor", "kernel"], &["firmware", "kernel"]),
            ["firmware", "decompressor", "kernel"]
        );
        let twice = merged(list(&["a", "?", "b", "?"], 1), list(&["a", "b", "c"], 1));
        let row = |name: &str| twice.iter().find(|row| row.name == name).map(|row| (row.before_ns, row.after_ns));
        assert_eq!((row("?"), row("c"), row("a")), (Some((Some(2), None)), Some((None, Some(1))), None));
    }

    #[test]
    fn differences_and_unknown_noise_stand_before_the_figures() {
        let example: Diff = serde_json::from_str(include_str!("diff.example.json")).expect("the example parses");
        let text = |diff: &Diff| diff.text(Layout::default());
        assert!(
            text(&example).starts_with("run differently: append: not given → “quiet”\nbefore"),
            "{}",
            text(&example)
        );
        let host = Diff { deterministic: false, floor: None, how_differs: Vec::new(), ..example.clone() };
        assert!(text(&host).starts_with("noise: unknown after one boot each"), "{}", text(&host));
        let hostile = Difference { what: "append".to_owned(), before: "\x1b[2J".to_owned(), after: "b".to_owned() };
        assert!(!text(&Diff { how_differs: vec![hostile], ..example }).contains('\x1b'));
    }

    /// Rows that became slower by 30 and 10 ns, and faster by 25 ns.
    fn in_both_directions() -> Diff {
        let amount = |calls, ns| Some(DiffAmount { calls, self_ns: ns, total_ns: ns, on_path_ns: ns });
        let line = |name: &str, before, after, change| DiffLine {
            name: name.to_owned(),
            what: CHANGED.to_owned(),
            before,
            after,
            on_path_change_ns: change,
            ..DiffLine::default()
        };
        let functions = vec![
            line("grown", amount(2, 100), amount(4, 130), 30),
            line("shrunk", amount(5, 50), amount(5, 25), -25),
            line("little", amount(1, 10), amount(1, 20), 10),
        ];
        let side = |total_ns| DiffSide { total_ns, unit: nanoseconds(), ..DiffSide::default() };
        Diff { before: side(1_000), after: side(1_015), functions, ..Diff::default() }
    }

    #[test]
    fn one_direction_is_listed_and_the_table_still_sums_to_the_change() {
        let lines = |diff: &Diff, width: usize| -> Vec<String> {
            let text = diff.text(Layout { width, ..Layout::default() });
            let table = text.lines().skip_while(|line| !line.starts_with("function")).skip(1);
            table.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).filter(|l| !l.is_empty()).collect()
        };
        let diff = in_both_directions();
        assert_eq!(lines(&diff, 80), ["grown +30 ns 4 (+2)", "shrunk −25 ns 5", "little +10 ns 1", "total +15 ns"]);
        let slower = Diff { only: Some(Direction::Slower), ..diff.clone() };
        assert_eq!(
            lines(&slower, 120),
            [
                "grown +30 ns 100 ns 130 ns 4 (+2) 50 ns → 32 ns",
                "little +10 ns 10 ns 20 ns 1 10 ns → 20 ns",
                "everything else (1 row) −25 ns",
                "total +15 ns"
            ]
        );
        let faster = Diff { only: Some(Direction::Faster), ..diff }.without_unlisted();
        assert_eq!(faster.functions.iter().map(|line| line.name.as_str()).collect::<Vec<_>>(), ["shrunk"]);
    }

    #[test]
    fn evidence_of_only_one_boot_is_reported_as_left_out() {
        let example: Diff = serde_json::from_str(include_str!("diff.example.json")).expect("the example parses");
        let says = |diff: &Diff| {
            let text = diff.text(Layout::default()).split_whitespace().collect::<Vec<_>>().join(" ");
            text.contains("it is left out, and calls are compared")
        };
        assert!(!says(&example) && says(&example.although_more_is_known()));
    }
}
