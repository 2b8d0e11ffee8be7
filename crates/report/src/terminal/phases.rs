//! The table of phases, with bars if there is room.

use super::rows::priced_range;
use crate::table::{Align, Column, Line, render};
use crate::text::{percent, places};
use crate::{Layout, PhaseLine, Style, Summary, harmless};
use timeline::Cost;

/// The width from which there is room for bars.
const MIN_WIDTH_FOR_BARS: usize = 100;

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
    let row =
        |name: String, start: String, (cost, range): (Cost, String), error: String, evidence: String, faint: bool| {
            let mut cells = vec![name, start, layout.busy(cost)];
            cells.extend(waits.then(|| layout.waited(cost)));
            cells.extend(ranges.then_some(range));
            cells.push(percent(share(cost.length.0)));
            cells.extend(bars.then(|| if faint { String::new() } else { bar(share(cost.length.0)) }));
            cells.extend([error, evidence]);
            Line { cells, faint }
        };
    let line = |p: &PhaseLine| {
        let (name, evidence) = (harmless(&p.name).into_owned(), harmless(&p.evidence).into_owned());
        row(
            name,
            layout.at(p.start_ns),
            (p.cost(), priced_range(p.low_ns, p.high_ns)),
            format!("±{}", layout.at(p.error_ns)),
            evidence,
            false,
        )
    };
    let mut lines: Vec<Line> = summary.phases.iter().map(line).collect();
    let sum = summary.phases.iter().map(PhaseLine::cost).sum();
    lines.push(row("total".to_owned(), String::new(), (sum, String::new()), String::new(), String::new(), true));
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
