//! How a boot grows with its machine, over recordings of several sizes.
//!
//! As a document it has the schema `bootscope.fit/1`; fields are added, never renamed or removed. `fit.example.json`,
//! beside this file, is a whole document; a test parses it.

use crate::table::{Align, Column, Line as TableLine, render};
use crate::text::counted;
use crate::{Boot, Layout, harmless};
use analysis::{Growth, Per, Size, SizedBoot};
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use timeline::Ns;

/// The name and version of the document.
const SCHEMA: &str = "bootscope.fit/1";

/// The whole document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// `bootscope.fit/1`.
    pub schema: String,
    /// What the recordings differ in: `cpus`, or `memory` in GB of 2^30 bytes.
    pub size: String,
    /// The recordings, the smallest first.
    pub recordings: Vec<FitRecording>,
    /// First the whole boot (`total`), then its rows: those that add the most per unit of size first.
    pub rows: Vec<FitRow>,
}

/// One of the recordings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FitRecording {
    /// Its path.
    pub recording: String,
    /// Its size.
    pub size: f64,
    /// How long its boot took.
    pub total_ns: i64,
}

/// How a row of `where` grows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FitRow {
    /// The row.
    pub name: String,
    /// Whether it grows or shrinks by more than the error of its slope.
    pub grows: bool,
    /// What the slope is per: `CPU`, `AP` (a CPU other than the first, where one CPU takes nothing), or `GB`.
    pub per: String,
    /// What a unit of size adds.
    pub slope_ns: f64,
    /// Half the 95 % interval of that; `null` with two sizes.
    pub slope_error_ns: Option<i64>,
    /// What the line has at size zero; per AP, at one CPU.
    pub constant_ns: i64,
    /// What was measured, in the order of `recordings`.
    pub measured_ns: Vec<i64>,
    /// What it would take at other sizes.
    pub predicted: Vec<Predicted>,
}

/// What a row would take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Predicted {
    /// At what size.
    pub at: f64,
    /// So long.
    pub ns: i64,
    /// Half the 95 % interval of the line there; `null` with two sizes.
    pub error_ns: Option<i64>,
}

impl Fit {
    /// Fits the rows of boots of several sizes; each has its name and its size. `at` are sizes to predict.
    pub fn new(boots: &[(String, f64, &Boot)], size: Size, at: &[f64]) -> Fit {
        let mut boots: Vec<_> = boots.iter().collect();
        boots.sort_by(|a, b| a.1.total_cmp(&b.1));
        let sized = |(_, size, boot): &&(String, f64, &Boot)| SizedBoot {
            size: *size,
            total: boot.total,
            rows: boot.tables().wheres.iter().map(|row| (row.name.clone(), row.self_time)).collect(),
        };
        let growth = analysis::growth(&boots.iter().map(sized).collect::<Vec<_>>(), size);
        let recording = |(name, size, boot): &&(String, f64, &Boot)| FitRecording {
            recording: name.clone(),
            size: *size,
            total_ns: boot.total.0,
        };
        Fit {
            schema: SCHEMA.to_owned(),
            size: match size {
                Size::Cpus => "cpus".to_owned(),
                Size::Memory => "memory".to_owned(),
            },
            recordings: boots.iter().map(recording).collect(),
            rows: growth.iter().map(|growth| row(growth, at)).collect(),
        }
    }

    /// As text for a terminal: how each row grows, what it would take, and what does not grow.
    pub fn text(&self, layout: Layout) -> String {
        let mut out = String::new();
        for r in &self.recordings {
            let size = show_size(&self.size, r.size);
            let _ = writeln!(out, "{size}: {} ({})", Ns(r.total_ns), harmless(&r.recording));
        }
        out.push('\n');
        let mut columns = vec![
            Column::new("row", Align::Left, None),
            Column::new("takes", Align::Left, Some(40)),
            Column::new("±95 %", Align::Right, Some(9)),
        ];
        let ats: Vec<f64> = self.rows.first().map(|r| r.predicted.iter().map(|p| p.at).collect()).unwrap_or_default();
        columns.extend(ats.iter().map(|_| Column::new("then", Align::Right, Some(20))));
        let growing = |row: &&FitRow| row.grows || row.name == analysis::TOTAL;
        let lines: Vec<TableLine> =
            self.rows.iter().filter(growing).take(layout.top.saturating_add(1)).map(|row| line(row, &ats)).collect();
        render(&columns, &lines, layout.table_width(), layout.style, &mut out);
        let at: Vec<String> = ats.iter().map(|&at| show_size(&self.size, at)).collect();
        if !at.is_empty() {
            let _ = writeln!(out, "then: at {}", at.join(", at "));
        }
        let unlisted = self.rows.iter().filter(growing).count() - lines.len();
        if unlisted > 0 {
            let _ = writeln!(out, "{} more grow, by less", counted(unlisted as u64, "row"));
        }
        let still: Vec<&FitRow> = self.rows.iter().filter(|row| !growing(row)).collect();
        if !still.is_empty() {
            let sum: i64 = still.iter().filter_map(|row| row.measured_ns.last()).sum();
            let _ = writeln!(
                out,
                "{} not seen to grow: {} at the largest size",
                counted(still.len() as u64, "row"),
                Ns(sum)
            );
        }
        if self.rows.first().is_some_and(|row| row.slope_error_ns.is_none()) {
            out.push_str("two recordings are a line, but say nothing of its error: a third one would\n");
        }
        out
    }
}

