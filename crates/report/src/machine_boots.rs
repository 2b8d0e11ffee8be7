//! The newest boots of one machine: a table with the updates that each came with, and the steps of their length.
//!
//! As a document it has the schema `bootscope.history-boots/1`; fields are added, never renamed or removed.

use crate::paragraph::paragraph;
use crate::table::{Align, Column, Line, render};
use crate::text::{counted, thousands};
use crate::{Layout, harmless};
use benchmark::history::{Machine, PartKind};
use serde::{Deserialize, Serialize};
use statistics::Interval;
use std::fmt::Write;
use timeline::Unit;

/// The name and version of the document.
pub const SCHEMA: &str = "bootscope.history-boots/1";
/// The most packages and moved parts of which the text has the names.
const MAX_NAMED: usize = 3;
/// The most parts that moved of a step, in the text.
const MAX_MOVED: usize = 6;

/// The whole document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct MachineBoots {
    /// `bootscope.history-boots/1`.
    pub schema: String,
    /// The path of the database.
    pub database: String,
    /// The machine whose boots follow.
    pub machine: String,
    /// All machines of the history, the one with the newest boot first.
    pub machines: Vec<Machine>,
    /// The number of boots of this machine; the list may be shorter.
    pub boots_in_all: u64,
    /// Its newest boots, oldest first.
    pub boots: Vec<MachineBootLine>,
    /// The number of the newest boots that were searched for steps. A boot whose end mark is not that of most boots, or that has
    /// no length, is not compared.
    pub compared: u64,
    /// The least number of compared boots for a search.
    pub needed: u64,
    /// The steps of the length, oldest first.
    pub steps: Vec<StepLine>,
}

/// A boot of the list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct MachineBootLine {
    /// The boot's number in the database.
    pub boot: i64,
    /// The time when it began; `null` if the machine's clock was wrong.
    pub began: Option<String>,
    /// Its place among the boots: `began`, or when it was added.
    pub placed: String,
    pub kernel: String,
    /// The version of the firmware; empty if unknown.
    pub firmware: String,
    /// The outcome, as in `show --json`.
    pub outcome: String,
    /// The code of what shows the end, as in `show --json`.
    pub end_code: String,
    /// The unit of its times, as in `show --json`.
    pub unit: String,
    /// Its length; `null` without an end mark.
    pub total_ns: Option<i64>,
    /// The change since the compared boot before; 0.05 is 5 % slower.
    pub change: Option<f64>,
    /// True if it is compared with the others.
    pub is_compared: bool,
    /// The updates since the boot before.
    pub updates: Vec<UpdateLine>,
    /// Its phases and the milestones that it passed.
    pub parts: Vec<BootPartLine>,
}

/// Something that was updated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct UpdateLine {
    /// `kernel`, `firmware` or `package`.
    pub kind: UpdateKind,
    /// The package's name; empty for kernel and firmware.
    pub name: String,
    /// The version before; empty for a new package.
    pub before: String,
    /// The version now; empty for a removed package.
    pub after: String,
}

/// A component that updates change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UpdateKind {
    Kernel,
    Firmware,
    Package,
}

/// A stretch or a point of a boot, with its time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct BootPartLine {
    /// `phase`, `milestone` or `row`.
    pub kind: PartKind,
    pub name: String,
    /// The length of a phase or a row; the time of a milestone since time zero.
    pub ns: i64,
}

/// A step of the length.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct StepLine {
    /// The first boot of the new level.
    pub boot: i64,
    /// Its place in time.
    pub placed: String,
    pub kernel: String,
    /// True if the step is at an update.
    pub is_at_update: bool,
    /// The updates since the compared boot before.
    pub updates: Vec<UpdateLine>,
    /// The median of the level before.
    pub before_ns: f64,
    /// The median of the new level.
    pub after_ns: f64,
    /// The ratio of the new level to the one before.
    pub ratio: Interval,
    /// The probability of so clear a step by chance, at any place.
    pub p: f64,
    /// The number of boots of the level before.
    pub boots_before: u64,
    /// The number of boots of the new level.
    pub boots_after: u64,
    /// The phases and rows that moved, those that moved most first. In one of twenty such lists, one moved by chance.
    pub moved: Vec<MovedPart>,
}

/// A phase or a row that moved with a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct MovedPart {
    /// `phase` or `row`.
    pub kind: PartKind,
    pub name: String,
    /// The median of the level before; 0 if no boot had it.
    pub before_ns: f64,
    pub after_ns: f64,
    /// The probability by chance, corrected for the number of parts.
    pub p: f64,
}

