//! The units of a service manager: the start of each, and the time that it took to be active.

use crate::table::{Align, Column, Line, render};
use crate::text::counted;
use crate::{Layout, UnitLine, harmless};

/// The most units that are listed, unless all are requested.
const LISTED: usize = 10;

/// The table for a terminal, the longest first; with `all`, in order of time.
pub fn units(units: &[UnitLine], all: bool, layout: Layout) -> String {
    let width = Some(layout.time_width());
    let has_processes = units.iter().any(|unit| !unit.pids.is_empty());
    let mut columns = vec![
        Column::new(if all { "units" } else { "units, longest first" }, Align::Left, None),
        Column::new(layout.instants("start"), Align::Right, width),
        Column::new("took", Align::Right, width),
        Column::new("active", Align::Right, width),
    ];
    if has_processes {
        columns.push(Column::new("boot path", Align::Right, width));
        columns.push(Column::new("CPU", Align::Right, width));
        columns.push(Column::new("processes", Align::Right, Some(9)));
    }
    let mut kept: Vec<&UnitLine> = units.iter().filter(|unit| all || unit.took_ns().is_some()).collect();
    if !all {
        kept.sort_by_key(|unit| std::cmp::Reverse(unit.took_ns()));
        kept.truncate(LISTED);
    }
    let time = |ns: Option<i64>| ns.map_or_else(String::new, |ns| layout.at(ns));
    let line = |unit: &&UnitLine| {
        let settled = match (unit.settled_ns, unit.failed) {
            (None, _) => "starting".to_owned(),
            (Some(_), true) => "failed".to_owned(),
            (at, false) => time(at),
        };
        let mut cells = vec![harmless(&unit.name).into_owned(), time(unit.start_ns), time(unit.took_ns()), settled];
        if has_processes {
            let some = Some(unit.pids.len()).filter(|&count| count > 0);
            cells.extend([
                time(unit.boot_path_ns),
                time(unit.cpu_ns),
                some.map_or_else(String::new, |count| count.to_string()),
            ]);
        }
        Line { cells, faint: false }
    };
    let mut lines: Vec<Line> = kept.iter().map(line).collect();
    if kept.len() < units.len() {
        let name = format!("{}: --units lists all", counted((units.len() - kept.len()) as u64, "more unit"));
        let cells = [name].into_iter().chain(std::iter::repeat_with(String::new)).take(columns.len()).collect();
        lines.push(Line { cells, faint: true });
    }
    let mut out = String::new();
    render(&columns, &lines, layout.table_width(), layout.style, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_stand_first_unless_all_are_asked_for() {
        let unit = |name: &str, start_ns, settled_ns, failed| UnitLine {
            name: name.to_owned(),
            start_ns,
            settled_ns,
            failed,
            ..UnitLine::default()
        };
        let all = [
            unit("a.service", Some(1_000_000), Some(3_000_000), false),
            unit("x.target", None, Some(4_000_000), false),
            unit("b.mount", Some(2_000_000), Some(9_000_000), true),
            unit("c.service", Some(5_000_000), None, false),
        ];
        let layout = Layout { width: 60, ..Layout::default() };
        let first = |text: &str| text.lines().nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
        let text = units(&all, false, layout);
        assert_eq!(first(&text), "b.mount");
        assert!(
            text.contains("7.00 ms") && text.contains("failed") && text.contains("2 more units: --units"),
            "{text}"
        );
        let text = units(&all, true, layout);
        assert_eq!((first(&text).as_str(), text.lines().count()), ("a.service", 5));
        assert!(text.contains("starting"), "{text}");
    }
}