fn row(growth: &Growth, at: &[f64]) -> FitRow {
    let from = if growth.per == Per::Ap { 1.0 } else { 0.0 };
    let predicted =
        |&at: &f64| Predicted { at, ns: growth.line.at(at).0, error_ns: growth.line.error_at(at).map(|error| error.0) };
    FitRow {
        name: growth.name.clone(),
        grows: growth.grows,
        per: match growth.per {
            Per::Cpu => "CPU",
            Per::Ap => "AP",
            Per::Gb => "GB",
        }
        .to_owned(),
        slope_ns: growth.line.slope_ns,
        slope_error_ns: growth.line.slope_error().map(|error| error.0),
        constant_ns: growth.constant().map_or(0, |_| growth.line.at(from).0),
        measured_ns: growth.points.iter().map(|p| p.1.0).collect(),
        predicted: at.iter().map(predicted).collect(),
    }
}

fn line(row: &FitRow, ats: &[f64]) -> TableLine {
    let error = row.slope_error_ns.map_or_else(|| "?".to_owned(), |error| format!("±{}", Ns(error)));
    let mut cells = vec![harmless(&row.name).into_owned(), law(row), error];
    cells.extend(row.predicted.iter().take(ats.len()).map(|p| {
        let error = p.error_ns.filter(|&error| error > 0).map_or_else(String::new, |e| format!(" ±{}", Ns(e)));
        format!("{}{error}", Ns(p.ns))
    }));
    TableLine { cells, faint: row.name == analysis::TOTAL }
}

/// `41.0 ms per AP`, `2.68 s + 35.0 ms per CPU`.
fn law(row: &FitRow) -> String {
    let slope = Ns(row.slope_ns.round() as i64);
    let sign = if slope < Ns::ZERO { "−" } else { "+" };
    match row.constant_ns {
        _ if !row.grows => format!("{}, not seen to grow", Ns(row.constant_ns)),
        0 => format!("{slope} per {}", row.per),
        constant => format!("{} {sign} {} per {}", Ns(constant), slope.abs(), row.per),
    }
}

fn show_size(what: &str, size: f64) -> String {
    match what {
        "cpus" => counted(size as u64, "CPU"),
        _ if size >= 1024.0 => format!("{} TB", size / 1024.0),
        _ => format!("{} GB", size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_is_the_document() {
        let text = include_str!("fit.example.json");
        let example: Fit = serde_json::from_str(text).expect("the example parses");
        assert_eq!(example.schema, SCHEMA);
        // Equal as values: the example has every field that is written, and no other.
        let again = serde_json::to_value(&example).unwrap();
        assert_eq!(again, serde_json::from_str::<serde_json::Value>(text).unwrap());
    }

    #[test]
    fn laws_are_said_as_people_say_them() {
        let ms = 1_000_000;
        let row = |per: &str, constant: i64, slope_ms: f64, grows| FitRow {
            per: per.to_owned(),
            constant_ns: constant,
            slope_ns: slope_ms * 1e6,
            grows,
            ..FitRow::default()
        };
        assert_eq!(law(&row("AP", 0, 41.0, true)), "41.0 ms per AP");
        assert_eq!(law(&row("CPU", 2_680 * ms, 35.0, true)), "2.68 s + 35.0 ms per CPU");
        assert_eq!(law(&row("GB", 0, 3.5, true)), "3.50 ms per GB");
        assert_eq!(law(&row("CPU", 500 * ms, -2.0, true)), "500 ms − 2.00 ms per CPU");
        assert_eq!(law(&row("CPU", 500 * ms, 0.1, false)), "500 ms, not seen to grow");
    }
}
