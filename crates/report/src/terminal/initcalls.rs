//! The table of initcalls, the longest first.

use crate::layout::cost;
use crate::table::{Align, Column, Line, only, render};
use crate::{InitcallLine, Layout, Summary, harmless};
use timeline::Cost;

/// The longest initcalls, each from its call to its return.
pub fn initcalls(summary: &Summary, layout: Layout) -> String {
    let all: &[InitcallLine] = &summary.initcalls;
    let columns = [
        Column::new(format!("{}, longest first", summary.initcalls_word()), Align::Left, None),
        Column::new("elapsed", Align::Right, Some(layout.time_width())),
        Column::new("boot path", Align::Right, Some(layout.time_width())),
        Column::new("waited", Align::Right, Some(9)),
        Column::new(layout.instants("start"), Align::Right, Some(layout.time_width())),
        Column::new("thread", Align::Left, Some(15)),
    ];
    let waits = all.iter().any(|i| i.waited_ns > 0);
    let shown = [true, true, true, waits, true, true];
    let columns = only(columns, shown);
    let line = |name: String, [elapsed, on_path]: [Cost; 2], start: String, thread: String, faint: bool| Line {
        cells: only([name, layout.busy(elapsed), layout.busy(on_path), layout.waited(elapsed), start, thread], shown),
        faint,
    };
    let (top, rest) = all.split_at(layout.top.min(all.len()));
    let mut lines: Vec<Line> = top
        .iter()
        .map(|i| {
            line(
                harmless(&i.name).into_owned(),
                costs(i),
                layout.at(i.start_ns),
                harmless(&i.track).into_owned(),
                false,
            )
        })
        .collect();
    if !rest.is_empty() {
        let sum = rest.iter().map(costs).fold([Cost::ZERO; 2], |[a, b], [c, d]| [a + c, b + d]);
        lines.push(line(format!("{} more (waits included)", rest.len()), sum, String::new(), String::new(), true));
    }
    let mut out = String::new();
    render(&columns, &lines, layout.table_width(), layout.style, &mut out);
    out
}

/// The time of an initcall from call to return, and the boot path's part of it.
fn costs(i: &InitcallLine) -> [Cost; 2] {
    [cost(i.elapsed_ns, i.waited_ns), cost(i.path_ns, i.path_waited_ns)]
}
