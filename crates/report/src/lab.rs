//! The reference kernel's experiments: what each boot took slow and with its remedy, beside what was published, and
//! which rows were blamed.
//!
//! As a document it has the schema `bootscope.lab/1`; fields are added, never renamed or removed. `lab.example.json`,
//! beside this file, is a whole document; a test parses it. The page that `--page` writes is the same as Markdown.

use crate::table::{Align, Column, Line, render};
use crate::{Boot, Layout, harmless};
use analysis::RowChange;
use lab::experiments::{Experiment, Figure};
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use timeline::Ns;

/// The name and version of the document.
const SCHEMA: &str = "bootscope.lab/1";
/// A share of the saving that is worth a word in the table.
const NOT_ALL: f64 = 0.995;

/// The whole document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// The rows of the boot path that became shorter by most, as many as are expected.
    pub blamed: Vec<LabBlame>,
    /// The rows that the switch is to be found in.
    pub expected: Vec<String>,
    /// Whether they are the same.
    pub right: bool,
}

/// What was timed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LabBlame {
    /// The row.
    pub row: String,
    /// By how much.
    pub saved_ns: i64,
}

impl Lab {
    /// Of trials that were run, in boots with one instruction a nanosecond.
    pub fn new(vmm: &str, trials: Vec<LabTrial>) -> Lab {
        let unit = "guest time of a deterministic boot: one instruction is one nanosecond";
        Lab { schema: SCHEMA.to_owned(), vmm: vmm.to_owned(), unit: unit.to_owned(), trials }
    }

    /// Whether the right row was blamed everywhere.
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
        let mut sources: Vec<&str> = self.trials.iter().map(|trial| trial.source.as_str()).collect();
        sources.sort_unstable();
        sources.dedup();
        let _ = writeln!(out, "published: {}", harmless(&sources.join("; ")));
        let wrong = self.trials.iter().filter(|trial| !trial.right).count();
        let _ = writeln!(
            out,
            "{}; {}",
            self.unit,
            if wrong == 0 { "all blamed right".to_owned() } else { format!("{wrong} blamed wrong") }
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
                let _ = writeln!(out, "* slow: `{}`, {} to the end", trial.slow, Ns(trial.slow_total_ns));
            }
            let _ = writeln!(out, "* fast: `{}`, {} to the end", trial.fast, Ns(trial.fast_total_ns));
            before = &trial.name;
        }
        out
    }

    fn cells(&self) -> Vec<[String; TITLES.len()]> {
        let mut lines = Vec::new();
        for trial in &self.trials {
            for (n, figure) in trial.figures.iter().enumerate() {
                let first = |text: String| if n == 0 { text } else { String::new() };
                lines.push([
                    first(trial.name.clone()),
                    first(trial.remedy.clone()),
                    figure.timed(),
                    change(figure.published_slow_ns, figure.published_fast_ns),
                    ratio(figure.published_slow_ns, figure.published_fast_ns),
                    change(Some(figure.slow_ns), Some(figure.fast_ns)),
                    ratio(Some(figure.slow_ns), Some(figure.fast_ns)),
                    first(trial.blame()),
                    first(if trial.right { "right" } else { "WRONG" }.to_owned()),
                ]);
            }
        }
        lines
    }
}

const BLAMED: usize = 7;
const TITLES: [(&str, Align); 9] = [
    ("experiment", Align::Left),
    ("remedy", Align::Left),
    ("timed", Align::Left),
    ("published", Align::Right),
    ("ratio", Align::Right),
    ("measured", Align::Right),
    ("ratio", Align::Right),
    ("blamed", Align::Left),
    ("", Align::Left),
];

const PAGE: &str = "\
# The lab: known slow boots, before and after

`bootscope lab run --all --page docs/lab.md` wrote this page. Each experiment boots the reference kernel twice, with one
switch either way (`kernel/lab/README.md`). *published* is what the boots took that the experiments are made after, on
other machines, by the authors named below: what must be the same is the direction, and the ratio where it is not the hardware's. *blamed* are the rows
of the boot path that became shorter by most, in the analysis that every recording gets; *right*: they are those that the
switch is in.

";

impl LabFigure {
    fn timed(&self) -> String {
        if self.per.is_empty() { self.of.clone() } else { format!("{}, per {}", self.of, self.per) }
    }
}

impl LabTrial {
    /// What two boots of an experiment say, the slow one and one with a remedy.
    pub fn of(experiment: &Experiment, remedy: &str, slow: &Boot, fast: &Boot) -> LabTrial {
        let line = |words: &str| format!("{} {words}", experiment.always).trim_start().to_owned();
        let of = |boot: &Boot| boot.tables().wheres.clone();
        let mut saved: Vec<RowChange> = analysis::row_changes(&of(slow), &of(fast));
        saved.retain(|row| row.on_path() < Ns::ZERO);
        saved.truncate(experiment.blamed.len());
        let rows: Vec<&str> = saved.iter().map(|row| row.name.as_str()).collect();
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
            right: experiment.is_right(&rows),
            blamed: saved.iter().map(|row| LabBlame { row: row.name.clone(), saved_ns: -row.on_path().0 }).collect(),
            expected: experiment.blamed.iter().map(|&row| row.to_owned()).collect(),
        }
    }

    /// The rows, and their share of what the boot became shorter if that is not all of it.
    fn blame(&self) -> String {
        let rows: Vec<&str> = self.blamed.iter().map(|blame| blame.row.as_str()).collect();
        let saved: i64 = self.blamed.iter().map(|blame| blame.saved_ns).sum();
        let share = saved as f64 / (self.slow_total_ns - self.fast_total_ns) as f64;
        let share = if share < NOT_ALL { format!(" ({:.0} % of the saving)", 100.0 * share) } else { String::new() };
        format!("{}{share}", harmless(&rows.join(", ")))
    }
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
        (Some(slow), Some(fast)) if fast > 0 => {
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
        for cell in ["per GB", "15.0 ms → 3.50 ms", "4.3", "16.8 ms → 3.15 ms", "5.3", "SYSINIT vm_mem", "right"] {
            assert!(line.contains(cell), "no {cell:?} in {line}");
        }
        assert!(text.ends_with("; all blamed right\n"), "{text}");
    }

    #[test]
    fn one_that_is_blamed_wrong_is_seen() {
        let mut lab = lab();
        lab.trials[0].right = false;
        assert!(!lab.all_right());
        let text = lab.text(Layout { wide_tables: true, ..Layout::default() });
        assert!(text.contains("WRONG") && text.ends_with("; 1 blamed wrong\n"), "{text}");
    }

    #[test]
    fn the_page_is_a_markdown_table() {
        let page = lab().page();
        let bars: Vec<usize> =
            page.lines().filter(|line| line.starts_with('|')).map(|line| line.matches('|').count()).collect();
        assert_eq!(bars.len(), 3 + lab().trials[1].figures.len());
        assert!(bars.iter().all(|&count| count == TITLES.len() + 1), "{bars:?}");
        assert!(page.contains("* slow: `vm_page=three-pass`"));
    }
}