impl MachineBoots {
    /// The text for a terminal.
    pub fn text(&self, layout: Layout) -> String {
        let unit = self.boots.iter().rev().find(|boot| boot.is_compared).map_or("", |boot| &boot.unit);
        let layout = Layout { unit: Unit::named(unit), ..layout };
        let mut out = String::new();
        let (listed, all) = (thousands(self.boots.len() as u64), counted(self.boots_in_all, "boot"));
        let title = format!("{listed} of {all} of {} in {}", harmless(&self.machine), harmless(&self.database));
        paragraph(&title, "", layout, &mut out);
        out.push('\n');
        self.table(layout, &mut out);
        out.push('\n');
        self.answer(layout, &mut out);
        let others = self.machines.len().saturating_sub(1) as u64;
        if others > 0 {
            let _ = writeln!(out, "{} more; --machine NAME lists one:", counted(others, "machine"));
            for machine in self.machines.iter().filter(|machine| machine.machine != self.machine).take(layout.top) {
                let _ = writeln!(out, "  {} ({})", harmless(&machine.machine), counted(machine.boots, "boot"));
            }
        }
        out
    }

    fn table(&self, layout: Layout, out: &mut String) {
        let columns = [
            Column::new("when (UTC)", Align::Left, Some(16)),
            Column::new("kernel", Align::Left, Some(26)),
            Column::new("total", Align::Right, Some(layout.time_width())),
            Column::new("change", Align::Right, Some(8)),
            Column::new("came with", Align::Left, None),
        ];
        let line = |boot: &MachineBootLine| {
            let when = boot.began.as_deref().map_or_else(|| "clock was wrong".to_owned(), minute);
            let total = boot.total_ns.map_or_else(|| "no end mark".to_owned(), |total| layout.time(total));
            let change = boot.change.map_or_else(String::new, per_cent);
            let mut came_with = came_with(&boot.updates);
            if !boot.is_compared && boot.total_ns.is_some() {
                came_with = format!("not compared, it ends at {}; {came_with}", boot.end_code);
            }
            let cells = [when, boot.kernel.clone(), total, change, came_with.trim_end_matches("; ").to_owned()];
            Line { cells: cells.iter().map(|cell| harmless(cell).into_owned()).collect(), faint: !boot.is_compared }
        };
        let lines: Vec<Line> = self.boots.iter().map(line).collect();
        render(&columns, &lines, layout.table_width(), layout.style, out);
    }

    /// Writes whether boots became slower, and how sure that is.
    fn answer(&self, layout: Layout, out: &mut String) {
        if self.compared < self.needed {
            let _ = writeln!(out, "{} compared; a search needs {}", counted(self.compared, "boot"), self.needed);
        } else if self.steps.is_empty() {
            let _ = writeln!(out, "no step beyond the noise in {}", counted(self.compared, "boot"));
        }
        for step in &self.steps {
            let direction = if step.ratio.estimate > 1.0 { "slower" } else { "faster" };
            let with = if step.is_at_update { came_with(&step.updates) } else { "no known update".to_owned() };
            let text = format!(
                "{direction} since {}, with {with}: {} → {}, {} ({} to {}), p {}, {} before and {} after",
                minute(&step.placed),
                layout.time(timeline::rounded(step.before_ns)),
                layout.time(timeline::rounded(step.after_ns)),
                per_cent(step.ratio.estimate - 1.0),
                per_cent(step.ratio.low - 1.0),
                per_cent(step.ratio.high - 1.0),
                if step.p < 0.0001 { "< 0.0001".to_owned() } else { format!("= {:.4}", step.p) },
                counted(step.boots_before, "boot"),
                step.boots_after,
            );
            paragraph(&harmless(&text), "", layout, out);
            for part in step.moved.iter().take(MAX_MOVED) {
                let moved = part.after_ns - part.before_ns;
                let sign = if moved < 0.0 { "−" } else { "+" };
                let size = layout.time(timeline::rounded(moved.abs()));
                let text = format!("{} {}: {sign}{size}", part.kind.as_str(), part.name);
                paragraph(&harmless(&text), "  ", layout, out);
            }
            if step.moved.is_empty() {
                let _ = writeln!(out, "  no phase and no row moved beyond its own noise");
            }
        }
    }
}

/// The updates in a few words.
fn came_with(updates: &[UpdateLine]) -> String {
    let mut words = Vec::new();
    for (kind, name) in [(UpdateKind::Kernel, "kernel"), (UpdateKind::Firmware, "firmware")] {
        let of_kind = updates.iter().filter(|update| update.kind == kind);
        words.extend(of_kind.map(|update| format!("{name} {} → {}", update.before, update.after)));
    }
    let packages: Vec<&UpdateLine> = updates.iter().filter(|update| update.kind == UpdateKind::Package).collect();
    if !packages.is_empty() {
        let named: Vec<&str> = packages.iter().take(MAX_NAMED).map(|update| update.name.as_str()).collect();
        let more = if packages.len() > MAX_NAMED { ", …" } else { "" };
        words.push(format!("{} ({}{more})", counted(packages.len() as u64, "package"), named.join(", ")));
    }
    words.join(", ")
}

/// A relative change with its sign: `+5.2 %`.
fn per_cent(change: f64) -> String {
    format!("{}{:.1} %", if change < 0.0 { "−" } else { "+" }, 100.0 * change.abs())
}

/// `2026-01-02T03:04:05Z` to the minute.
fn minute(time: &str) -> String {
    time.get(..16).unwrap_or(time).replace('T', " ")
}
