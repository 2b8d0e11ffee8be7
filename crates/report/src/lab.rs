//! The reference kernel's experiments: what each boot took slow and with its remedy, beside what was published, which
//! rows were blamed, and what `what-if` foretold.
//!
//! As a document it has the schema `bootscope.lab/1`; fields are added, never renamed or removed. `lab.example.json`,
//! beside this file, is a whole document; a test parses it. The page that `--page` writes is the same as Markdown.

mod amount;

use crate::table::{Align, Column, Line, render};
use crate::{Boot, Layout, harmless};
use analysis::{RowChange, WhatIf};
use lab::experiments::{Experiment, Figure};
use lab::verdict::{self, Verdict};
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use timeline::Ns;

/// The name and version of the document.
const SCHEMA: &str = "bootscope.lab/1";
/// A share of the saving that is worth a word in the table.
const NOT_ALL: f64 = 0.995;
/// A remedy is right if the boot became shorter by what was foretold, give or take this share of it. How long it took is
/// compared likewise: where nearly all is saved, a small error of the saving is a large one of the boot.
const FORETOLD_WITHIN: f64 = 0.1;

/// The whole document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Lab {
    /// `bootscope.lab/1`.
    pub schema: String,
    /// The VMM that ran the boots.
    pub vmm: String,
    /// What a nanosecond is in these boots.
    pub unit: String,
    /// One for each remedy of each experiment.
    pub trials: Vec<LabTrial>,
}

/// An experiment with one of its remedies: two boots.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LabTrial {
    /// The experiment.
    pub name: String,
    /// What is slow, and what helps.
    pub what: String,
    /// Where the published figures are from.
    pub source: String,
    /// Virtual CPUs of both boots.
    pub cpus: u32,
    /// Memory of both.
    pub memory_bytes: u64,
    /// The words that make it quick.
    pub remedy: String,
    /// The slow boot's command line.
    pub slow: String,
    /// The other one's.
    pub fast: String,
    /// How long the slow boot took.
    pub slow_total_ns: i64,
    /// How long the other one did.
    pub fast_total_ns: i64,
    /// What was timed in both.
    pub figures: Vec<LabFigure>,
    /// What else was measured.
    #[serde(default)]
    pub amounts: Vec<LabAmount>,
    /// Which lengths are neither the hardware's nor published, and how they were chosen; empty if none.
    #[serde(default)]
    pub chosen: String,
    /// The rows of the boot path that became shorter by most, as many as are expected.
    pub blamed: Vec<LabBlame>,
    /// The rows that the switch is to be found in.
    pub expected: Vec<String>,
    /// Whether they are the same, and `added` is what the remedy was to add.
    #[serde(default)]
    pub rows_right: bool,
    /// The rows that became longer by most, as many as the remedy was to add: what it costs.
    #[serde(default)]
    pub added: Vec<LabAdded>,
    /// How much shorter the boot became.
    #[serde(default)]
    pub saved_ns: i64,
    /// How much shorter `what-if` says that the slow boot becomes if the expected rows take what they take in the other
    /// one; none if it cannot say.
    #[serde(default)]
    pub foretold_ns: Option<i64>,
    /// Why it cannot, or what else keeps the two apart; empty if nothing does.
    #[serde(default)]
    pub not_foretold: String,
    /// How long `what-if` says that the slow boot then takes: `slow_total_ns` less `foretold_ns`, and what was added.
    #[serde(default)]
    pub foretold_total_ns: Option<i64>,
    /// Whether `fast_total_ns` is that, within 10 %.
    #[serde(default)]
    pub total_near: bool,
    /// Why it is not: what else the remedy adds or changes; empty if it is.
    #[serde(default)]
    pub differs: String,
    /// In what the experiment is unlike the published boot; empty if in nothing.
    #[serde(default)]
    pub note: String,
    /// Why this was published as no remedy; empty if it was as one, or not at all.
    #[serde(default)]
    pub no_better: String,
    /// What the kernel says of a check that decides in the place of a time; none where time decides.
    #[serde(default)]
    pub check: Option<LabCheck>,
    /// Whether the expected rows were blamed, the boot became shorter by what was foretold, within 10 %, and it took what
    /// was foretold, within 10 %, or `differs` says why not. Of a check: whether the slow boot is broken and the other one
    /// correct.
    pub right: bool,
}

