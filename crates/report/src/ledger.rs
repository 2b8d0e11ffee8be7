//! The ledger of savings: the length of a boot, and what is left of it after each step, in order.
//!
//! As a document it has the schema `bootscope.what-if/1`; fields are added, never renamed or removed.
//! `what-if.example.json`, beside this file, is a complete document; a test parses it. In the text, all times have one
//! unit and as many decimals. They are rounded so that the printed times add up.

mod scale;

use crate::layout::cost;
use crate::paragraph::paragraph;
use crate::table::{Align, Column, Line, render};
use crate::text::{counted, percent_change, range};
use crate::{Layout, WhereLine, harmless, rows, shell_words};
use analysis::{Rung, Target};
use benchmark::is_zero;
use scale::Scale;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt::Write;
use timeline::{Cost, Ns, Unit};

/// The name and version of the document.
const SCHEMA: &str = "bootscope.what-if/1";

/// The whole document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Ledger {
    /// `bootscope.what-if/1`.
    pub schema: String,
    /// The first recording.
    pub recording: String,
    /// The unit of its `_ns`, as in `show`.
    pub unit: String,
    /// The length of its boot.
    pub total_ns: i64,
    /// The timed waits in `total_ns`. In a deterministic boot, the rest is instructions.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waited_ns: i64,
    /// The steps; each starts from the result of the one before.
    pub steps: Vec<LedgerStep>,
    /// The rows of the boot path after the last step, largest first.
    #[serde(rename = "where")]
    pub wheres: Vec<WhereLine>,
    /// Rows of `where` that the first recording does not have: the boot then waits for these.
    #[serde(default)]
    pub new_rows: Vec<String>,
}

/// The source of a step's figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StepKind {
    /// The figures are computed.
    #[default]
    Estimate,
    /// The figures are of a recorded boot.
    Measured,
}

/// The meaning of a saving's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StandsFor {
    /// Rows of `where`.
    Rows,
    /// Functions, with all their callees.
    Functions,
}

/// A computed saving, or a recorded boot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LedgerStep {
    /// `estimate` or `measured`.
    pub kind: StepKind,
    /// The saving's name, or the recording's.
    pub name: String,
    /// `done`, `in progress`, `wanted`, or empty.
    pub state: String,
    /// A note from the user: a commit, a person.
    pub note: String,
    /// For an estimate, the meaning of its name: `rows` of `where`, or `functions` with all their callees.
    pub stands_for: Option<StandsFor>,
    /// The names of those rows or functions.
    pub names: Vec<String>,
    /// Their time on the boot path before.
    pub was_ns: Option<i64>,
    /// Their time there afterwards.
    pub now_ns: Option<i64>,
    /// The timed waits in `was_ns`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub was_waited_ns: i64,
    /// The timed waits in `now_ns`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub now_waited_ns: i64,
    /// Rows that share time with a saved row in another way, and that were not saved.
    pub not_saved: Vec<String>,
    /// The owners of the rest of a row's total time, most first. It is filled if the requested time is longer than the
    /// row's time, or if other rows have more of its total time than the row itself.
    #[serde(default)]
    pub besides: Vec<LedgerPart>,
    /// The length of the boot before the step.
    pub before_ns: i64,
    /// The timed waits in `before_ns`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub before_waited_ns: i64,
    /// The saving. For a recording it is the rest: the part that the steps before it do not explain.
    pub saved_ns: i64,
    /// The least saving, if the log allows several boots because it does not say since when some thread could run. The
    /// four fields of such a range are all present or all absent; `saved_ns` and `total_ns` lie within them.
    #[serde(default)]
    pub saved_at_worst_ns: Option<i64>,
    /// The largest saving.
    #[serde(default)]
    pub saved_at_best_ns: Option<i64>,
    /// The longest boot with this step and the steps before it.
    #[serde(default)]
    pub total_at_worst_ns: Option<i64>,
    /// The shortest boot with them.
    #[serde(default)]
    pub total_at_best_ns: Option<i64>,
    /// The length of the boot with the step.
    pub total_ns: i64,
    /// The timed waits in `total_ns`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub total_waited_ns: i64,
    /// The change of the boot's length since the beginning (−0.31: 31 % less).
    pub change: f64,
}

