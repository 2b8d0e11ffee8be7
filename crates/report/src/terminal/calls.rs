//! The table of a boot's calls, by function.

use crate::paragraph::paragraph;
use crate::table::{Align, Column, Line, render};
use crate::text::{counted, percent, thousands};
use crate::{CallLine, Calls, Layout, harmless};

/// The table of a boot's instructions by function.
pub fn calls(calls: &Calls, layout: Layout) -> String {
    let columns = [
        Column::new("function, all its calls", Align::Left, None),
        Column::new("instructions", Align::Right, Some(15)),
        Column::new("share", Align::Right, Some(7)),
        Column::new("with callees", Align::Right, Some(15)),
        Column::new("calls", Align::Right, Some(12)),
    ];
    let share =
        |n: u64| if calls.instructions > 0 { percent(n as f64 / calls.instructions as f64) } else { String::new() };
    let line = |name: String, own: u64, total: String, count: String, faint: bool| Line {
        cells: vec![name, thousands(own), share(own), total, count],
        faint,
    };
    let (top, rest) = calls.functions.split_at(layout.top.min(calls.functions.len()));
    let row = |f: &CallLine| {
        let name = harmless(&f.name).into_owned();
        line(name, f.self_instructions, thousands(f.total_instructions), thousands(f.calls), false)
    };
    let mut lines: Vec<Line> = top.iter().map(row).collect();
    if !rest.is_empty() {
        let rest_sum = rest.iter().map(|f| f.self_instructions).sum();
        let name = format!("everything else ({})", counted(rest.len() as u64, "function"));
        lines.push(line(name, rest_sum, String::new(), String::new(), true));
    }
    let mut out = String::new();
    render(&columns, &lines, layout.width, layout.style, &mut out);
    let until_end: u64 = calls.functions.iter().map(|f| f.calls).sum();
    let text = format!(
        "{} calls, jumps to functions and interrupts in these rows, until the end mark; until the machine went off {} call \
         instructions; {} of returns matched, {} of the instructions outside user space owned",
        thousands(until_end),
        thousands(calls.count),
        fine_percent(calls.matched),
        fine_percent(calls.owned)
    );
    paragraph(&text, "", layout, &mut out);
    out
}

/// A share with three decimals, rounded down: close to 100 %, the missing part matters.
fn fine_percent(share: f64) -> String {
    format!("{:.3} %", (share * 100_000.0).floor() / 1000.0)
}
