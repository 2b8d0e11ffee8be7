//! User processes as a tree: the start and the end of each.

use crate::table::{Align, Column, Line, render};
use crate::text::counted;
use crate::{AwaitedKind, Layout, ProcessLine, harmless};

/// Up to this number, all processes are listed; beyond it, those that last.
const MAX_LISTED_ALWAYS: usize = 40;

/// The share of the table's time span from which one of many processes is listed.
const MIN_SHARE: f64 = 0.01;

/// The rows of the table, and how many are left out. All processes are listed if `all` is true or they are few.
pub(crate) fn listed(processes: &[ProcessLine], all: bool) -> (Vec<&ProcessLine>, usize) {
    if all || processes.len() <= MAX_LISTED_ALWAYS {
        return (processes.iter().collect(), 0);
    }
    let last = processes.iter().map(|p| p.end_ns.unwrap_or(p.start_ns)).max().unwrap_or_default();
    let first = processes.iter().map(|p| p.start_ns).min().unwrap_or_default();
    let shortest = timeline::truncated((last - first) as f64 * MIN_SHARE);
    let lasts = |p: &ProcessLine| p.end_ns.is_none_or(|end| end - p.start_ns >= shortest);
    // Each process stands after its ancestors. Backwards, the next process that is less deep than a kept one is its
    // parent.
    let mut ancestor_below = 0;
    let is_kept = |p: &&ProcessLine| {
        let kept = lasts(p) || p.depth < ancestor_below;
        ancestor_below = if kept { p.depth } else { ancestor_below };
        kept
    };
    let mut kept: Vec<&ProcessLine> = processes.iter().rev().filter(is_kept).collect();
    kept.reverse();
    let left_out = processes.len() - kept.len();
    (kept, left_out)
}

/// The table for a terminal; a child stands below its parent, indented. With all processes it also has the main wait
/// and the unit of each.
pub fn processes(processes: &[ProcessLine], layout: Layout) -> String {
    /// The deepest level that is indented.
    const MAX_DEPTH: u32 = 20;
    let width = Some(layout.time_width());
    let (kept, left_out) = listed(processes, layout.all_processes);
    let mut columns = vec![
        Column::new("processes", Align::Left, None),
        Column::new("pid", Align::Right, Some(8)),
        Column::new(layout.instants("start"), Align::Right, width),
        Column::new("length", Align::Right, width),
    ];
    let is_traced = processes.iter().any(|p| p.cpu_ns.is_some());
    let tells_more = is_traced && layout.all_processes;
    if is_traced {
        columns.push(Column::new("CPU", Align::Right, width));
    }
    if tells_more {
        columns.push(Column::new("waited most", Align::Right, Some(12)));
        columns.push(Column::new("for", Align::Left, Some(40)));
        columns.push(Column::new("unit", Align::Left, Some(40)));
    }
    let line = |p: &&ProcessLine| {
        let indent = "  ".repeat(p.depth.min(MAX_DEPTH) as usize);
        let threads = p.threads.filter(|&threads| threads > 1).map_or(String::new(), |n| format!(" ({n} threads)"));
        let length = p.end_ns.map_or("alive".to_owned(), |end| layout.at(end - p.start_ns));
        let name = format!("{indent}{}{threads}", harmless(&p.name));
        let mut cells = vec![name, p.pid.to_string(), layout.at(p.start_ns), length];
        if is_traced {
            cells.push(p.cpu_ns.map_or_else(String::new, |ns| layout.at(ns)));
        }
        if tells_more {
            cells.push(p.waits.first().map_or_else(String::new, |waited| layout.at(waited.ns)));
            cells.push(awaited(p, layout));
            cells.push(p.unit.as_deref().map_or_else(String::new, |unit| harmless(unit).into_owned()));
        }
        Line { cells, faint: false }
    };
    let mut lines: Vec<Line> = kept.iter().map(line).collect();
    if left_out > 0 {
        let name = format!("{} not listed: --processes lists all", counted(left_out as u64, "shorter one"));
        let cells = [name].into_iter().chain(std::iter::repeat_with(String::new)).take(columns.len()).collect();
        lines.push(Line { cells, faint: true });
    }
    let mut out = String::new();
    render(&columns, &lines, layout.table_width(), layout.style, &mut out);
    out
}