impl LedgerStep {
    /// The saving at worst and at best, if the step has a range.
    fn saved_range(&self) -> Option<(i64, i64)> {
        self.saved_at_worst_ns.zip(self.saved_at_best_ns)
    }
}

/// A part of a time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LedgerPart {
    /// The row that is charged for it.
    pub name: String,
    pub ns: i64,
}

/// The state of a step, and the user's note.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// `done`, `in progress`, `wanted`, or empty.
    pub state: String,
    pub note: String,
}

impl Ledger {
    /// Starts a ledger with a boot.
    pub fn new(recording: &str, total: Cost, unit: Unit) -> Ledger {
        Ledger {
            schema: SCHEMA.to_owned(),
            recording: recording.to_owned(),
            unit: unit.name().to_owned(),
            total_ns: total.length.0,
            waited_ns: total.waited.0,
            ..Ledger::default()
        }
    }

    /// Adds a computed saving.
    pub fn estimate(&mut self, name: &str, state: State, rung: Rung) {
        let (stands_for, names) = match rung.target {
            Target::Rows(names) => (StandsFor::Rows, names),
            Target::Functions(names) => (StandsFor::Functions, names),
        };
        let step = LedgerStep {
            kind: StepKind::Estimate,
            stands_for: Some(stands_for),
            names,
            was_ns: Some(rung.was.0),
            now_ns: Some(rung.now.0),
            was_waited_ns: rung.waits.was.0,
            now_waited_ns: rung.waits.now.0,
            not_saved: rung.also,
            saved_at_worst_ns: rung.range.map(|range| range.saved_at_worst.0),
            saved_at_best_ns: rung.range.map(|range| range.saved_at_best.0),
            total_at_worst_ns: rung.range.map(|range| range.after_at_worst.0),
            total_at_best_ns: rung.range.map(|range| range.after_at_best.0),
            besides: rung.besides.into_iter().map(|(name, time)| LedgerPart { name, ns: time.0 }).collect(),
            ..LedgerStep::default()
        };
        self.step(step, name, state, Cost { length: rung.after, waited: rung.waits.after });
    }

    /// Sets the rows that are left, and marks those that the first recording does not have.
    pub fn left(&mut self, rows: Vec<WhereLine>, before: &[WhereLine]) {
        let old_rows: BTreeSet<&String> = before.iter().map(|row| &row.name).collect();
        self.new_rows = rows.iter().map(|row| &row.name).filter(|name| !old_rows.contains(name)).cloned().collect();
        self.wheres = rows;
    }

    /// Adds a recording.
    pub fn measured(&mut self, name: &str, state: State, total: Cost) {
        let step = LedgerStep { kind: StepKind::Measured, ..LedgerStep::default() };
        self.step(step, name, state, total);
    }

    fn step(&mut self, step: LedgerStep, name: &str, state: State, total: Cost) {
        let before = self.last();
        let length = total.length.0;
        let first = self.total_ns as f64;
        self.steps.push(LedgerStep {
            name: name.to_owned(),
            state: state.state,
            note: state.note,
            before_ns: before.length.0,
            before_waited_ns: before.waited.0,
            saved_ns: before.length.0 - length,
            total_ns: length,
            total_waited_ns: total.waited.0,
            change: if first > 0.0 { length as f64 / first - 1.0 } else { 0.0 },
            ..step
        });
    }

    fn last(&self) -> Cost {
        let first = cost(self.total_ns, self.waited_ns);
        self.steps.last().map_or(first, |step| cost(step.total_ns, step.total_waited_ns))
    }

