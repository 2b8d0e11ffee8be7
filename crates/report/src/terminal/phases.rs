//! The table of phases, with bars if there is room.

use super::rows::priced_range;
use crate::table::{Align, Column, Line, render};
use crate::text::{percent, places};
use crate::{Layout, PhaseLine, Style, Summary, harmless};
use timeline::Cost;

/// The width from which there is room for bars.
const MIN_WIDTH_FOR_BARS: usize = 100;

/// A row of the table.
#[derive(Default)]
struct Row {
    name: String,
    start: String,
    cost: Cost,
    range: String,
    has_bar: bool,
    error: String,
    evidence: String,
}

/// Writes the table.
pub(super) fn phases(summary: &Summary, layout: Layout, out: &mut String) {
    let mut columns = vec![
        Column::new("phase", Align::Left, Some(22)),
        Column::new(layout.instants("start"), Align::Right, Some(layout.time_width())),
        Column::new("length", Align::Right, Some(layout.time_width())),
    ];
    let waits = summary.phases.iter().any(|p| p.waited_ns > 0);
    columns.extend(waits.then(|| Column::new("waited", Align::Right, Some(9))));
    let ranges = summary.priced.is_some();
    columns.extend(ranges.then(|| Column::new("range", Align::Right, Some(20))));
    columns.push(Column::new("share", Align::Right, Some(7)));
    let bars = layout.width >= MIN_WIDTH_FOR_BARS;
    if bars {
        columns.push(Column { paint: Style::bar, ..Column::new("", Align::Left, Some(BAR)) });
    }
    columns.push(Column::new("error", Align::Right, Some(layout.time_width())));
    columns.push(Column::new("evidence", Align::Left, None));
    let share = |ns: i64| if summary.total_ns > 0 { ns as f64 / summary.total_ns as f64 } else { 0.0 };
    let cells = |row: Row| {
        let mut cells = vec![row.name, row.start, layout.busy(row.cost)];
        cells.extend(waits.then(|| layout.waited(row.cost)));
        cells.extend(ranges.then_some(row.range));
        let share = share(row.cost.length.0);
        cells.push(percent(share));
        cells.extend(bars.then(|| if row.has_bar { bar(share) } else { String::new() }));
        cells.extend([row.error, row.evidence]);
        cells
    };
    let phase = |p: &PhaseLine| Row {
        name: harmless(&p.name).into_owned(),
        start: layout.at(p.start_ns),
        cost: p.cost(),
        range: priced_range(p.low_ns, p.high_ns),
        has_bar: true,
        error: format!("±{}", layout.at(p.error_ns)),
        evidence: harmless(&p.evidence).into_owned(),
    };
    let mut lines: Vec<Line> = summary.phases.iter().map(|p| Line { cells: cells(phase(p)), faint: false }).collect();
    let cost = summary.phases.iter().map(PhaseLine::cost).sum();
    lines.push(Line { cells: cells(Row { name: "total".to_owned(), cost, ..Row::default() }), faint: true });
    render(&columns, &lines, layout.table_width(), layout.style, out);
}

/// Columns of a bar for 100 %.
const BAR: usize = 20;

/// A share as a bar, in steps of an eighth of a column.
fn bar(share: f64) -> String {
    let eighths = places(share * (BAR * 8) as f64);
    let part = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
    "█".repeat(eighths / 8) + part
}