/// A check of the kernel's, in both boots.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LabCheck {
    /// What was checked.
    pub of: String,
    /// `correct` or `broken`, with the words that are to break it; empty if the kernel does not say.
    pub slow: String,
    /// The same with the remedy.
    pub fast: String,
    /// What the kernel counted in the first.
    pub slow_counted: String,
    /// And in the other one.
    pub fast_counted: String,
}

/// A boot as an experiment looks at it.
#[derive(Clone, Copy)]
pub struct LabBoot<'a> {
    /// What was recorded.
    pub boot: &'a Boot<'a>,
    /// All that the kernel printed.
    pub console: &'a str,
}

/// What was timed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LabFigure {
    /// The function, or what several are called.
    pub of: String,
    /// What it is per; empty if it is of a whole boot.
    pub per: String,
    /// As published, slow.
    pub published_slow_ns: Option<i64>,
    /// As published, with the remedy.
    pub published_fast_ns: Option<i64>,
    /// As measured, slow.
    pub slow_ns: i64,
    /// As measured, with the remedy.
    pub fast_ns: i64,
}

/// A row that became shorter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LabBlame {
    /// The row.
    pub row: String,
    /// By how much.
    pub saved_ns: i64,
}

/// A row that a remedy made longer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LabAdded {
    /// The row.
    pub row: String,
    /// By how much.
    pub added_ns: i64,
}

/// What was measured that is not a function's time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LabAmount {
    /// What.
    pub of: String,
    /// `ns`, `bytes`, `count`, `permille` or `thousandths`.
    pub unit: String,
    /// In which unit the table shows bytes, as they were published: `MiB` or `KiB`; empty for the rest.
    #[serde(default)]
    pub shown_in: String,
    /// As published, slow.
    pub published_slow: Option<f64>,
    /// As published, with the remedy.
    pub published_fast: Option<f64>,
    /// As measured, slow; none if the recording does not have it.
    pub slow: Option<f64>,
    /// As measured, with the remedy; none too where one figure is of both boots.
    pub fast: Option<f64>,
}

impl Lab {
    /// Of trials that were run, in boots with one instruction a nanosecond.
    pub fn new(vmm: &str, trials: Vec<LabTrial>) -> Lab {
        let unit = "guest time of a deterministic boot: one instruction is one nanosecond";
        Lab { schema: SCHEMA.to_owned(), vmm: vmm.to_owned(), unit: unit.to_owned(), trials }
    }

    /// Whether the right rows were blamed everywhere, and every saving was foretold.
    pub fn all_right(&self) -> bool {
        self.trials.iter().all(|trial| trial.right)
    }

    /// As text for a terminal: a line for each figure.
    pub fn text(&self, layout: Layout) -> String {
        let mut columns: Vec<Column> =
            TITLES.iter().map(|(title, align)| Column::new(*title, *align, Some(48))).collect();
        columns[BLAMED].most = None;
        let lines: Vec<Line> =
            self.cells().into_iter().map(|cells| Line { cells: cells.to_vec(), faint: false }).collect();
        let mut out = String::new();
        render(&columns, &lines, layout.table_width(), layout.style, &mut out);
        for trial in self.trials.iter().filter(|trial| !trial.not_foretold.is_empty()) {
            let _ = writeln!(out, "{} {}: {}", trial.name, harmless(&trial.remedy), harmless(&trial.not_foretold));
        }
        for trial in &self.trials {
            for (what, why) in trial.remarks() {
                let _ = writeln!(out, "{} {}: {what}: {}", trial.name, harmless(&trial.remedy), harmless(why));
            }
        }
        for (what, of) in [("chosen", (|t| &t.chosen) as fn(&LabTrial) -> &String), ("note", |t| &t.note)] {
            let mut said: Vec<(&str, &str)> = self.trials.iter().map(|t| (t.name.as_str(), of(t).as_str())).collect();
            said.retain(|(_, text)| !text.is_empty());
            said.dedup();
            for (name, text) in said {
                let _ = writeln!(out, "{name}: {what}: {}", harmless(text));
            }
        }
        let mut sources: Vec<&str> = self.trials.iter().map(|trial| trial.source.as_str()).collect();
        sources.sort_unstable();
        sources.dedup();
        let _ = writeln!(out, "published: {}", harmless(&sources.join("; ")));
        let wrong = self.trials.iter().filter(|trial| !trial.right).count();
        let _ = writeln!(
            out,
            "{}; {}",
            self.unit,
            if wrong == 0 { "all right".to_owned() } else { format!("{wrong} wrong") }
        );
        out
    }

