//! The growth of a boot with its machine, from recordings of several sizes.
//!
//! As a document it has the schema `bootscope.fit/1`; fields are added, never renamed or removed. `fit.example.json`,
//! beside this file, is a complete document; a test parses it.

use crate::table::{Align, Column, Line as TableLine, render};
use crate::text::counted;
use crate::{Boot, Layout, harmless};
use benchmark::fit::{self, Forecast, Growth, Per, Shape, Size, SizedBoot, forecast};
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use timeline::{Ns, Unit, rounded, rounded_count};

/// The name and version of the document.
const SCHEMA: &str = "bootscope.fit/1";

/// The whole document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Fit {
    /// `bootscope.fit/1`.
    pub schema: String,
    /// The size in which the recordings differ: `cpus`, or `memory` in GB of 2^30 bytes.
    pub size: String,
    /// The unit of all `_ns`: `ns`, or `instructions` of deterministic boots.
    #[serde(default = "nanoseconds")]
    pub unit: String,
    /// The recordings, the smallest first.
    pub recordings: Vec<FitRecording>,
    /// First the whole boot (`total`), then its rows; those that add the most per unit of size come first.
    pub rows: Vec<FitRow>,
    /// The slope of the totals alone per unit of size, if it is not the sum of the rows' slopes. `null` if they agree,
    /// or if the totals show no slope.
    #[serde(default)]
    pub total_apart_ns: Option<f64>,
    /// Half the 95 % interval of that slope; `null` with two sizes.
    #[serde(default)]
    pub total_apart_error_ns: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FitRecording {
    pub recording: String,
    pub size: f64,
    /// The length of its boot.
    pub total_ns: i64,
}

/// The growth of a row of `where`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FitRow {
    pub name: String,
    /// True if it grows or shrinks along a line, by more than the error of its slope.
    pub grows: bool,
    /// The scaling model of its points. The total is the sum of the others: `line` if any of them is one, else `none`
    /// if any of them follows no model.
    #[serde(default, rename = "law")]
    pub model: RowModel,
    /// The unit of the slope: `CPU`, `AP` (a CPU other than the first, if one CPU takes nothing), or `GB` of 2^30
    /// bytes.
    pub per: String,
    /// The time that a unit of size adds: 0 if no growth is seen.
    pub slope_ns: f64,
    /// Half the 95 % interval of the slope, or of the mean if the row is constant; `null` with two sizes.
    pub slope_error_ns: Option<i64>,
    /// The value of its line at size zero; per AP, at one CPU. Rows without a model have no part in the total's. A row
    /// without a model, and a total of such rows, has its mean here.
    pub constant_ns: i64,
    /// The measured times, in the order of `recordings`.
    pub measured_ns: Vec<i64>,
    /// The predictions for other sizes.
    pub predicted: Vec<Predicted>,
}

fn nanoseconds() -> String {
    Unit::Nanoseconds.name().to_owned()
}

/// The scaling model of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RowModel {
    /// It grows or shrinks along a line.
    #[default]
    Line,
    /// No growth is seen.
    Mean,
    /// It changes, but not along a line.
    None,
}

/// The prediction for a size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Predicted {
    /// The size.
    pub at: f64,
    /// The predicted time.
    pub ns: i64,
    /// Half the 95 % interval of the line there; `null` with two sizes, and for a row without a model. Such a row is
    /// predicted to stay as at the nearest size.
    pub error_ns: Option<i64>,
    /// True if the line falls below zero there.
    #[serde(default)]
    pub cut: bool,
}

/// The unit of the boots' lengths. The parts of a deterministic boot's lengths are not fitted apart.
fn unit_of(boots: &[&(String, f64, &Boot)]) -> Unit {
    let unit = boots.first().map_or(Unit::Nanoseconds, |boot| boot.2.timeline.unit);
    let has_waits = boots.iter().any(|boot| boot.2.cost().waited > Ns::ZERO);
    if has_waits { unit.with_waits() } else { unit }
}

