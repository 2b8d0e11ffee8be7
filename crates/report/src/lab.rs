//! The reference kernel's experiments as a document, a table and a page. For each experiment they have the slow boot,
//! the boot with the remedy, the published figures, the blamed rows, and the prediction of `what-if`. `trial` compares
//! the two boots.
//!
//! As a document it has the schema `bootscope.lab/1`; fields are added, never renamed or removed. `lab.example.json`,
//! beside this file, is a complete document; a test parses it. The page that `--page` writes is the same as Markdown.

mod amount;
mod boot;
mod check;
mod figure;
mod trial;

pub use amount::LabAmount;
pub use boot::LabBoot;
pub use check::LabCheck;
pub use figure::LabFigure;
pub use trial::{LabAdded, LabBlame, LabTrial};

use crate::table::{Align, Column, Line, render};
use crate::{Layout, harmless};
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use timeline::{Ns, Unit};

/// The name and version of the document.
const SCHEMA: &str = "bootscope.lab/1";
/// The share of the saving below which the table adds a remark.
const NOT_ALL: f64 = 0.995;
/// The whole document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Lab {
    /// `bootscope.lab/1`.
    pub schema: String,
    /// The VMM that ran the boots.
    pub vmm: String,
    /// The meaning of a nanosecond in these boots.
    pub unit: String,
    /// A trial for each remedy of each experiment.
    pub trials: Vec<LabTrial>,
}

impl Lab {
    /// Makes the document of trials that ran in boots with one instruction per nanosecond.
    pub fn new(vmm: &str, trials: Vec<LabTrial>) -> Lab {
        let unit = "instructions of deterministic boots; guest time where boots have timed waits, one nanosecond for each instruction";
        Lab { schema: SCHEMA.to_owned(), vmm: vmm.to_owned(), unit: unit.to_owned(), trials }
    }

    /// True if every trial blamed the right rows, and `what-if` predicted every saving.
    pub fn all_right(&self) -> bool {
        self.trials.iter().all(|trial| trial.right)
    }