    /// The same ledger with only one part of each length: the instructions, or the timed waits.
    fn part(&self, unit: Unit, part: fn(Cost) -> Ns) -> Ledger {
        let part = |ns, waited_ns| part(cost(ns, waited_ns)).0;
        let step = |step: &LedgerStep| {
            let (before_ns, total_ns) =
                (part(step.before_ns, step.before_waited_ns), part(step.total_ns, step.total_waited_ns));
            LedgerStep {
                was_ns: step.was_ns.map(|ns| part(ns, step.was_waited_ns)),
                now_ns: step.now_ns.map(|ns| part(ns, step.now_waited_ns)),
                before_ns,
                saved_ns: before_ns - total_ns,
                total_ns,
                change: step.change,
                name: step.name.clone(),
                note: step.note.clone(),
                kind: step.kind,
                ..LedgerStep::default()
            }
        };
        Ledger {
            unit: unit.name().to_owned(),
            total_ns: part(self.total_ns, self.waited_ns),
            steps: self.steps.iter().map(step).collect(),
            recording: self.recording.clone(),
            ..Ledger::default()
        }
    }

    /// The instructions and the timed waits, if the boot has both.
    fn parts(&self) -> Option<[Ledger; 2]> {
        let has_waits = self.waited_ns > 0 || self.steps.iter().any(|step| step.total_waited_ns > 0);
        (has_waits && Unit::named(&self.unit) == Unit::Instructions).then(|| {
            [self.part(Unit::Instructions, Cost::instructions), self.part(Unit::Nanoseconds, |cost| cost.waited)]
        })
    }

    /// The text for a terminal: the steps, the remarks on them, and the rows that are left.
    pub fn text(&self, layout: Layout) -> String {
        let parts = self.parts();
        // The remarks have ranges and times of other rows, whose parts are not known.
        let of_remarks = match &parts {
            Some(_) => Scale::of(&Ledger { unit: Unit::GuestTime.name().to_owned(), ..self.clone() }),
            None => Scale::of(self),
        };
        let [main, waits] = match &parts {
            Some([instructions, waits]) => [(instructions, Scale::of(instructions)), (waits, Scale::of(waits))],
            None => [(self, Scale::of(self)), (self, Scale::of(self))],
        };
        let layout = Layout { unit: Unit::named(&self.unit), ..layout };
        let mut out = String::new();
        let columns = [
            Column::new("saving", Align::Left, None),
            Column::new("boot path", Align::Right, Some(layout.time_width() + 3)),
            Column::new("becomes", Align::Right, Some(layout.time_width() + 3)),
            Column::new("saved", Align::Right, Some(2 * layout.time_width() + 4)),
            Column::new("total", Align::Right, Some(2 * layout.time_width() + 4)),
            Column::new("change", Align::Right, Some(13)),
        ];
        let recording = |name: &str, (ledger, unit): &(&Ledger, Scale)| Line {
            cells: cells(name, [None, None, None, Some(unit.show(ledger.total_ns)), None]),
            faint: false,
        };
        let mut lines = vec![recording(&harmless(&self.recording), &main)];
        lines.extend(parts.iter().map(|_| recording("  timed waits", &waits)));
        let mut state = "";
        for (i, step) in self.steps.iter().enumerate() {
            if step.state != state {
                state = &step.state;
                let heading = if state.is_empty() { "—".to_owned() } else { format!("{}:", harmless(state)) };
                lines.push(Line { cells: cells(&heading, [None, None, None, None, None]), faint: true });
            }
            let of_part = |(ledger, unit): &(&Ledger, Scale)| self.cells(&ledger.steps[i], unit);
            lines.push(Line { cells: of_part(&main), faint: false });
            if parts.is_some() {
                let mut cells = of_part(&waits);
                "    timed waits".clone_into(&mut cells[0]);
                cells[5].clear();
                lines.push(Line { cells, faint: false });
            }
        }
        render(&columns, &lines, layout.table_width(), layout.style, &mut out);
        let mut texts = Vec::new();
        for step in &self.steps {
            remarks(step, &of_remarks, &mut texts);
        }
        for text in texts {
            paragraph(&text, "", layout, &mut out);
        }
        if !self.wheres.is_empty() && layout.top > 0 {
            self.rows_left(layout, &mut out);
        }
        out
    }

