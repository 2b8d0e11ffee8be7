//! Tables of rows of the boot path, in rows to act on and by function: the top rows, everything else, the sum.

use super::joined;
use crate::layout::cost;
use crate::paragraph::paragraph;
use crate::priced::range;
use crate::table::{Align, Column, Line, WIDE, only, render};
use crate::text::{counted, cut, percent, thousands, width};
use crate::{FunctionLine, Layout, WhereLine, harmless};
use std::sync::Arc;
use timeline::{Cost, Ns};

/// A table of `where`: the top rows, everything else, the sum.
pub fn rows(title: &'static str, all: &[WhereLine], layout: Layout) -> String {
    let cells = |r: &WhereLine| Cells {
        name: harmless(&r.name).into_owned(),
        own: cost(r.self_ns, r.self_waited_ns),
        total: cost(r.total_ns, r.total_waited_ns),
        at_least: r.first_calls_only,
        range: priced_range(r.self_low_ns, r.self_high_ns),
        count: r.count,
        tracks: tracks(&r.tracks, layout),
    };
    table(title, all.iter().map(cells).collect(), layout)
}

/// The table of all threads, and a remark on its sum.
pub fn all_threads(all: &[WhereLine], layout: Layout) -> String {
    let mut out = rows("All threads (not the boot path)", all, layout);
    let about = "threads work and wait side by side, so the rows may sum to more than the boot; time in which no thread is \
                 known to run has rows too";
    paragraph(about, "", layout, &mut out);
    out
}

/// The table of functions on the path.
pub fn functions(all: &[FunctionLine], layout: Layout) -> String {
    let cells = |r: &FunctionLine| Cells {
        name: harmless(&joined(" ", [&r.name, &r.detail])).into_owned(),
        own: cost(r.self_ns, r.self_waited_ns),
        total: cost(r.total_ns, r.total_waited_ns),
        at_least: r.first_calls_only,
        range: priced_range(r.self_low_ns, r.self_high_ns),
        count: r.count,
        tracks: tracks(&r.tracks, layout),
    };
    table("function on the boot path", all.iter().map(cells).collect(), layout)
}

struct Cells {
    name: String,
    own: Cost,
    total: Cost,
    /// True if only first calls have its time.
    at_least: bool,
    /// The range of its own time, in a priced boot.
    range: String,
    count: u64,
    tracks: String,
}

/// All columns that a table can have.
fn columns(title: &'static str, layout: Layout) -> [Column; 9] {
    let time = Some(layout.time_width() + 2);
    [
        Column::new(title, Align::Left, None),
        Column::new("self", Align::Right, time),
        Column::new("range", Align::Right, Some(RANGE)),
        Column::new("waited", Align::Right, Some(9)),
        Column::new("share", Align::Right, Some(7)),
        Column::new("total", Align::Right, time),
        Column::new("waited", Align::Right, Some(9)),
        Column::new("count", Align::Right, Some(9)),
        Column::new("thread", Align::Left, Some(15)),
    ]
}

fn table(title: &'static str, all: Vec<Cells>, layout: Layout) -> String {
    let waits = all.iter().any(|r| r.total.waited > Ns::ZERO);
    let ranges = all.iter().any(|r| !r.range.is_empty());
    let is_narrow = waits || ranges;
    let shown =
        [true, true, ranges, waits, true, true, waits && has_room(layout), true, !is_narrow || has_room(layout)];
    let columns = only(columns(title, layout), shown);
    // Summed over all threads, times may exceed 64 bits: the sum then stays at the largest value.
    let self_sum = |rows: &[Cells]| rows.iter().map(|r| r.own).sum::<Cost>();
    let whole = self_sum(&all);
    let share = |cost: Cost| match whole.length {
        Ns(1..) => percent(cost.length.0 as f64 / whole.length.0 as f64),
        _ => String::new(),
    };
    // The largest come first.
    let lists = |r: &&Cells| layout.cutoff.lists(r.own.length.0, whole.length.0);
    let (listed, rest) = all.split_at(all.iter().take(layout.top).take_while(lists).count());
    let line = |r: &Cells| Line {
        cells: only(
            [
                r.name.clone(),
                layout.at_least(r.at_least, r.own),
                r.range.clone(),
                layout.waited(r.own),
                share(r.own),
                layout.at_least(r.at_least, r.total),
                layout.waited(r.total),
                thousands(r.count),
                r.tracks.clone(),
            ],
            shown,
        ),
        faint: false,
    };
    let sum = |name: String, cost: Cost| {
        let none = String::new;
        let cells = [name, layout.busy(cost), none(), layout.waited(cost), share(cost), none(), none(), none(), none()];
        Line { cells: only(cells, shown), faint: true }
    };
    let mut lines: Vec<Line> = listed.iter().map(line).collect();
    if !rest.is_empty() {
        let name = format!("everything else ({})", counted(rest.len() as u64, "row"));
        lines.push(sum(name, self_sum(rest)));
    }
    lines.push(sum("total".to_owned(), whole));
    let mut out = String::new();
    render(&columns, &lines, layout.table_width(), layout.style, &mut out);
    if waits {
        paragraph(WAITED, "", layout, &mut out);
    }
    if listed.iter().any(|r| r.at_least) {
        paragraph(FIRST_CALLS, "", layout, &mut out);
    }
    out
}

/// Columns of a range of times.
const RANGE: usize = 20;

/// The range of a row's own time in a priced boot; empty in another one.
pub(super) fn priced_range(low_ns: Option<i64>, high_ns: Option<i64>) -> String {
    low_ns.zip(high_ns).map_or(String::new(), |(low, high)| range(low, high))
}

/// True if there is room for the waits of total times, and for threads beside waits.
fn has_room(layout: Layout) -> bool {
    layout.table_width() >= 110
}

/// The meaning of the column of waits.
const WAITED: &str = "waited: timed waits, on the guest's clock; in shares, an instruction counts as 1 ns";

/// The meaning of `≥` before a time.
const FIRST_CALLS: &str =
    "≥: first calls only; later calls count in the rows of their callers: record with --trace calls to see every call";

/// The name of the first thread, and the number of others.
fn tracks(all: &[Arc<str>], layout: Layout) -> String {
    match all {
        [] => String::new(),
        [one, more @ ..] if layout.table_width() >= WIDE && !more.is_empty() => {
            format!("{} +{}", harmless(one), more.len())
        }
        [one] => harmless(one).into_owned(),
        [one, more @ ..] => {
            let more = format!(" +{}", more.len());
            let one = harmless(one);
            format!("{}{more}", cut(&one, 15usize.saturating_sub(width(&more))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_first_calls_alone_takes_at_least_its_time() {
        let row = |name: &str, first_calls_only| WhereLine {
            name: name.to_owned(),
            self_ns: 212_000_000,
            total_ns: 212_000_000,
            first_calls_only,
            ..WhereLine::default()
        };
        let text = rows("row", &[row("setup_arch", true), row("initcall a", false)], Layout::default());
        let line = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
        assert!(line("setup_arch").contains("≥ 212 ms") && !line("initcall").contains('≥'), "{text}");
        assert!(text.contains("first calls only") && text.contains("--trace calls"), "{text}");
        assert!(!rows("row", &[row("initcall a", false)], Layout::default()).contains("--trace calls"));
    }
}
