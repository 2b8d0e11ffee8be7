//! Past benches: a list, a plot of one setup's medians over time, and the changes of level.
//!
//! As a document it has the schema `bootscope.history/1`; fields are added, never renamed or removed.

use crate::paragraph::paragraph;
use crate::plot::plot;
use crate::table::{Align, Column, Line, render};
use crate::text::{amount, bytes, counted, thousands};
use crate::trial::{time, unit_of};
use crate::{Layout, harmless};
use benchmark::history::{Entry, Setup};
use benchmark::metrics::{Metric, TOTAL};
use serde::{Deserialize, Serialize};
use statistics::changes::Change;
use std::fmt::Write;

/// The name and version of the document.
pub const SCHEMA: &str = "bootscope.history/1";

/// The whole document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PastBenches {
    /// `bootscope.history/1`.
    pub schema: String,
    /// The path of the database.
    pub database: String,
    /// The number of entries that match the request; the list may be shorter.
    pub entries_in_all: u64,
    /// The newest of them, the oldest first: one variant of one bench each.
    pub entries: Vec<Entry>,
    /// The setup whose medians are drawn; `null` if no boot ever reached its end mark.
    pub setup: Option<Setup>,
    /// The metric of the medians, as budgets name it.
    #[serde(default = "length")]
    pub metric: String,
    /// The medians in order of time, each with its bench.
    pub medians: Vec<Median>,
    /// The number of the newest medians that were searched for changes.
    pub asked_for_changes: u64,
    /// The changes of level, oldest first.
    pub changes: Vec<LevelChange>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Median {
    /// The bench's number in the database.
    pub bench: i64,
    /// The median of the metric, in its unit.
    #[serde(default)]
    pub median: f64,
    /// The same value, if the metric is the boot's length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median_ns: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LevelChange {
    /// The first bench of the new level.
    pub bench: i64,
    /// Its place among the medians.
    pub at: usize,
    /// The start of that bench.
    pub created: String,
    pub kernel: String,
    /// The median of the medians since the change before, in the metric's unit.
    #[serde(default)]
    pub before: f64,
    /// The median of the medians up to the next change.
    #[serde(default)]
    pub after: f64,
    /// `before`, if the metric is the boot's length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_ns: Option<f64>,
    /// `after`, if the metric is the boot's length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_ns: Option<f64>,
    /// The probability that medians without a change of level look as different.
    pub p: f64,
}

impl LevelChange {
    /// Makes the entry for a change that was found at a place among all medians.
    pub fn of(metric: &Metric, change: &Change, at: usize, entry: &Entry) -> LevelChange {
        LevelChange {
            bench: entry.bench,
            at,
            created: entry.created.clone(),
            kernel: entry.kernel.clone(),
            before: change.before,
            after: change.after,
            before_ns: ns(metric, change.before),
            after_ns: ns(metric, change.after),
            p: change.p,
        }
    }
}

impl Median {
    /// A bench's median of a metric.
    pub fn of(metric: &Metric, bench: i64, median: f64) -> Median {
        Median { bench, median, median_ns: ns(metric, median) }
    }
}

/// The value of a field with the older name, which only the boot's length has.
fn ns(metric: &Metric, value: f64) -> Option<f64> {
    (*metric == TOTAL).then_some(value)
}

fn length() -> String {
    TOTAL.name.to_owned()
}