    /// Writes the rows that are left, and the remarks on them.
    fn rows_left(&self, layout: Layout, out: &mut String) {
        out.push('\n');
        out.push_str(&rows("what is left", &self.wheres, layout));
        let gone = self.rows_gone();
        if gone > 0 {
            let takes = if gone == 1 { "takes" } else { "take" };
            let text = format!("not listed: {}, which {takes} no time any more", counted(gone, "saved row"));
            paragraph(&text, "", layout, out);
        }
        self.new_on_the_path(layout, out);
    }

    /// Writes the listed rows that the boot did not wait for before.
    fn new_on_the_path(&self, layout: Layout, out: &mut String) {
        let listed = self.wheres.iter().take(layout.top).map(|row| &row.name);
        let new: Vec<String> =
            listed.filter(|name| self.new_rows.contains(name)).map(|name| harmless(name).into_owned()).collect();
        if !new.is_empty() {
            let text = format!("new on the boot path: {}; the recorded boot did not wait for that", new.join(", "));
            paragraph(&text, "", layout, out);
        }
    }

    /// The number of saved rows of which nothing is left to list.
    fn rows_gone(&self) -> u64 {
        let of_rows = |step: &&LedgerStep| step.stands_for == Some(StandsFor::Rows) && step.was_ns > Some(0);
        let saved: BTreeSet<&String> = self.steps.iter().filter(of_rows).flat_map(|step| &step.names).collect();
        saved.iter().filter(|name| !self.wheres.iter().any(|row| row.name == ***name)).count() as u64
    }

    fn cells(&self, step: &LedgerStep, unit: &Scale) -> Vec<String> {
        let mut name = harmless(&step.name).into_owned();
        if step.kind == StepKind::Measured {
            name = format!("measured: {name}");
        }
        if !step.note.is_empty() {
            let _ = write!(name, " ({})", harmless(&step.note));
        }
        let times = unit.times(step);
        let (mut saved, mut total) = (unit.written(times.saved), unit.show(step.total_ns));
        let mut change = percent_change(step.change);
        if let Some((worst, best)) = step.saved_range() {
            saved = unit.range(worst, best);
        }
        if let Some((worst, best)) = step.total_at_worst_ns.zip(step.total_at_best_ns) {
            total = unit.range(worst, best);
            let percent = |total: i64| percent_change(total as f64 / (self.total_ns as f64).max(1.0) - 1.0);
            change = range(&percent(worst), &percent(best));
        }
        let [was, now] = [times.was, times.now].map(|digits| digits.map(|digits| unit.written(digits)));
        cells(&format!("  {name}"), [was, now, Some(saved), Some(total), Some(change)])
    }
}

fn cells(name: &str, numbers: [Option<String>; 5]) -> Vec<String> {
    std::iter::once(name.to_owned()).chain(numbers.map(Option::unwrap_or_default)).collect()
}

/// Adds the remarks that explain a step's unexpected figures.
fn remarks(step: &LedgerStep, unit: &Scale, out: &mut Vec<String>) {
    let name = harmless(&step.name);
    let times = unit.times(step);
    let (Some(was), Some(now)) = (step.was_ns, step.now_ns) else {
        if times.saved != 0 {
            out.push(format!("{name}: measured; the steps before it do not explain {}", unit.written(times.saved)));
        }
        return;
    };
    let range = step.saved_range().filter(|&(worst, best)| unit.show(worst) != unit.show(best));
    if let Some((worst, best)) = range {
        let why = "threads slept while others had the CPU, and the log does not say when they became runnable";
        out.push(format!("{name}: it saves {}: {why}", unit.range(worst, best)));
    }
    let margin = (was / 100).max(1);
    if range.is_some() {
    } else if was == 0 && now <= margin && (step.besides.is_empty() || !unit.is_shown_as_0(step.saved_ns)) {
        let what = match step.saved_ns {
            saved if unit.is_shown_as_0(saved) => ", so it saves nothing by itself".to_owned(),
            0.. => {
                format!(": it saves the {} that other threads waited for it or for its CPU", unit.written(times.saved))
            }
            _ => format!(": without it, other threads run {} later", unit.written(-times.saved)),
        };
        out.push(format!("{name}: not on the boot path{what}"));
    } else if now > was + margin {
        longer(step, (was, now), unit, out);
    } else {
        // Exactly the gap that the printed figures leave.
        match times.beyond_the_row() {
            0 => {}
            lost @ ..0 => {
                let what = "of the saving is lost, because the boot then waits for something else";
                out.push(format!("{name}: {} {what}", unit.written(-lost)));
            }
            more => {
                let what = "other threads then wait less for it or for its CPU";
                out.push(format!("{name}: the boot gets {} shorter than the row itself: {what}", unit.written(more)));
            }
        }
    }
    if now <= was + margin {
        below(step, was, unit, out);
    }
    if !step.not_saved.is_empty() {
        let others: Vec<String> = step.not_saved.iter().map(|row| harmless(row).into_owned()).collect();
        out.push(format!("{name}: its other rows were not saved: {}", others.join(", ")));
    }
    out.extend(rows_behind(step));
}