impl Fit {
    /// Fits the rows of boots of several sizes; each has its name and its size. `at` are the sizes to predict.
    pub fn new(boots: &[(String, f64, &Boot)], size: Size, at: &[f64]) -> Fit {
        let mut boots: Vec<_> = boots.iter().collect();
        boots.sort_by(|a, b| a.1.total_cmp(&b.1));
        let sized = |(_, size, boot): &&(String, f64, &Boot)| SizedBoot {
            size: *size,
            total: boot.total,
            rows: boot.tables().wheres.iter().map(|row| (row.name.clone(), row.self_time)).collect(),
        };
        let growth = fit::growth(&boots.iter().map(sized).collect::<Vec<_>>(), size);
        let recording = |(name, size, boot): &&(String, f64, &Boot)| FitRecording {
            recording: name.clone(),
            size: *size,
            total_ns: boot.total.0,
        };
        let forecasts: Vec<(f64, Vec<Forecast>)> = at.iter().map(|&at| (at, forecast(&growth, at))).collect();
        let predicted = |i: usize| forecasts.iter().map(|(at, all)| predicted(*at, all[i])).collect();
        let apart = growth.first().and_then(Growth::slope_apart);
        Fit {
            schema: SCHEMA.to_owned(),
            size: match size {
                Size::Cpus => "cpus".to_owned(),
                Size::Memory => "memory".to_owned(),
            },
            unit: unit_of(&boots).name().to_owned(),
            recordings: boots.iter().map(recording).collect(),
            rows: growth.iter().enumerate().map(|(i, growth)| row(growth, predicted(i))).collect(),
            total_apart_ns: apart.map(|(slope, _)| slope),
            total_apart_error_ns: apart.and_then(|(_, error)| error).map(|error| error.0),
        }
    }

    /// The text for a terminal: the growth of each row, the predictions, and the rows that do not grow.
    pub fn text(&self, layout: Layout) -> String {
        let layout = Layout { unit: Unit::named(&self.unit), ..layout };
        let mut out = String::new();
        for r in &self.recordings {
            let size = show_size(&self.size, r.size);
            let _ = writeln!(out, "{size}: {} ({})", layout.time(r.total_ns), harmless(&r.recording));
        }
        out.push('\n');
        let mut columns = vec![
            Column::new("row", Align::Left, None),
            Column::new("takes", Align::Left, Some(50)),
            Column::new("±95 %", Align::Right, Some(layout.time_width() + 1)),
        ];
        let ats = || self.rows.iter().take(1).flat_map(|r| r.predicted.iter().map(|p| p.at));
        let number = |at: f64| if self.size == "cpus" { format!("{at}") } else { show_size(&self.size, at) };
        columns.extend(
            ats().map(|at| Column::new(format!("at {}", number(at)), Align::Right, Some(2 * layout.time_width() + 2))),
        );
        let listed = |row: &&FitRow| row.model != RowModel::Mean || row.name == fit::TOTAL;
        let unfitted = self.unfitted();
        let lines: Vec<TableLine> = self
            .rows
            .iter()
            .filter(listed)
            .take(layout.top.saturating_add(1))
            .map(|row| line(row, unfitted, layout))
            .collect();
        render(&columns, &lines, layout.table_width(), layout.style, &mut out);
        let unlisted = self.rows.iter().filter(listed).count() - lines.len();
        if unlisted > 0 {
            let _ = writeln!(out, "{} more change, by less", counted(unlisted as u64, "row"));
        }
        let still: Vec<&FitRow> = self.rows.iter().filter(|row| !listed(row)).collect();
        if !still.is_empty() {
            let sum: i64 = still.iter().map(|row| row.constant_ns).sum();
            let _ = writeln!(
                out,
                "{} not seen to grow: {} on average",
                counted(still.len() as u64, "row"),
                layout.time(sum)
            );
        }
        self.remarks(layout, &mut out);
        out
    }

    /// The number of rows that no line fits, without the total.
    fn unfitted(&self) -> usize {
        self.rows.iter().skip(1).filter(|row| row.model == RowModel::None).count()
    }