    /// As a page of Markdown, each row with the words to boot it by.
    pub fn page(&self) -> String {
        let mut out = PAGE.to_owned();
        let row = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        out.push_str(&row(&TITLES.map(|(title, _)| title.to_owned())));
        out.push_str(&row(&TITLES.map(|(_, align)| if align == Align::Left { "---" } else { "---:" }.to_owned())));
        self.cells().iter().for_each(|cells| out.push_str(&row(cells)));
        let _ = write!(out, "\nMeasured: {}; QEMU {}.\n\n## What each is\n", self.unit, harmless(&self.vmm));
        let mut before = "";
        for trial in &self.trials {
            if trial.name != before {
                let (cpus, mib) = (trial.cpus, trial.memory_bytes >> 20);
                let s = if cpus == 1 { "" } else { "s" };
                let _ = write!(out, "\n**{}**: {}. {cpus} CPU{s}, {mib} MiB", trial.name, trial.what);
                let _ = writeln!(out, "; published: {}.", trial.source);
                if !trial.chosen.is_empty() {
                    let _ = writeln!(out, "* chosen: {}", trial.chosen);
                }
                if !trial.note.is_empty() {
                    let _ = writeln!(out, "* note: {}", trial.note);
                }
                let _ = writeln!(out, "* slow: `{}`, {} to the end", trial.slow, Ns(trial.slow_total_ns));
            }
            let _ = write!(out, "* fast: `{}`, {} to the end", trial.fast, Ns(trial.fast_total_ns));
            let _ = match trial.not_foretold.as_str() {
                "" => writeln!(out),
                why => writeln!(out, "; {}", harmless(why)),
            };
            for (what, why) in trial.remarks() {
                let _ = writeln!(out, "  * {what}: {}", harmless(why));
            }
            before = &trial.name;
        }
        out
    }

    fn cells(&self) -> Vec<[String; TITLES.len()]> {
        let mut lines = Vec::new();
        for trial in &self.trials {
            let timed = trial.figures.iter().map(LabFigure::cells);
            let checked = trial.check.iter().map(LabCheck::cells);
            for (n, figures) in checked.chain(timed).chain(trial.amounts.iter().map(LabAmount::cells)).enumerate() {
                let first = |text: String| if n == 0 { text } else { String::new() };
                // Where a check decides, nothing is foretold, and a time says nothing.
                let time = |ns: Option<i64>| match (&trial.check, ns) {
                    (None, Some(ns)) => first(Ns(ns).to_string()),
                    _ => String::new(),
                };
                let [timed, published, published_ratio, measured, measured_ratio] = figures;
                lines.push([
                    first(trial.name.clone()),
                    first(trial.remedy.clone()),
                    timed,
                    published,
                    published_ratio,
                    measured,
                    measured_ratio,
                    first(trial.blame()),
                    time(trial.foretold_ns),
                    time(Some(trial.saved_ns)),
                    time(trial.foretold_total_ns),
                    time(Some(trial.fast_total_ns)),
                    first(trial.verdict().to_owned()),
                ]);
            }
        }
        lines
    }
}

