//! The table of devices whose probe the kernel put off.

use crate::layout::cost;
use crate::table::{Align, Column, Line, render};
use crate::text::counted;
use crate::{DeferredProbeLine, Layout, Summary, harmless};

/// The devices with the longest attempts, and their suppliers by their last names.
pub fn deferred_probes(summary: &Summary, layout: Layout) -> String {
    let all: &[DeferredProbeLine] = &summary.deferred_probes;
    let columns = [
        Column::new("deferred probes", Align::Left, Some(26)),
        Column::new("attempts", Align::Right, Some(8)),
        Column::new("elapsed", Align::Right, Some(layout.time_width())),
        Column::new("boot path", Align::Right, Some(layout.time_width())),
        Column::new("waits for", Align::Left, None),
    ];
    let line = |probe: &DeferredProbeLine| {
        let (attempts, time) = match probe.attempts {
            0 => ("?".to_owned(), ["?".to_owned(), "?".to_owned()]),
            attempts => {
                let [elapsed, on_path] = [(probe.elapsed_ns, probe.waited_ns), (probe.path_ns, probe.path_waited_ns)];
                (attempts.to_string(), [elapsed, on_path].map(|(ns, waited_ns)| layout.cost(cost(ns, waited_ns))))
            }
        };
        let [elapsed, on_path] = time;
        let cells = vec![harmless(&probe.name).into_owned(), attempts, elapsed, on_path, waits_for(probe)];
        Line { cells, faint: false }
    };
    let (top, rest) = all.split_at(layout.top.min(all.len()));
    let mut lines: Vec<Line> = top.iter().map(line).collect();
    if !rest.is_empty() {
        let mut cells = vec![counted(rest.len() as u64, "more device")];
        cells.resize(columns.len(), String::new());
        lines.push(Line { cells, faint: true });
    }
    let mut out = String::new();
    render(&columns, &lines, layout.table_width(), layout.style, &mut out);
    out
}

/// The chain of suppliers, each without the path of its node: the document has the whole.
fn waits_for(probe: &DeferredProbeLine) -> String {
    let short = |supplier: &String| harmless(supplier.rsplit('/').next().unwrap_or(supplier)).into_owned();
    let mut chain: Vec<String> = probe.suppliers.iter().map(short).collect();
    if chain.is_empty() {
        chain.push("not named".to_owned());
    }
    let still = if probe.is_pending { " (still pending)" } else { "" };
    format!("{}{still}", chain.join(", which waits for "))
}