/// The rows and functions that a step stands for, if its name does not say so.
fn rows_behind(step: &LedgerStep) -> Option<String> {
    const SHOWN: usize = 5;
    let is_typed = |name: &String| words(&step.name).starts_with(&words(name));
    let differs =
        step.names.len() > 1 || step.stands_for == Some(StandsFor::Functions) || !step.names.iter().all(is_typed);
    let what = match (step.stands_for, step.names.len()) {
        (Some(StandsFor::Rows), 1) => "the row",
        (Some(StandsFor::Rows), _) => "the rows",
        _ => "all under",
    };
    let more = step.names.len().saturating_sub(SHOWN);
    let shown: Vec<String> = step.names.iter().take(SHOWN).map(|n| harmless(n).into_owned()).collect();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    differs.then(|| format!("{}: {what} {}{more}", harmless(&step.name), shown.join(", ")))
}

/// Adds the remark on a saving that makes something longer, which may be a mistake.
fn longer(step: &LedgerStep, (was, now): (i64, i64), unit: &Scale, out: &mut Vec<String>) {
    let name = harmless(&step.name);
    let mut text = format!("{name}: {} is longer than its self time, {}", unit.show(now), unit.show(was));
    let (rest, shown) = besides(step, unit);
    if rest > 0 {
        let _ = write!(text, "; of its total time, {}, the rest is charged to {shown}", unit.show(was + rest));
    }
    out.push(text);
}

/// Adds the remark on a saving that leaves most of a row's total time, because it is charged to rows below it.
fn below(step: &LedgerStep, was: i64, unit: &Scale, out: &mut Vec<String>) {
    let Some(most) = step.besides.first() else { return };
    let (rest, shown) = besides(step, unit);
    let (name, was, rest) = (harmless(&step.name), unit.show(was), unit.show(rest));
    out.push(format!(
        "{name}: its self time is {was}; the {rest} below it is charged to {shown}; save that with --save={}",
        shell_words(&[harmless(&most.name).into_owned()])
    ));
}

/// The time charged to other rows during the row's total time, and the longest of those rows by name.
fn besides(step: &LedgerStep, unit: &Scale) -> (i64, String) {
    const SHOWN: usize = 3;
    let shown = step.besides.iter().take(SHOWN).map(|p| format!("{} {}", harmless(&p.name), unit.show(p.ns)));
    let more = step.besides.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (step.besides.iter().map(|part| part.ns).sum(), shown.collect::<Vec<_>>().join(", ") + &more)
}

