//! Tables of rows of the boot path, in rows to act on and by function: the top rows, everything else, the sum.

use super::joined;
use crate::paragraph::paragraph;
use crate::table::{Align, Column, Line, WIDE, render};
use crate::text::{counted, cut, percent, thousands, width};
use crate::{FunctionLine, Layout, WhereLine, harmless};
use std::sync::Arc;
use timeline::Ns;

/// A table of `where`: the top rows, everything else, the sum.
pub fn rows(title: &'static str, all: &[WhereLine], layout: Layout) -> String {
    let cells = |r: &WhereLine| Cells {
        name: harmless(&r.name).into_owned(),
        self_ns: r.self_ns,
        total_ns: r.total_ns,
        at_least: r.first_calls_only,
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
        self_ns: r.self_ns,
        total_ns: r.total_ns,
        at_least: r.first_calls_only,
        count: r.count,
        tracks: tracks(&r.tracks, layout),
    };
    table("function on the boot path", all.iter().map(cells).collect(), layout)
}

struct Cells {
    name: String,
    self_ns: i64,
    total_ns: i64,
    /// True if only first calls have its time.
    at_least: bool,
    count: u64,
    tracks: String,
}

fn table(title: &'static str, all: Vec<Cells>, layout: Layout) -> String {
    let columns = [
        Column::new(title, Align::Left, None),
        Column::new("self", Align::Right, Some(layout.time_width() + 2)),
        Column::new("share", Align::Right, Some(7)),
        Column::new("total", Align::Right, Some(layout.time_width() + 2)),
        Column::new("count", Align::Right, Some(9)),
        Column::new("thread", Align::Left, Some(15)),
    ];
    // Summed over all threads, times may exceed 64 bits: the sum then stays at the largest value.
    let self_sum = |rows: &[Cells]| rows.iter().map(|r| Ns(r.self_ns)).sum::<Ns>().0;
    let whole = self_sum(&all);
    let share = |ns: i64| if whole > 0 { percent(ns as f64 / whole as f64) } else { String::new() };
    // The largest come first.
    let listed = all.iter().take(layout.top).take_while(|r| layout.cutoff.lists(r.self_ns, whole)).count();
    let (listed, rest) = all.split_at(listed);
    let line = |r: &Cells| Line {
        cells: vec![
            r.name.clone(),
            layout.at_least(r.at_least, r.self_ns),
            share(r.self_ns),
            layout.at_least(r.at_least, r.total_ns),
            thousands(r.count),
            r.tracks.clone(),
        ],
        faint: false,
    };
    let sum = |name: String, ns: i64| {
        let none = String::new;
        Line { cells: vec![name, layout.time(ns), share(ns), none(), none(), none()], faint: true }
    };
    let mut lines: Vec<Line> = listed.iter().map(line).collect();
    if !rest.is_empty() {
        let name = format!("everything else ({})", counted(rest.len() as u64, "row"));
        lines.push(sum(name, self_sum(rest)));
    }
    lines.push(sum("total".to_owned(), whole));
    let mut out = String::new();
    render(&columns, &lines, layout.table_width(), layout.style, &mut out);
    if listed.iter().any(|r| r.at_least) {
        paragraph(FIRST_CALLS, "", layout, &mut out);
    }
    out
}

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
