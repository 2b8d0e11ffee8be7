//! User processes as a tree: who ran what, from when to when.

use crate::table::{Align, Column, Line, render};
use crate::text::counted;
use crate::{Layout, ProcessLine, harmless};

/// Up to so many processes are all listed; of more, those that last.
const LISTED_ALWAYS: usize = 40;

/// Of many, a process is listed if it lasted for at least this share of the time that the table spans.
const SHARE_LISTED: f64 = 0.01;

/// The rows of the table, and how many were left out. With `all`, or if there are few, none is.
pub(crate) fn listed(processes: &[ProcessLine], all: bool) -> (Vec<&ProcessLine>, usize) {
    if all || processes.len() <= LISTED_ALWAYS {
        return (processes.iter().collect(), 0);
    }
    let last = processes.iter().map(|p| p.end_ns.unwrap_or(p.start_ns)).max().unwrap_or_default();
    let first = processes.iter().map(|p| p.start_ns).min().unwrap_or_default();
    let shortest = timeline::truncated((last - first) as f64 * SHARE_LISTED);
    let lasts = |p: &&ProcessLine| p.end_ns.is_none_or(|end| end - p.start_ns >= shortest);
    let kept: Vec<&ProcessLine> = processes.iter().filter(lasts).collect();
    let left_out = processes.len() - kept.len();
    (kept, left_out)
}

/// The table for a terminal; a child stands below its parent, further in.
pub fn processes(processes: &[ProcessLine], layout: Layout) -> String {
    /// Deeper trees are not drawn deeper.
    const DEEPEST: u32 = 20;
    let columns = [
        Column::new("processes", Align::Left, None),
        Column::new("pid", Align::Right, Some(8)),
        Column::new("start", Align::Right, Some(layout.time_width())),
        Column::new("length", Align::Right, Some(layout.time_width())),
    ];
    let (kept, left_out) = listed(processes, layout.all_processes);
    let line = |p: &&ProcessLine| {
        let indent = "  ".repeat(p.depth.min(DEEPEST) as usize);
        let length = p.end_ns.map_or("alive".to_owned(), |end| layout.time(end - p.start_ns));
        let cells = vec![format!("{indent}{}", harmless(&p.name)), p.pid.to_string(), layout.time(p.start_ns), length];
        Line { cells, faint: false }
    };
    let mut lines: Vec<Line> = kept.iter().map(line).collect();
    if left_out > 0 {
        let name = format!("{} not listed: --processes lists all", counted(left_out as u64, "shorter one"));
        lines.push(Line { cells: vec![name, String::new(), String::new(), String::new()], faint: true });
    }
    let mut out = String::new();
    render(&columns, &lines, layout.table_width(), layout.style, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u64, depth: u32, start_ns: i64, end_ns: Option<i64>) -> ProcessLine {
        ProcessLine { pid, ppid: 0, depth, name: format!("p{pid}"), start_ns, end_ns }
    }

    #[test]
    fn a_tree_by_indentation() {
        let all = [
            process(1, 0, 0, None),
            process(15, 1, 1_000_000, Some(3_500_000)),
            process(16, 2, 2_000_000, Some(2_000_500)),
        ];
        let text = processes(&all, Layout { width: 50, ..Layout::default() });
        let expected = "processes  pid    start   length\n\
                        p1           1     0 ns    alive\n\
                        \x20 p15       15  1.00 ms  2.50 ms\n\
                        \x20   p16     16  2.00 ms   500 ns\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn of_many_those_that_last() {
        let mut all: Vec<ProcessLine> = (0..100).map(|i| process(i, 0, 0, Some(i as i64))).collect();
        all.push(process(100, 0, 50, None));
        let (kept, left_out) = listed(&all, false);
        assert_eq!((kept.len(), left_out), (101, 0), "one per cent of 99 is less than one");
        all.push(process(101, 0, 0, Some(10_000)));
        let (kept, left_out) = listed(&all, false);
        assert_eq!((kept.len(), left_out), (2, 100));
        assert_eq!(listed(&all, true).1, 0);
    }
}