/// The words of a name, with any separator before its suffix.
fn words(name: &str) -> String {
    let words = name.split(|c: char| c.is_whitespace() || c == '·' || c == ';').filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use analysis::{Range, RungWaits};

    fn rung(was: i64, now: i64, before: i64, after: i64) -> Rung {
        let target = Target::Rows(vec!["_vprintf".to_owned()]);
        Rung {
            target,
            before: Ns(before),
            after: Ns(after),
            range: None,
            was: Ns(was),
            now: Ns(now),
            waits: RungWaits::default(),
            also: Vec::new(),
            besides: Vec::new(),
        }
    }

    fn wide() -> Layout {
        Layout { top: 0, width: 400, ..Layout::default() }
    }

    fn state(state: &str, note: &str) -> State {
        State { state: state.to_owned(), note: note.to_owned() }
    }

    /// The published steps that made a system call faster: cycles, and percent of the first.
    #[test]
    fn measured_rungs_in_percent_of_the_first() {
        let mut ledger = Ledger::new("August 2023", Cost::busy(Ns(344)), Unit::Ticks);
        for (name, cycles) in [("signals", 236), ("ptrace breakpoints", 184), ("saved registers", 116)] {
            ledger.measured(name, state("done", ""), Cost::busy(Ns(cycles)));
        }
        let text = ledger.text(wide());
        let changes: Vec<&str> = text.lines().filter_map(|l| l.strip_suffix(" %")?.rsplit(' ').next()).collect();
        assert_eq!(changes, ["−31", "−47", "−66"], "{text}");
        assert!(text.contains("344 ticks"), "{text}");
    }

    #[test]
    fn states_are_headings_and_times_have_one_unit() {
        let ms = 1_000_000;
        let mut ledger = Ledger::new("ec2", Cost::busy(Ns(10_970 * ms)), Unit::Nanoseconds);
        ledger.estimate("hpt", state("done", "r325383"), rung(330 * ms, ms / 10, 10_970 * ms, 10_640 * ms + ms / 10));
        ledger.estimate("_vprintf", state("in progress", ""), rung(3_240 * ms, 0, 0, 9_000 * ms + ms / 10));
        let text = ledger.text(wide());
        let lines: Vec<String> = text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(lines[1], "ec2 10 970.0 ms");
        assert_eq!(lines[2], "done:");
        assert_eq!(lines[3], "hpt (r325383) 330.0 ms 0.1 ms 329.9 ms 10 640.1 ms −3 %");
        assert_eq!(lines[4], "in progress:");
        assert_eq!(lines[5], "_vprintf 3 240.0 ms 0.0 ms 1 640.0 ms 9 000.1 ms −18 %");
        assert_eq!(lines[6], "hpt: the row _vprintf", "what matched, where that is not what was typed");
        assert_eq!(
            lines[7],
            "_vprintf: 1 600.0 ms of the saving is lost, because the boot then waits for something else"
        );
    }

    #[track_caller]
    fn check_remark(rung: Rung, expected: &str) {
        let mut ledger = Ledger::new("boot", Cost::busy(rung.before), Unit::Nanoseconds);
        ledger.estimate("_vprintf", State::default(), rung);
        let text = ledger.text(wide());
        assert!(text.lines().any(|line| line == expected), "{text}");
    }

    #[test]
    fn unexpected_figures_are_explained() {
        let ms = 1_000_000;
        let longer = Rung {
            besides: vec![("thread a".to_owned(), Ns(540 * ms)), ("thread b".to_owned(), Ns(27 * ms))],
            ..rung(5 * ms, 100 * ms, 5_000 * ms, 5_095 * ms)
        };
        check_remark(
            longer,
            "_vprintf: 100 ms is longer than its self time, 5 ms; of its total time, 572 ms, the rest is charged to \
             thread a 540 ms, thread b 27 ms",
        );
        let below = Rung {
            besides: vec![("kthread_bind · _sleep".to_owned(), Ns(20 * ms))],
            ..rung(0, 0, 5_000 * ms, 5_000 * ms)
        };
        check_remark(
            below,
            "_vprintf: its self time is 0 ms; the 20 ms below it is charged to kthread_bind · _sleep 20 ms; save that \
             with --save='kthread_bind · _sleep'",
        );
        let hostile =
            Rung { besides: vec![("x'; id #".to_owned(), Ns(20 * ms))], ..rung(0, 0, 5_000 * ms, 5_000 * ms) };
        check_remark(
            hostile,
            "_vprintf: its self time is 0 ms; the 20 ms below it is charged to x'; id # 20 ms; save that with \
             --save=\"x'; id #\"",
        );
        let more = "_vprintf: the boot gets 2 ms shorter than the row itself: other threads then wait less for it or for \
                    its CPU";
        check_remark(rung(150 * ms, 0, 750 * ms, 598 * ms), more);
    }

    #[test]
    fn a_row_off_the_path_explains_its_saving() {
        let ms = 1_000_000;
        check_remark(rung(0, 0, 65 * ms, 65 * ms), "_vprintf: not on the boot path, so it saves nothing by itself");
        check_remark(
            rung(0, 0, 65 * ms, 48 * ms),
            "_vprintf: not on the boot path: it saves the 17 000 µs that other threads waited for it or for its CPU",
        );
        check_remark(
            rung(0, 0, 65 * ms, 66 * ms),
            "_vprintf: not on the boot path: without it, other threads run 1 000 µs later",
        );
        check_remark(rung(0, 5 * ms, 65 * ms, 70 * ms), "_vprintf: 5 000 µs is longer than its self time, 0 µs");
    }

    #[test]
    fn a_range_of_savings_is_shown_as_a_range() {
        let ms = 1_000_000;
        let mut ledger = Ledger::new("boot", Cost::busy(Ns(100 * ms)), Unit::Nanoseconds);
        let range = |saved: (i64, i64), after: (i64, i64)| Rung {
            range: Some(Range {
                saved_at_worst: Ns(saved.0),
                saved_at_best: Ns(saved.1),
                after_at_worst: Ns(after.0),
                after_at_best: Ns(after.1),
            }),
            ..rung(0, 0, 100 * ms, 90 * ms)
        };
        ledger.estimate("a", State::default(), range((0, 70 * ms), (100 * ms, 30 * ms)));
        ledger.estimate("b", State::default(), range((-5 * ms, 0), (105 * ms, 30 * ms)));
        ledger.estimate("c", State::default(), range((10 * ms, 10 * ms), (95 * ms, 20 * ms)));
        ledger.estimate("d", State::default(), range((10 * ms, 10 * ms + 1), (85 * ms, 85 * ms - 1)));
        ledger.estimate("e", State::default(), rung(10 * ms, 0, 90 * ms, 80 * ms));
        let text = ledger.text(wide());
        let lines: Vec<String> = text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(lines[2], "a 0 ms 0 ms 0 to 70 ms 100 to 30 ms 0 to −70 %", "{text}");
        assert_eq!(lines[3], "b 0 ms 0 ms −5 to 0 ms 105 to 30 ms +5 to −70 %", "{text}");
        assert_eq!(lines[4], "c 0 ms 0 ms 10 ms 95 to 20 ms −5 to −80 %", "{text}");
        assert_eq!(lines[5], "d 0 ms 0 ms 10 ms 85 ms −15 %", "{text}");
        assert_eq!(lines[6], "e 10 ms 0 ms 10 ms 80 ms −20 %", "{text}");
        let why = "threads slept while others had the CPU, and the log does not say when they became runnable";
        let texts: Vec<&String> = lines.iter().filter(|line| line.ends_with(why)).collect();
        assert_eq!(
            texts,
            [&format!("a: it saves 0 to 70 ms: {why}"), &format!("b: it saves −5 to 0 ms: {why}")],
            "{text}"
        );
    }

    #[test]
    fn the_example_is_the_document() {
        let text = include_str!("what-if.example.json");
        let example: Ledger = serde_json::from_str(text).expect("the example parses");
        assert_eq!(example.schema, SCHEMA);
        // Equal as values: the example has every field that is written, and no other.
        let again = serde_json::to_value(&example).unwrap();
        assert_eq!(again, serde_json::from_str::<serde_json::Value>(text).unwrap());
        let mut at = example.total_ns;
        for step in &example.steps {
            assert_eq!((step.before_ns, step.total_ns), (at, at - step.saved_ns));
            at = step.total_ns;
        }
        assert_eq!(example.wheres.iter().map(|w| w.self_ns).sum::<i64>(), at);
    }
}