/// The main wait of a process, and the process or device that ended most of it, with that part.
fn awaited(p: &ProcessLine, layout: Layout) -> String {
    let Some(most) = p.waits.first() else { return String::new() };
    let (what, has_name) = match most.kind {
        AwaitedKind::Child => ("child", true),
        AwaitedKind::Process => ("process", true),
        AwaitedKind::OwnThread => ("a thread of its own", false),
        AwaitedKind::KernelThread => ("a thread of the kernel", true),
        AwaitedKind::Disk => ("disk", true),
        AwaitedKind::Device => ("device", true),
        AwaitedKind::Timer => ("timer", false),
        AwaitedKind::Unknown => ("not known", false),
    };
    match &p.woken_by {
        Some(by) if has_name && by.ns < most.ns => {
            format!("{what}: {} ({})", harmless(&by.name), layout.at(by.ns))
        }
        Some(by) if has_name => format!("{what}: {}", harmless(&by.name)),
        _ => what.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{WaitedForLine, WokenByLine};

    fn process(pid: u64, depth: u32, start_ns: i64, end_ns: Option<i64>) -> ProcessLine {
        ProcessLine { pid, ppid: 0, depth, name: format!("p{pid}"), start_ns, end_ns, ..ProcessLine::default() }
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
    fn the_lasting_ones_of_many_are_listed() {
        let mut all: Vec<ProcessLine> = (0..100).map(|i| process(i, 0, 0, Some(i as i64))).collect();
        all.push(process(100, 0, 50, None));
        let (kept, left_out) = listed(&all, false);
        assert_eq!((kept.len(), left_out), (101, 0), "one per cent of 99 is less than one");
        all.push(process(101, 0, 0, Some(10_000)));
        let (kept, left_out) = listed(&all, false);
        assert_eq!((kept.len(), left_out), (2, 100));
        assert_eq!(listed(&all, true).1, 0);
    }

    #[test]
    fn the_ancestors_of_lasting_processes_are_listed() {
        // 1 forks 2, which forks 3, which lasts. Then comes 4, which is short like its child 5.
        let mut all = vec![process(1, 0, 0, Some(1)), process(2, 1, 0, Some(1)), process(3, 2, 1, Some(1_000))];
        all.extend([process(4, 1, 2, Some(3)), process(5, 2, 2, Some(3))]);
        all.extend((6..60).map(|pid| process(pid, 1, 5, Some(6))));
        let (kept, left_out) = listed(&all, false);
        assert_eq!((kept.iter().map(|p| p.pid).collect::<Vec<_>>(), left_out), (vec![1, 2, 3], all.len() - 3));
    }

    #[test]
    fn the_table_says_what_a_process_waited_for() {
        let waited = |kind, ns| WaitedForLine { kind, ns, count: 1 };
        let mut all = [process(1, 0, 0, None), process(15, 1, 1_000_000, Some(3_500_000))];
        all[1].threads = Some(3);
        all[1].unit = Some("a.service".to_owned());
        (all[1].cpu_ns, all[0].cpu_ns) = (Some(400_000), Some(0));
        all[0].waits = vec![waited(AwaitedKind::Timer, 7), waited(AwaitedKind::Disk, 3)];
        all[1].waits = vec![waited(AwaitedKind::Child, 2_000_000)];
        let by = |ns| Some(WokenByLine { name: "/bin/x".to_owned(), ns, ..WokenByLine::default() });
        all[1].woken_by = by(2_000_000);
        let layout = Layout { width: 120, all_processes: true, ..Layout::default() };
        let text = processes(&all, layout);
        let expected = "\
processes          pid    start   length     CPU  waited most  for            unit
p1                   1     0 ns    alive    0 ns         7 ns  timer
  p15 (3 threads)   15  1.00 ms  2.50 ms  400 µs      2.00 ms  child: /bin/x  a.service
";
        assert_eq!(text, expected, "{text}");
        // If several ended a wait, the text shows the time of the main one.
        all[1].woken_by = by(1_500_000);
        let text = processes(&all, layout);
        assert!(text.contains("2.00 ms  child: /bin/x (1.50 ms)"), "{text}");
    }
}
