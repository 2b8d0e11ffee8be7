//! The table of initcalls, the longest first.

use crate::table::{Align, Column, Line, render};
use crate::{InitcallLine, Layout, Summary, harmless};

/// The longest initcalls, each from its call to its return.
pub fn initcalls(summary: &Summary, layout: Layout) -> String {
    let all: &[InitcallLine] = &summary.initcalls;
    let columns = [
        Column::new(format!("{}, longest first", summary.initcalls_word()), Align::Left, None),
        Column::new("elapsed", Align::Right, Some(layout.time_width())),
        Column::new("boot path", Align::Right, Some(layout.time_width())),
        Column::new("start", Align::Right, Some(layout.time_width())),
        Column::new("thread", Align::Left, Some(15)),
    ];
    let line = |name: String, [elapsed, on_path]: [i64; 2], start: String, thread: String, faint: bool| Line {
        cells: vec![name, layout.time(elapsed), layout.time(on_path), start, thread],
        faint,
    };
    let (top, rest) = all.split_at(layout.top.min(all.len()));
    let mut lines: Vec<Line> = top
        .iter()
        .map(|i| {
            line(
                harmless(&i.name).into_owned(),
                [i.elapsed_ns, i.path_ns],
                layout.time(i.start_ns),
                harmless(&i.track).into_owned(),
                false,
            )
        })
        .collect();
    if !rest.is_empty() {
        let sum = [rest.iter().map(|i| i.elapsed_ns).sum(), rest.iter().map(|i| i.path_ns).sum()];
        lines.push(line(format!("{} more (waits included)", rest.len()), sum, String::new(), String::new(), true));
    }
    let mut out = String::new();
    render(&columns, &lines, layout.table_width(), layout.style, &mut out);
    out
}