const BLAMED: usize = 7;
const TITLES: [(&str, Align); 13] = [
    ("experiment", Align::Left),
    ("remedy", Align::Left),
    ("measured", Align::Left),
    ("published", Align::Right),
    ("ratio", Align::Right),
    ("here", Align::Right),
    ("ratio", Align::Right),
    ("blamed", Align::Left),
    ("foretold", Align::Right),
    ("saved", Align::Right),
    ("boot foretold", Align::Right),
    ("boot took", Align::Right),
    ("verdict", Align::Left),
];

const PAGE: &str = "\
# The lab: known slow boots, before and after

`bootscope lab run --all --page docs/lab.md` wrote this page. Each experiment boots the reference kernel twice, with one
switch either way (`kernel/lab/README.md`).

* *published*: what was measured on other machines, by the authors named below. The direction must be the same, and the
  ratio where it is not the hardware's.
* *blamed*: the rows of the boot path that became shorter by most from the slow boot to the fast one.
* *adds*: the rows that the remedy made longer, and by how much in all. That is taken off what is foretold.
* *foretold*: how much shorter `what-if` says that the slow boot becomes if the rows that the switch is in take what they take
  in the fast boot.
* *saved*: how much shorter the boot became.
* *boot foretold*, *boot took*: how long `what-if` says that the boot then takes, and how long the fast boot took.
* *right*: the blamed rows are those that the switch is in, and what was saved was foretold within 10 %, and so was how long the
  boot took.
* *right, total differs*: the boot took more or less than foretold by more than 10 %, because the remedy changes other rows
  too. Below is which.
* *no better*: published as no remedy. It saves nothing, within 1 %, or what it saves is foretold and blamed like *right*. Below is
  why.
* *broken → correct*: the kernel itself checks whether it is correct, and counts. With the first words it is not, with the remedy it
  is. Its time is not looked at.

";

impl LabCheck {
    /// None if a time decides.
    fn of(experiment: &Experiment, slow: LabBoot, fast: LabBoot) -> Option<LabCheck> {
        let said = |boot: LabBoot| {
            let checked = verdict::find(boot.console, experiment.check);
            checked.map_or_else(Default::default, |c| (c.verdict.as_str().to_owned(), c.counted.to_owned()))
        };
        let ((slow, slow_counted), (fast, fast_counted)) = (said(slow), said(fast));
        let of = experiment.check.to_owned();
        (!of.is_empty()).then_some(LabCheck { of, slow, fast, slow_counted, fast_counted })
    }

    /// Broken as it is to be, and mended by the remedy.
    fn is_right(&self) -> bool {
        (self.slow.as_str(), self.fast.as_str()) == (Verdict::Broken.as_str(), Verdict::Correct.as_str())
    }

    fn cells(&self) -> [String; 5] {
        let said =
            |verdict: &str| if verdict.is_empty() { "no verdict".to_owned() } else { harmless(verdict).into_owned() };
        let change = format!("{} → {}", said(&self.slow), said(&self.fast));
        [harmless(&self.of).into_owned(), String::new(), String::new(), change, String::new()]
    }
}

impl LabFigure {
    fn cells(&self) -> [String; 5] {
        let timed = if self.per.is_empty() { self.of.clone() } else { format!("{}, per {}", self.of, self.per) };
        [
            timed,
            change(self.published_slow_ns, self.published_fast_ns),
            ratio(self.published_slow_ns, self.published_fast_ns),
            change(Some(self.slow_ns), Some(self.fast_ns)),
            ratio(Some(self.slow_ns), Some(self.fast_ns)),
        ]
    }
}

