//! Past benches: a list, a picture of one setup's medians over time, and where they changed level.
//!
//! As a document it has the schema `bootscope.history/1`; fields are added, never renamed or removed.

use crate::plot::plot;
use crate::table::{Align, Column, Line, render};
use crate::terminal::paragraph;
use crate::text::{bytes, counted, thousands};
use crate::{Layout, harmless};
use benchmark::history::{Entry, Setup};
use benchmark::stats::changes::Change;
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use timeline::Ns;

/// The name and version of the document.
pub const SCHEMA: &str = "bootscope.history/1";

/// The whole document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PastBenches {
    /// `bootscope.history/1`.
    pub schema: String,
    /// The database.
    pub database: String,
    /// How many entries fit what was asked for; the list may be shorter.
    pub entries_in_all: u64,
    /// The newest of them, the oldest first: one variant of one bench each.
    pub entries: Vec<Entry>,
    /// The setup whose medians are drawn; `null` where no boot ever reached its end mark.
    pub setup: Option<Setup>,
    /// Its medians in order of time, each with its bench.
    pub medians: Vec<Median>,
    /// How many of the newest medians were asked for changes.
    pub asked_for_changes: u64,
    /// Where they changed level, oldest first.
    pub changes: Vec<LevelChange>,
}

/// The median of one bench.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Median {
    /// The bench's number in the database.
    pub bench: i64,
    /// Median of its totals.
    pub median_ns: f64,
}

/// A change of level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LevelChange {
    /// The first bench of the new level.
    pub bench: i64,
    /// Its place among the medians.
    pub at: usize,
    /// When it began.
    pub created: String,
    /// Its kernel.
    pub kernel: String,
    /// Median of the medians since the change before.
    pub before_ns: f64,
    /// And until the next change.
    pub after_ns: f64,
    /// The probability of so clear a change without any.
    pub p: f64,
}

impl LevelChange {
    /// A change that was found at a place among all medians.
    pub fn of(change: &Change, at: usize, entry: &Entry) -> LevelChange {
        LevelChange {
            bench: entry.bench,
            at,
            created: entry.created.clone(),
            kernel: entry.kernel.clone(),
            before_ns: change.before,
            after_ns: change.after,
            p: change.p,
        }
    }
}

impl PastBenches {
    /// As text for a terminal.
    pub fn text(&self, layout: Layout) -> String {
        let mut out = String::new();
        let _ = writeln!(out, "{} in {}", entries(self.entries_in_all), harmless(&self.database));
        if let Some(setup) = &self.setup {
            out.push('\n');
            paragraph(&harmless(&said(setup)), "", layout, &mut out);
            let medians: Vec<f64> = self.medians.iter().map(|m| m.median_ns).collect();
            let changes: Vec<usize> = self.changes.iter().map(|c| c.at).collect();
            out.push_str(&plot(&medians, &changes, layout));
            self.levels(layout, &mut out);
        }
        out.push('\n');
        self.list(layout, &mut out);
        out
    }

    /// What changed when.
    fn levels(&self, layout: Layout, out: &mut String) {
        let all = self.medians.len() as u64;
        let of = if self.asked_for_changes < all {
            format!(" the newest {} of", thousands(self.asked_for_changes))
        } else {
            String::new()
        };
        if self.changes.is_empty() {
            let _ = writeln!(out, "no change of level among{of} {} benches", thousands(all));
        } else if !of.is_empty() {
            let _ = writeln!(out, "changes of level among{of} {} benches:", thousands(all));
        }
        for c in &self.changes {
            let change = 100.0 * (c.after_ns / c.before_ns - 1.0);
            let p = if c.p < 0.001 { "p < 0.001".to_owned() } else { format!("p = {:.3}", c.p) };
            let text = format!(
                "from bench {} on ({}, {}): {} → {}, {}{:.1} %, {p}",
                c.bench,
                minute(&c.created),
                c.kernel,
                time(c.before_ns),
                time(c.after_ns),
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
            Column::new("median", Align::Right, Some(9)),
            Column::new("interval", Align::Left, Some(20)),
            Column::new("setup", Align::Right, Some(5)),
            Column::new("variant", Align::Left, None),
        ];
        let line = |e: &Entry| {
            let kernel = format!("{} {}", e.kernel, e.kernel_sha256.get(..8).unwrap_or_default());
            let reached = e.boots - e.failed.min(e.boots);
            let boots = if e.failed > 0 { format!("{reached} of {}", e.boots) } else { e.boots.to_string() };
            let interval =
                e.low_ns.zip(e.high_ns).map_or_else(String::new, |(l, h)| format!("{} to {}", time(l), time(h)));
            let median = e.median_ns.map_or_else(String::new, time);
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

/// A setup in a line.
fn said(setup: &Setup) -> String {
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

fn time(ns: f64) -> String {
    Ns(ns.round() as i64).to_string()
}
