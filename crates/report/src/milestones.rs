//! The milestones of a boot: the time of each, and the time since the one before.

use crate::layout::cost;
use crate::table::{Align, Column, Line, only, render};
use crate::{Layout, MilestoneLine, harmless};
use timeline::Cost;

/// The table for a terminal, in order of time.
pub fn milestones(passed: &[MilestoneLine], layout: Layout) -> String {
    let width = Some(layout.time_width());
    let columns = [
        Column::new("milestones", Align::Left, None),
        Column::new(layout.instants("passed"), Align::Right, width),
        Column::new("after", Align::Right, width),
        Column::new("waited", Align::Right, Some(9)),
    ];
    let shown = [true, true, true, passed.iter().any(|passed| passed.waited_ns > 0)];
    let columns = only(columns, shown);
    let until = |passed: &MilestoneLine| cost(passed.at_ns, passed.waited_ns);
    let before = std::iter::once(Cost::ZERO).chain(passed.iter().map(until));
    let line = |(passed, before): (&MilestoneLine, Cost)| {
        let after = until(passed) - before;
        let name = harmless(&passed.name).into_owned();
        let cells = [name, layout.at(passed.at_ns), layout.busy(after), layout.waited(after)];
        Line { cells: only(cells, shown), faint: false }
    };
    let lines: Vec<Line> = passed.iter().zip(before).map(line).collect();
    let mut out = String::new();
    render(&columns, &lines, layout.table_width(), layout.style, &mut out);
    if passed.is_empty() {
        out.push_str("none: the boot has no end mark\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_time_and_what_it_took_from_the_one_before() {
        let passed = |name: &str, at_ns| MilestoneLine { name: name.to_owned(), at_ns, ..MilestoneLine::default() };
        let all = [passed("process-1", 1_500_000_000), passed("unit:a\x1b[31m.service", 1_750_000_000)];
        let text = milestones(&all, Layout { width: 60, ..Layout::default() });
        let cells = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(cells(text.lines().nth(1).unwrap()), ["process-1", "1.50", "s", "1.50", "s"]);
        assert!(text.contains("250 ms") && !text.contains('\x1b'), "{text}");
    }
}