impl LabTrial {
    /// What two boots of an experiment say, the slow one and one with a remedy.
    pub fn of(experiment: &Experiment, remedy: &str, slow: LabBoot, fast: LabBoot) -> LabTrial {
        let nth = experiment.remedies.iter().position(|of| *of == remedy).unwrap_or(usize::MAX);
        let amounts = experiment.amounts.iter().map(|amount| LabAmount::of(amount, nth, slow, fast)).collect();
        let check = LabCheck::of(experiment, slow, fast);
        let (slow, fast) = (slow.boot, fast.boot);
        let line = |words: &str| format!("{} {words}", experiment.always).trim_start().to_owned();
        let of = |boot: &Boot| boot.tables().wheres.clone();
        let mut fell: Vec<RowChange> = analysis::row_changes(&of(slow), &of(fast));
        let (added, added_right) = added(experiment, remedy, &fell);
        let added_total: Ns = added.iter().map(|row| Ns(row.added_ns)).sum();
        fell.retain(|row| row.on_path() < Ns::ZERO);
        // Where a remedy is to save nothing, no row is to blame; otherwise just the switch's are.
        let saves_nothing = experiment.saves_nothing.contains(&remedy);
        fell.truncate(if saves_nothing { 0 } else { experiment.blamed.len() });
        let rows: Vec<&str> = fell.iter().map(|row| row.name.as_str()).collect();
        let saved = slow.total - fast.total;
        let rows_right = if saves_nothing { 100 * saved.0.abs() <= slow.total.0 } else { experiment.is_right(&rows) };
        let rows_right = rows_right && added_right;
        let (foretold, not_foretold) = match &check {
            None => foretell(experiment, slow, fast),
            Some(_) => (None, String::new()),
        };
        let foretold_total = foretold.map(|foretold| slow.total - foretold + added_total);
        let total_near = foretold_total.is_some_and(|total| is_near(total, fast.total));
        let of_remedy = |said: &[(&str, &str)]| {
            said.iter().find(|(of, _)| *of == remedy).map_or_else(String::new, |(_, why)| (*why).to_owned())
        };
        let differs = if total_near { String::new() } else { of_remedy(experiment.differs) };
        LabTrial {
            name: experiment.name.to_owned(),
            what: experiment.what.to_owned(),
            source: experiment.source.to_owned(),
            cpus: experiment.machine.cpus,
            memory_bytes: experiment.machine.memory_bytes,
            remedy: remedy.to_owned(),
            slow: line(experiment.slow),
            fast: line(remedy),
            slow_total_ns: slow.total.0,
            fast_total_ns: fast.total.0,
            figures: experiment.figures.iter().map(|figure| measured(figure, experiment, remedy, slow, fast)).collect(),
            amounts,
            chosen: experiment.chosen.to_owned(),
            rows_right,
            saved_ns: saved.0,
            foretold_ns: foretold.map(|foretold| foretold.0),
            not_foretold,
            right: match &check {
                Some(check) => check.is_right(),
                None => {
                    rows_right
                        && (saves_nothing || foretold.is_some_and(|foretold| is_near(foretold - added_total, saved)))
                        && (total_near || !differs.is_empty())
                }
            },
            check,
            added,
            foretold_total_ns: foretold_total.map(|total| total.0),
            total_near,
            differs,
            note: experiment.note.to_owned(),
            no_better: of_remedy(experiment.no_better),
            blamed: fell.iter().map(|row| LabBlame { row: row.name.clone(), saved_ns: -row.on_path().0 }).collect(),
            expected: experiment.blamed.iter().map(|&row| row.to_owned()).collect(),
        }
    }

    /// The rows, and their share of what the boot became shorter if that is not all of it.
    fn blame(&self) -> String {
        let rows: Vec<&str> = self.blamed.iter().map(|blame| blame.row.as_str()).collect();
        let saved: i64 = self.blamed.iter().map(|blame| blame.saved_ns).sum();
        let share = saved as f64 / self.saved_ns as f64;
        // What else the remedy costs is not in the saving.
        let share = if share < NOT_ALL && !rows.is_empty() && self.added.is_empty() {
            format!(" ({:.0} % of the saving)", 100.0 * share)
        } else {
            String::new()
        };
        let parts = [format!("{}{share}", harmless(&rows.join(", "))), self.costs()];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
    }

    /// What the remedy adds; empty if nothing.
    fn costs(&self) -> String {
        let rows: Vec<&str> = self.added.iter().map(|added| added.row.as_str()).collect();
        let added: i64 = self.added.iter().map(|added| added.added_ns).sum();
        if rows.is_empty() { String::new() } else { format!("adds {}, {}", Ns(added), harmless(&rows.join(", "))) }
    }
}