    /// Writes the remarks that explain unexpected figures.
    fn remarks(&self, layout: Layout, out: &mut String) {
        let unfitted = self.unfitted();
        if unfitted > 0 {
            let rows = counted(unfitted as u64, "row");
            let has_model = self.rows.first().is_some_and(|total| total.model != RowModel::None);
            let beside = if has_model { ", and not in the total's model" } else { "" };
            let _ = writeln!(out, "no line fits {rows}: predicted as at the nearest size{beside}");
        }
        let is_cut = |row: &&FitRow| row.predicted.iter().any(|p| p.cut);
        let cut: Vec<_> = self.rows.iter().filter(is_cut).map(|row| harmless(&row.name)).collect();
        if !cut.is_empty() {
            let _ = writeln!(out, "the line falls below 0 there; 0 is used: {}", cut.join(", "));
        }
        if let (Some(apart), Some(total)) = (self.total_apart_ns, self.rows.first()) {
            let error = self.total_apart_error_ns.map_or_else(String::new, |error| format!(" ±{}", layout.time(error)));
            let (slope, per) = (layout.time(rounded(apart)), unit(&total.per, false));
            let _ = writeln!(
                out,
                "the totals alone grow by {slope}{error} per {per}; the table's total is the sum of its rows"
            );
        }
        if self.rows.first().is_some_and(|row| row.slope_error_ns.is_none()) {
            out.push_str("two recordings are a line, but say nothing of its error: a third one would\n");
        }
    }
}

fn row(growth: &Growth, predicted: Vec<Predicted>) -> FitRow {
    let error = match growth.shape {
        Shape::Line => growth.line.slope_error(),
        _ => growth.line.error_at(0.0),
    };
    FitRow {
        name: growth.name.clone(),
        grows: growth.shape == Shape::Line,
        model: match growth.shape {
            Shape::Level => RowModel::Mean,
            Shape::Line => RowModel::Line,
            Shape::Neither => RowModel::None,
        },
        per: match growth.per {
            Per::Cpu => "CPU",
            Per::Ap => "AP",
            Per::Gb => "GB",
        }
        .to_owned(),
        slope_ns: growth.line.slope_ns,
        slope_error_ns: error.map(|error| error.0),
        constant_ns: growth.constant().0,
        measured_ns: growth.points.iter().map(|p| p.1.0).collect(),
        predicted,
    }
}

fn predicted(at: f64, forecast: Forecast) -> Predicted {
    Predicted { at, ns: forecast.time.0, error_ns: forecast.error.map(|error| error.0), cut: forecast.cut }
}

fn line(row: &FitRow, unfitted: usize, layout: Layout) -> TableLine {
    let error = row.slope_error_ns.map_or_else(|| "?".to_owned(), |error| format!("±{}", layout.time(error)));
    let error = if row.model == RowModel::None { String::new() } else { error };
    let is_total = row.name == fit::TOTAL;
    let besides = match unfitted {
        0 => String::new(),
        _ if row.model == RowModel::None => String::new(),
        rows => format!(" + {}", counted(rows as u64, "row")),
    };
    let takes = if is_total { takes(row, layout) + &besides } else { takes(row, layout) };
    let mut cells = vec![harmless(&row.name).into_owned(), takes, error];
    cells.extend(row.predicted.iter().map(|p| {
        let error = p.error_ns.filter(|&error| error > 0).map_or_else(String::new, |e| format!(" ±{}", layout.time(e)));
        format!("{}{error}", layout.time(p.ns))
    }));
    TableLine { cells, faint: is_total }
}

