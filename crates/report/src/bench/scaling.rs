//! The growth of a swept boot: a table of scaling models for each axis of the grid, and the totals as a plot.

use super::plot::plot;
use super::tables::time;
use crate::paragraph::paragraph;
use crate::table::{Align, Column, Line, render};
use crate::{Layout, harmless};
use benchmark::{AxisScaling, Document, GrowthTest, Predicted, RowScaling, ScalingModel};
use std::fmt::Write;
use timeline::Unit;

/// Writes every slice.
pub fn scaling(document: &Document, layout: Layout, out: &mut String) {
    for slice in &document.results.scaling {
        let title = title(slice);
        let _ = writeln!(out, "{}", layout.style.heading(&harmless(&title)));
        table(slice, layout, out);
        if let Some(total) = slice.rows.first() {
            out.push_str(&plot(total, layout.unit, layout.width.min(72)));
        }
        out.push('\n');
    }
}

/// The heading of a slice, such as `growing with cpus (memory=1G)`.
pub fn title(slice: &AxisScaling) -> String {
    let held: Vec<String> = slice.held.iter().map(|s| format!("{}={}", s.key, s.value)).collect();
    let held = if held.is_empty() { String::new() } else { format!(" ({})", held.join(", ")) };
    format!("growing with {}{held}", slice.key)
}

fn table(slice: &AxisScaling, layout: Layout, out: &mut String) {
    let mut columns = vec![
        Column::new("row", Align::Left, None),
        Column::new("takes", Align::Left, Some(44)),
        Column::new("±95 %", Align::Right, Some(layout.time_width())),
    ];
    let at = slice.rows.first().into_iter().flat_map(|row| &row.predicted);
    let unit = if slice.unit == "GiB" { " GiB" } else { "" };
    columns.extend(at.map(|p| Column::new(format!("at {}{unit}", p.size), Align::Right, Some(20))));
    let line = |row: &RowScaling| {
        let error = row.slope_error.map_or_else(|| "?".to_owned(), |error| format!("±{}", time(layout.unit, error)));
        let error = if row.model == ScalingModel::Constant { String::new() } else { error };
        let mut cells = vec![harmless(&row.name).into_owned(), takes(row, &slice.unit, layout.unit), error];
        cells.extend(row.predicted.iter().map(|p| {
            let band = p.band.map_or_else(String::new, |band| format!(" ±{}", time(layout.unit, band)));
            format!("{}{band}", time(layout.unit, p.time))
        }));
        Line { cells, faint: row.name == benchmark::TOTAL }
    };
    let lines: Vec<Line> = slice.rows.iter().take(layout.top.saturating_add(1)).map(line).collect();
    let more = slice.rows.len() - lines.len();
    render(&columns, &lines, layout.table_width(), layout.style, out);
    if more > 0 {
        let _ = writeln!(out, "{more} more rows grow more slowly");
    }
    paragraph(&level(slice), "", layout, out);
    for text in slice.rows.first().into_iter().flat_map(|total| &total.predicted).filter_map(|p| beyond(p, layout.unit))
    {
        paragraph(&text, "note: ", layout, out);
    }
    for row in slice.rows.iter().take(layout.top).filter(|row| !row.alike.is_empty()) {
        let alike: Vec<&str> = row.alike.iter().map(|model| model.name()).collect();
        let _ = writeln!(out, "{}: {} would fit as well", harmless(&row.name), alike.join(", "));
    }
}

/// The rows that do not grow, and the test that found so.
fn level(slice: &AxisScaling) -> String {
    let (level, all) = (slice.level, slice.level + slice.rows.len().saturating_sub(1));
    match slice.test {
        GrowthTest::AllTogether => format!(
            "{level} other rows do not measurably grow ({all} rows were tested together; at most 5 % for any false row)"
        ),
        GrowthTest::TooFew => format!("too few boots to tell which of {all} rows grow: boot more rounds or more sizes"),
        GrowthTest::Repeated => {
            format!("{level} other rows grow by less than a thousandth of the boot; the boots repeat exactly")
        }
    }
}

/// A sentence if the predictions of the rows sum to something else than the total's prediction. The gap must be large
/// enough to matter and lie outside the total's band.
fn beyond(predicted: &Predicted, counts: Unit) -> Option<String> {
    const MATTERS: f64 = 0.01;
    let rows = predicted.rows?;
    let apart = (rows - predicted.time).abs();
    // The band was widened to include the sum; the tolerance is for rounding.
    let outside = predicted.band.is_none_or(|band| apart >= band * 0.999_999);
    (outside && apart > MATTERS * predicted.time).then(|| {
        let (size, rows, total) = (predicted.size, time(counts, rows), time(counts, predicted.time));
        format!(
            "at {size} the scaling models of all rows sum to {rows}, but the total's own model gives {total}: the sizes booted do not decide between them"
        )
    })
}

/// The cost of a row in words: `41.0 ms per AP`, `1.20 s + 35.0 ms per CPU`, `3.00 ms · n²`.
pub fn takes(row: &RowScaling, unit: &str, counts: Unit) -> String {
    let ap = row.from_one && unit == "CPU";
    let step = match row.model {
        ScalingModel::Constant => return format!("{}, not seen to grow", time(counts, row.base)),
        ScalingModel::Linear if ap => format!("{} per AP", time(counts, row.slope.abs())),
        ScalingModel::Linear if unit.is_empty() => format!("{} · n", time(counts, row.slope.abs())),
        ScalingModel::Linear => format!("{} per {unit}", time(counts, row.slope.abs())),
        model => format!("{} · {}", time(counts, row.slope.abs()), model.name()),
    };
    let sign = if row.slope < 0.0 { "−" } else { "+" };
    match row.slope < 0.0 || !ap {
        true => format!("{} {sign} {step}", time(counts, row.base)),
        false => step,
    }
}