impl LabTrial {
    fn verdict(&self) -> &'static str {
        match (self.right, self.rows_right) {
            (false, _) if self.check.is_some() => "WRONG verdict",
            (true, _) if !self.no_better.is_empty() => "no better",
            (true, _) if !self.differs.is_empty() => "right, total differs",
            (true, _) => "right",
            (false, true) => "WRONG saving or total",
            (false, false) => "WRONG rows",
        }
    }

    /// What the verdict alone does not say.
    fn remarks(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let of_check = |counted: fn(&LabCheck) -> &String| self.check.as_ref().map_or("", |check| counted(check));
        let all = [
            ("total differs", self.differs.as_str()),
            ("no better", self.no_better.as_str()),
            ("counted when broken", of_check(|check| &check.slow_counted)),
            ("counted with the remedy", of_check(|check| &check.fast_counted)),
        ];
        all.into_iter().filter(|(_, why)| !why.is_empty())
    }
}

/// How much shorter the slow boot becomes if the rows that the switch is in take what they take in the fast one; or why
/// nobody can say.
fn foretell(experiment: &Experiment, slow: &Boot, fast: &Boot) -> (Option<Ns>, String) {
    let takes = |name: &str| {
        let row = fast.tables().wheres.iter().find(|row| row.name == name);
        row.map_or(Ns::ZERO, |row| row.self_time)
    };
    let rows: Vec<(String, Ns)> = experiment.blamed.iter().map(|&row| (row.to_owned(), takes(row))).collect();
    match WhatIf::foretell(slow.timeline, slow.groups(), &rows) {
        Ok(foretold) => (Some(foretold), String::new()),
        Err(cannot) => (None, cannot.to_string()),
    }
}

fn is_near(foretold: Ns, saved: Ns) -> bool {
    (foretold - saved).0.abs() as f64 <= FORETOLD_WITHIN * saved.0.abs() as f64
}

/// The rows that became longer by most, as many as the remedy is to add, and whether they are those.
fn added(experiment: &Experiment, remedy: &str, changes: &[RowChange]) -> (Vec<LabAdded>, bool) {
    let expected = experiment.adds.iter().find(|(of, _)| *of == remedy).map_or(&[][..], |(_, rows)| *rows);
    let mut grew: Vec<&RowChange> = changes.iter().filter(|row| row.on_path() > Ns::ZERO).collect();
    grew.sort_by_key(|row| std::cmp::Reverse(row.on_path()));
    grew.truncate(expected.len());
    let right = grew.len() == expected.len() && grew.iter().all(|row| expected.contains(&row.name.as_str()));
    (grew.iter().map(|row| LabAdded { row: row.name.clone(), added_ns: row.on_path().0 }).collect(), right)
}

/// The published figures are of the first remedy.
fn measured(figure: &Figure, experiment: &Experiment, remedy: &str, slow: &Boot, fast: &Boot) -> LabFigure {
    let is_first = experiment.remedies.first() == Some(&remedy);
    let took = |boot: &Boot| {
        let rows = boot.tables().functions.iter().filter(|row| figure.functions.contains(&row.name.as_str()));
        rows.map(|row| row.total_time.0).sum::<i64>() / i64::from(figure.units)
    };
    let ns = |us: u64| us as i64 * 1000;
    LabFigure {
        of: figure.name.to_owned(),
        per: figure.per.to_owned(),
        published_slow_ns: figure.slow_us.map(ns),
        published_fast_ns: figure.fast_us.filter(|_| is_first).map(ns),
        slow_ns: took(slow),
        fast_ns: took(fast),
    }
}

fn change(slow_ns: Option<i64>, fast_ns: Option<i64>) -> String {
    match (slow_ns, fast_ns) {
        (Some(slow), Some(fast)) => format!("{} → {}", Ns(slow), Ns(fast)),
        (Some(slow), None) => Ns(slow).to_string(),
        _ => String::new(),
    }
}