    /// The text for a terminal: a line for each figure.
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
        for (what, field) in [("chosen", (|t| &t.chosen) as fn(&LabTrial) -> &String), ("note", |t| &t.note)] {
            let mut texts: Vec<(&str, &str)> =
                self.trials.iter().map(|t| (t.name.as_str(), field(t).as_str())).collect();
            texts.retain(|(_, text)| !text.is_empty());
            texts.dedup();
            for (name, text) in texts {
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

    /// The page in Markdown, each row with the words to boot it by.
    pub fn page(&self) -> String {
        let mut out = PAGE.to_owned();
        let row = |cells: &[String]| format!("|{}|\n", cells.join("|"));
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
                let _ = writeln!(out, "* slow: `{}`: {}", trial.slow, measured(trial.slow_total_ns, trial.has_waits));
            }
            let _ = write!(out, "* fast: `{}`: {}", trial.fast, measured(trial.fast_total_ns, trial.has_waits));
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
            for (n, figures) in
                checked.chain(timed).chain(trial.amounts.iter().map(|amount| amount.cells(trial.has_waits))).enumerate()
            {
                let first = |text: String| if n == 0 { text } else { String::new() };
                // If a check decides, there is no prediction, and times mean nothing.
                let time = |ns: Option<i64>| match (&trial.check, ns) {
                    (None, Some(ns)) => first(measured_in(trial.has_waits).show(Ns(ns))),
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

/// A length in a boot of the lab, which is deterministic.
fn measured(ns: i64, has_waits: bool) -> String {
    measured_in(has_waits).show(Ns(ns))
}

/// The unit of what is measured in the lab's boots. It is guest time where the boots have timed waits.
fn measured_in(has_waits: bool) -> Unit {
    if has_waits { Unit::GuestTime } else { Unit::Instructions }
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

impl LabTrial {
    /// The blamed rows, and their share of the saving if it is not all of it.
    fn blame(&self) -> String {
        let rows: Vec<&str> = self.blamed.iter().map(|blame| blame.row.as_str()).collect();
        let saved: i64 = self.blamed.iter().map(|blame| blame.saved_ns).sum();
        let share = saved as f64 / self.saved_ns as f64;
        // A remedy that adds time saves less than its rows, so the share would mislead.
        let share = if share < NOT_ALL && !rows.is_empty() && self.added.is_empty() {
            format!(" ({:.0} % of the saving)", 100.0 * share)
        } else {
            String::new()
        };
        let parts = [format!("{}{share}", harmless(&rows.join(", "))), self.costs()];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
    }

    /// The rows that the remedy adds time to; empty if it adds no time.
    fn costs(&self) -> String {
        let rows: Vec<&str> = self.added.iter().map(|added| added.row.as_str()).collect();
        let added: i64 = self.added.iter().map(|added| added.added_ns).sum();
        if rows.is_empty() {
            String::new()
        } else {
            format!("adds {}, {}", measured(added, self.has_waits), harmless(&rows.join(", ")))
        }
    }

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

    /// The remarks beyond the verdict.
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
        let cells = [
            "per GB",
            "15.0 ms → 3.50 ms",
            "4.3",
            "16.8 M instr → 3.15 M instr",
            "5.3",
            "SYSINIT vm_mem",
            "13.6 M instr",
        ];
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

    /// 4.6 % of the saving is 1.15 times the boot: such a difference always needs a remark.
    #[test]
    fn a_boot_that_took_something_else_than_foretold_says_why() {
        let mut lab = lab();
        let trial = &mut lab.trials[0];
        (trial.foretold_total_ns, trial.fast_total_ns, trial.total_near) = (Some(747_000_000), 347_000_000, false);
        trial.differs = "the remedy needs ada0 alone".to_owned();
        let text = |lab: &Lab| lab.text(Layout { wide_tables: true, ..Layout::default() });
        for words in [
            "747 M instr",
            "347 M instr",
            "right, total differs",
            "vm_page=one-pass: total differs: the remedy needs ada0",
        ] {
            assert!(text(&lab).contains(words), "no {words:?} in {}", text(&lab));
        }
        assert!(lab.page().contains("  * total differs: the remedy needs ada0 alone\n"), "{}", lab.page());
        lab.trials[0].no_better = "a tick is waited for".to_owned();
        let line = text(&lab);
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

    /// The remedy costs more than it saves, and its row has both figures.
    #[test]
    fn time_added_by_a_remedy_is_shown_and_subtracted() {
        let mut lab = lab();
        let trial = &mut lab.trials[0];
        trial.added = vec![LabAdded { row: "wake_aps · DELAY".to_owned(), added_ns: 70_000_000 }];
        trial.saved_ns = -56_350_000;
        let text = lab.text(Layout { wide_tables: true, ..Layout::default() });
        let line = text.lines().find(|line| line.starts_with("page-array")).unwrap();
        assert!(line.contains("SYSINIT vm_mem; adds 70.0 M instr, wake_a") && line.contains("-56.4 M instr"), "{line}");
    }

    #[test]
    fn a_check_has_a_verdict_in_the_place_of_a_time() {
        let mut lab = lab();
        let text = |lab: &Lab| lab.text(Layout { wide_tables: true, ..Layout::default() });
        let line = |lab: &Lab| text(lab).lines().find(|line| line.starts_with("tlb-shootdown")).unwrap().to_owned();
        let cells: Vec<String> = line(&lab).split("  ").map(|cell| cell.trim().to_owned()).collect();
        let cells: Vec<&str> = cells.iter().map(String::as_str).filter(|cell| !cell.is_empty()).collect();
        assert_eq!(cells, ["tlb-shootdown", "shootdown=ipi", "tlb-shootdown", "broken → correct", "right"]);
        assert!(
            text(&lab).contains("tlb-shootdown shootdown=ipi: counted with the remedy: 1000 rounds, 3000 faults\n")
        );
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