/// The model in words: `41.0 ms per AP`, `2.68 s + 35.0 ms per CPU`.
fn takes(row: &FitRow, layout: Layout) -> String {
    let slope = rounded(row.slope_ns);
    let sign = if slope < 0 { "−" } else { "+" };
    let time = |ns: Option<&i64>| layout.time(ns.copied().unwrap_or_default());
    let (least, most) = (time(row.measured_ns.iter().min()), time(row.measured_ns.iter().max()));
    match row.constant_ns {
        _ if row.model == RowModel::None => format!("{least} to {most}, no line fits"),
        constant if row.model == RowModel::Mean && least == most => {
            format!("{}, not seen to grow", layout.time(constant))
        }
        constant if row.model == RowModel::Mean => {
            format!("{} ({least} to {most}), not seen to grow", layout.time(constant))
        }
        constant if slope == 0 => layout.time(constant),
        0 => format!("{} per {}", layout.time(slope), unit(&row.per, true)),
        constant => {
            format!("{} {sign} {} per {}", layout.time(constant), layout.time(slope.abs()), unit(&row.per, true))
        }
    }
}

/// The unit of a slope, as text shows it.
fn unit(per: &str, ap: bool) -> &str {
    match per {
        "GB" => "GiB",
        "AP" if !ap => "CPU",
        per => per,
    }
}

fn show_size(what: &str, size: f64) -> String {
    match what {
        "cpus" => counted(rounded_count(size), "CPU"),
        _ if size >= 1024.0 => format!("{} TiB", size / 1024.0),
        _ => format!("{} GiB", size),
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
    fn a_total_along_no_line_is_reported() {
        let row = |name: &str, model: RowModel, measured_ms: [i64; 3]| FitRow {
            name: name.to_owned(),
            model,
            per: "GB".to_owned(),
            constant_ns: measured_ms.iter().sum::<i64>() * 1_000_000 / 3,
            slope_error_ns: Some(1),
            measured_ns: measured_ms.map(|ms| ms * 1_000_000).to_vec(),
            ..FitRow::default()
        };
        let rows = vec![
            row(fit::TOTAL, RowModel::None, [33, 37, 60]),
            row("vm_mem", RowModel::None, [3, 7, 30]),
            row("rest", RowModel::Mean, [30, 30, 30]),
        ];
        let fit = Fit { size: "memory".to_owned(), rows, ..Fit::default() };
        let text = fit.text(Layout { wide_tables: true, top: 9, ..Layout::default() });
        let total = text.lines().find(|line| line.starts_with("total")).expect("its line");
        assert!(total.contains("33.0 ms to 60.0 ms, no line fits") && !total.contains("+ 1 row"), "{text}");
        assert!(text.contains("no line fits 1 row: predicted as at the nearest size\n"), "{text}");
        assert!(text.contains("1 row not seen to grow: 30.0 ms"), "{text}");
    }

    #[test]
    fn lines_read_as_plain_sentences() {
        let ms = 1_000_000;
        let row = |per: &str, constant: i64, slope_ms: f64, model: RowModel| FitRow {
            per: per.to_owned(),
            constant_ns: constant,
            slope_ns: slope_ms * 1e6,
            model,
            measured_ns: vec![490 * ms, 520 * ms],
            ..FitRow::default()
        };
        assert_eq!(takes(&row("AP", 0, 41.0, RowModel::Line), Layout::default()), "41.0 ms per AP");
        assert_eq!(takes(&row("CPU", 2_680 * ms, 35.0, RowModel::Line), Layout::default()), "2.68 s + 35.0 ms per CPU");
        assert_eq!(takes(&row("GB", 0, 3.5, RowModel::Line), Layout::default()), "3.50 ms per GiB");
        assert_eq!(takes(&row("CPU", 500 * ms, -2.0, RowModel::Line), Layout::default()), "500 ms − 2.00 ms per CPU");
        assert_eq!(
            takes(&row("CPU", 500 * ms, 0.0, RowModel::Mean), Layout::default()),
            "500 ms (490 ms to 520 ms), not seen to grow"
        );
        assert_eq!(
            takes(&row("CPU", 500 * ms, 0.0, RowModel::None), Layout::default()),
            "490 ms to 520 ms, no line fits"
        );
        let counted = Layout { unit: Unit::Instructions, ..Layout::default() };
        assert_eq!(takes(&row("AP", 0, 41.0, RowModel::Line), counted), "41.0 M instr per AP");
    }
}