fn ratio(slow_ns: Option<i64>, fast_ns: Option<i64>) -> String {
    match (slow_ns, fast_ns) {
        (Some(slow), Some(fast)) if slow > 0 && fast > 0 => {
            let ratio = slow as f64 / fast as f64;
            match ratio {
                ..100.0 => format!("{ratio:.1}"),
                ..1000.0 => format!("{ratio:.0}"),
                // What is left is a function that looks and returns.
                _ => "> 1000".to_owned(),
            }
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lab() -> Lab {
        serde_json::from_str(include_str!("lab.example.json")).expect("the example is a whole document")
    }

    #[test]
    fn the_example_is_what_the_types_say() {
        let again = serde_json::to_value(lab()).unwrap();
        let example: serde_json::Value = serde_json::from_str(include_str!("lab.example.json")).unwrap();
        assert_eq!((again, lab().schema.as_str()), (example, SCHEMA));
    }

    #[test]
    fn the_table_has_both_ratios_and_the_verdict() {
        let text = lab().text(Layout { wide_tables: true, ..Layout::default() });
        let line = text.lines().find(|line| line.starts_with("page-array")).expect("its line");
        let cells =
            ["per GB", "15.0 ms → 3.50 ms", "4.3", "16.8 ms → 3.15 ms", "5.3", "SYSINIT vm_mem", "13.6 ms", "right"];
        for cell in cells {
            assert!(line.contains(cell), "no {cell:?} in {line}");
        }
        assert!(text.ends_with("; all right\n"), "{text}");
        for line in [
            "console-uart: chosen: how many lines are printed",
            "4.00 µs",
            "238 965 KiB → 233 990 KiB",
            "116 736 KiB → 100 864 KiB",
        ] {
            assert!(text.contains(line), "no {line:?} in {text}");
        }
    }

    #[test]
    fn a_saving_is_foretold_within_a_tenth_of_what_was_saved() {
        for (foretold, saved, near) in [
            (90, 100, true),
            (110, 100, true),
            (89, 100, false),
            (111, 100, false),
            (0, 0, true),
            (5, 0, false),
            (3, -3, false),
        ] {
            assert_eq!(is_near(Ns(foretold), Ns(saved)), near, "{foretold} for {saved}");
        }
    }

    /// 4.6 % of the saving are 1.15 times the boot: never without a word.
    #[test]
    fn a_boot_that_took_something_else_than_foretold_says_why() {
        let mut lab = lab();
        let trial = &mut lab.trials[0];
        (trial.foretold_total_ns, trial.fast_total_ns, trial.total_near) = (Some(747_000_000), 347_000_000, false);
        trial.differs = "the remedy needs ada0 alone".to_owned();
        let of = |lab: &Lab| lab.text(Layout { wide_tables: true, ..Layout::default() });
        for words in
            ["747 ms", "347 ms", "right, total differs", "vm_page=one-pass: total differs: the remedy needs ada0"]
        {
            assert!(of(&lab).contains(words), "no {words:?} in {}", of(&lab));
        }
        assert!(lab.page().contains("  * total differs: the remedy needs ada0 alone\n"), "{}", lab.page());
        lab.trials[0].no_better = "a tick is waited for".to_owned();
        let line = of(&lab);
        let line = line.lines().find(|line| line.starts_with("page-array")).unwrap();
        assert!(line.ends_with("no better") && !line.contains("right"), "{line}");
    }

    #[test]
    fn one_that_is_blamed_wrong_is_seen() {
        let mut lab = lab();
        lab.trials[0].right = false;
        lab.trials[0].not_foretold = "there is no boot path".to_owned();
        lab.trials[1].right = false;
        lab.trials[1].rows_right = false;
        assert!(!lab.all_right());
        let text = lab.text(Layout { wide_tables: true, ..Layout::default() });
        for words in ["WRONG saving or total", "WRONG rows", "page-array vm_page=one-pass: there is no boot path"] {
            assert!(text.contains(words), "no {words:?} in {text}");
        }
        assert!(text.ends_with("; 2 wrong\n"), "{text}");
    }

    /// It costs more than it saves, and both are in its row.
    #[test]
    fn what_a_remedy_adds_is_shown_and_taken_off() {
        let mut lab = lab();
        let trial = &mut lab.trials[0];
        trial.added = vec![LabAdded { row: "wake_aps · DELAY".to_owned(), added_ns: 70_000_000 }];
        trial.saved_ns = -56_350_000;
        let text = lab.text(Layout { wide_tables: true, ..Layout::default() });
        let line = text.lines().find(|line| line.starts_with("page-array")).unwrap();
        assert!(
            line.contains("SYSINIT vm_mem; adds 70.0 ms, wake_aps · DELAY ") && line.contains("-56.4 ms"),
            "{line}"
        );
        assert!(is_near(Ns(13_650_000) - Ns(70_000_000), Ns(-56_350_000)) && !is_near(Ns(1), Ns(-1)));
        let of = |rows: &[(&str, i64)]| -> Vec<RowChange> {
            let row = |&(name, ns): &(&str, i64)| RowChange {
                name: name.to_owned(),
                before: Some(Ns::ZERO),
                after: Some(Ns(ns)),
            };
            rows.iter().map(row).collect()
        };
        let pci = Experiment::named("pci-probe").unwrap();
        let expected = [("THREAD pci_probe", 20), ("check_tsc_sync", 60), ("em_reset", -60), ("wake_aps · DELAY", 10)];
        let (rows, right) = added(pci, pci.remedies[0], &of(&expected));
        assert_eq!((rows[0].row.as_str(), rows[0].added_ns, rows.len(), right), ("check_tsc_sync", 60, 3, true));
        // Another row that grew by more, or one that did not grow.
        assert!(!added(pci, pci.remedies[0], &of(&[&expected[..], &[("_vprintf", 30)]].concat())).1);
        assert!(!added(pci, pci.remedies[0], &of(&expected[1..])).1);
        assert!(added(Experiment::named("page-array").unwrap(), "vm_page=one-pass", &of(&expected)).1);
    }

    #[test]
    fn a_check_has_a_verdict_in_the_place_of_a_time() {
        let mut lab = lab();
        let of = |lab: &Lab| lab.text(Layout { wide_tables: true, ..Layout::default() });
        let line = |lab: &Lab| of(lab).lines().find(|line| line.starts_with("tlb-shootdown")).unwrap().to_owned();
        let cells: Vec<String> = line(&lab).split("  ").map(|cell| cell.trim().to_owned()).collect();
        let cells: Vec<&str> = cells.iter().map(String::as_str).filter(|cell| !cell.is_empty()).collect();
        assert_eq!(cells, ["tlb-shootdown", "shootdown=ipi", "tlb-shootdown", "broken → correct", "right"]);
        assert!(of(&lab).contains("tlb-shootdown shootdown=ipi: counted with the remedy: 1000 rounds, 3000 faults\n"));
        for (slow, fast) in [("broken", "broken"), ("correct", "correct"), ("broken", ""), ("", "correct")] {
            let check = LabCheck { slow: slow.to_owned(), fast: fast.to_owned(), ..LabCheck::default() };
            assert!(!check.is_right(), "{slow} {fast}");
            let trial = lab.trials.last_mut().unwrap();
            (trial.right, trial.check) = (check.is_right(), Some(check));
            assert!(line(&lab).ends_with("WRONG verdict"), "{}", line(&lab));
            assert_eq!(line(&lab).contains("no verdict"), slow.is_empty() || fast.is_empty());
        }
    }

    #[test]
    fn the_page_is_a_markdown_table() {
        let page = lab().page();
        let bars: Vec<usize> =
            page.lines().filter(|line| line.starts_with('|')).map(|line| line.matches('|').count()).collect();
        let lines = |trial: &LabTrial| usize::from(trial.check.is_some()) + trial.figures.len() + trial.amounts.len();
        let lines: usize = lab().trials.iter().map(lines).sum();
        assert_eq!(bars.len(), 2 + lines);
        assert!(bars.iter().all(|&count| count == TITLES.len() + 1), "{bars:?}");
        assert!(page.contains("* slow: `vm_page=three-pass`") && page.contains("* chosen: how many lines"), "{page}");
    }
}