impl PastBenches {
    fn metric(&self) -> &'static Metric {
        Metric::named(&self.metric).unwrap_or(&TOTAL)
    }

    /// An amount of the metric. The length of a deterministic boot is in instructions.
    fn amount(&self, deterministic: bool, value: f64) -> String {
        if self.metric() == &TOTAL { time(unit_of(deterministic), value) } else { amount(self.metric().unit, value) }
    }

    /// The text for a terminal.
    pub fn text(&self, layout: Layout) -> String {
        let mut out = String::new();
        let _ = writeln!(out, "{} in {}", entries(self.entries_in_all), harmless(&self.database));
        if let Some(setup) = &self.setup {
            out.push('\n');
            paragraph(&harmless(&setup_line(setup)), "", layout, &mut out);
            let medians: Vec<f64> = self.medians.iter().map(|m| m.median).collect();
            let changes: Vec<usize> = self.changes.iter().map(|c| c.at).collect();
            if self.metric() != &TOTAL {
                let _ = writeln!(out, "{}", self.metric().text);
            }
            // A single bench has nothing to plot.
            if medians.len() > 1 {
                out.push_str(&plot(&medians, &changes, |value| self.amount(setup.is_deterministic(), value), layout));
                self.levels(setup, layout, &mut out);
            }
        }
        out.push('\n');
        self.list(layout, &mut out);
        out
    }

    /// Writes the changes of level.
    fn levels(&self, setup: &Setup, layout: Layout, out: &mut String) {
        let all = self.medians.len() as u64;
        let newest = if self.asked_for_changes < all {
            format!(" the newest {} of", thousands(self.asked_for_changes))
        } else {
            String::new()
        };
        if self.changes.is_empty() {
            let _ = writeln!(out, "no change of level among{newest} {} benches", thousands(all));
        } else if !newest.is_empty() {
            let _ = writeln!(out, "changes of level among{newest} {} benches:", thousands(all));
        }
        let amount = |value| self.amount(setup.is_deterministic(), value);
        for c in &self.changes {
            let change = 100.0 * (c.after / c.before - 1.0);
            let p = if c.p < 0.001 { "p < 0.001".to_owned() } else { format!("p = {:.3}", c.p) };
            let text = format!(
                "from bench {} on ({}, {}): {} → {}, {}{:.1} %, {p}",
                c.bench,
                minute(&c.created),
                c.kernel,
                amount(c.before),
                amount(c.after),
                if change < 0.0 { "−" } else { "+" },
                change.abs()
            );
            paragraph(&harmless(&text), "", layout, out);
        }
    }

    fn list(&self, layout: Layout, out: &mut String) {
        let columns = [
            Column::new("bench", Align::Right, Some(8)),
            Column::new("begun (UTC)", Align::Left, Some(16)),
            Column::new("kernel", Align::Left, Some(26)),
            Column::new("boots", Align::Right, Some(9)),
            Column::new("median", Align::Right, Some(13)),
            Column::new("interval", Align::Left, Some(28)),
            Column::new("setup", Align::Right, Some(5)),
            Column::new("variant", Align::Left, None),
        ];
        let line = |e: &Entry| {
            let kernel = format!("{} {}", e.kernel, e.kernel_sha256.get(..8).unwrap_or_default());
            let reached = e.boots - e.failed.min(e.boots);
            let boots = if e.failed > 0 { format!("{reached} of {}", e.boots) } else { e.boots.to_string() };
            let level = e.level(self.metric());
            let amount = |value| self.amount(e.deterministic, value);
            let interval = level.map_or_else(String::new, |l| format!("{} to {}", amount(l.low), amount(l.high)));
            let median = level.map_or_else(String::new, |l| amount(l.median));
            let cells = [
                e.bench.to_string(),
                minute(&e.created),
                kernel.trim().to_owned(),
                boots,
                median,
                interval,
                e.setup.to_string(),
                e.name.clone(),
            ];
            Line { cells: cells.iter().map(|cell| harmless(cell).into_owned()).collect(), faint: false }
        };
        let lines: Vec<Line> = self.entries.iter().map(line).collect();
        render(&columns, &lines, layout.table_width(), layout.style, out);
        let older = self.entries_in_all.saturating_sub(self.entries.len() as u64);
        if older > 0 {
            let _ = writeln!(out, "{} older; --top {} lists them", thousands(older), self.entries_in_all);
        }
    }
}

/// The text of a setup: kernel, machine, options.
fn setup_line(setup: &Setup) -> String {
    let append = if setup.append.is_empty() { String::new() } else { format!(" · \"{}\"", setup.append) };
    format!(
        "setup {}: {} under {} · {} · {}{append} · {} · {}",
        setup.setup,
        setup.machine,
        setup.accelerator,
        counted(setup.cpus.into(), "CPU"),
        bytes(setup.memory_bytes),
        setup.vmm,
        setup.host
    )
}

/// `2026-01-02T03:04:05Z` to the minute.
fn minute(created: &str) -> String {
    created.get(..16).unwrap_or(created).replace('T', " ")
}

fn entries(n: u64) -> String {
    if n == 1 { "1 entry".to_owned() } else { format!("{} entries", thousands(n)) }
}
