//! The accesses that left the guest. This is the text for a terminal; `exits_document` has the document.

use crate::exits_document::{ExitCounts, ExitFunctionLine, ExitsLine};
use crate::paragraph::paragraph;
use crate::table::{Align, Column, Line, render};
use crate::text::counted;
use crate::{Layout, harmless};

/// The largest number of kinds and devices that are printed.
const MAX_KINDS: usize = 16;
/// The largest number of functions that are named as waiting.
const MAX_WAITS: usize = 6;
const WITHOUT_NAME: &str = "(code without a name)";
const HEADINGS: [&str; 3] = ["accesses", "in waits", "pages"];

/// The text for a terminal.
pub(crate) fn exits(found: &ExitsLine, layout: Layout) -> String {
    let mut out = String::new();
    if found.kinds.is_empty() {
        paragraph("device accesses: there were none", "", layout, &mut out);
        return out;
    }
    kinds(found, layout, &mut out);
    out.push('\n');
    functions(found, layout, &mut out);
    if !found.phases.is_empty() {
        out.push('\n');
        let lines = found.phases.iter().map(|phase| line(&phase.name, &[Some(phase.counts)]));
        table("device accesses by phase", &HEADINGS, lines.collect(), layout, &mut out);
    }
    if !found.waits.is_empty() {
        let named = found
            .waits
            .iter()
            .take(MAX_WAITS)
            .map(|wait| format!("{} {}", if wait.name.is_empty() { WITHOUT_NAME } else { &wait.name }, wait.reads));
        let more = if found.waits.len() > MAX_WAITS { ", and others" } else { "" };
        let text = harmless(&named.collect::<Vec<_>>().join(", ")).into_owned() + more;
        paragraph(&text, "reads of clocks in loops that wait for them: ", layout, &mut out);
    }
    let waits = "accesses in waits are those of loops that wait for a clock: as many as fit into the wait. A page is first \
                 touched by data accesses of the CPU";
    paragraph(waits, "", layout, &mut out);
    if found.without_time > 0 {
        let text = format!("{} without a time: in no phase", plural(found.without_time));
        paragraph(&text, "", layout, &mut out);
    }
    out
}

fn plural(count: u64) -> String {
    format!("{count} {}", if count == 1 { "access" } else { "accesses" })
}

fn kinds(found: &ExitsLine, layout: Layout, out: &mut String) {
    let name = |kind: &str, device: &str| match device {
        "" => kind.to_owned(),
        device => format!("{kind}: {device}"),
    };
    let mut lines: Vec<Line> =
        found.kinds.iter().take(MAX_KINDS).map(|k| cells(&name(&k.kind, &k.device), [k.count, k.in_waits])).collect();
    if let Some(rest) = found.kinds.get(MAX_KINDS..).filter(|rest| !rest.is_empty()) {
        let sum =
            |of: fn(&crate::exits_document::ExitKindLine) -> u64| rest.iter().map(of).fold(0, u64::saturating_add);
        let mut line = cells(&format!("{} more", rest.len()), [sum(|k| k.count), sum(|k| k.in_waits)]);
        line.faint = true;
        lines.push(line);
    }
    table("device accesses", &["count", "in waits"], lines, layout, out);
}

fn functions(found: &ExitsLine, layout: Layout, out: &mut String) {
    let mut shown: Vec<&ExitFunctionLine> = found.functions.iter().filter(|f| weight(f) > 0).collect();
    shown.sort_by_key(|f| std::cmp::Reverse(weight(f)));
    let columns = if found.has_calls { 2 } else { 1 };
    let cells = |f: &&ExitFunctionLine| {
        let name = if f.name.is_empty() { WITHOUT_NAME } else { &f.name };
        line(name, &[Some(f.own), f.with_callees][..columns])
    };
    let mut lines: Vec<Line> = shown.iter().take(layout.top).map(cells).collect();
    if let Some(rest) = shown.get(layout.top..).filter(|rest| !rest.is_empty()) {
        let mut sum = ExitCounts::default();
        rest.iter().for_each(|f| sum.sum(f.own));
        let mut line = line(&counted(rest.len() as u64, "other function"), &[Some(sum), None][..columns]);
        line.faint = true;
        lines.push(line);
    }
    let mut headings = HEADINGS.to_vec();
    if found.has_calls {
        headings.extend(["with callees", "in waits", "pages"]);
    }
    table("device accesses by function", &headings, lines, layout, out);
}

/// Accesses and touched pages alike, so that the table also has the functions that touch the most. Waits have a line of
/// their own.
fn weight(function: &ExitFunctionLine) -> u64 {
    function.own.accesses.saturating_add(function.own.pages)
}

fn line(name: &str, counts: &[Option<ExitCounts>]) -> Line {
    let text = |n: fn(&ExitCounts) -> u64, counts: &Option<ExitCounts>| {
        counts.as_ref().map_or(String::new(), |c| n(c).to_string())
    };
    let numbers = counts.iter().flat_map(|c| [text(|c| c.accesses, c), text(|c| c.in_waits, c), text(|c| c.pages, c)]);
    Line { cells: std::iter::once(harmless(name).into_owned()).chain(numbers).collect(), faint: false }
}

fn cells(name: &str, numbers: [u64; 2]) -> Line {
    let numbers = numbers.map(|n| n.to_string());
    Line { cells: std::iter::once(harmless(name).into_owned()).chain(numbers).collect(), faint: false }
}

fn table(title: &'static str, headings: &[&'static str], lines: Vec<Line>, layout: Layout, out: &mut String) {
    let mut columns = vec![Column::new(title, Align::Left, None)];
    columns.extend(headings.iter().map(|heading| Column::new(*heading, Align::Right, Some(14))));
    render(&columns, &lines, layout.table_width(), layout.style, out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exits_document::{ExitKindLine, ExitPhaseLine, ExitWaitLine};

    fn example() -> ExitsLine {
        let counts = |accesses, pages| ExitCounts { accesses, in_waits: 0, pages };
        let function = |name: &str, own, with_callees| ExitFunctionLine { name: name.to_owned(), own, with_callees };
        ExitsLine {
            kinds: vec![ExitKindLine {
                kind: "MMIO read".to_owned(),
                device: "HPET".to_owned(),
                count: 9,
                in_waits: 7,
            }],
            functions: vec![
                function("reads", counts(9, 0), Some(counts(9, 0))),
                function("only_calls", counts(0, 0), Some(counts(9, 0))),
                function("", counts(2, 70), None),
                function("e\u{1b}[31m", counts(1, 0), None),
            ],
            waits: vec![ExitWaitLine { name: "waits".to_owned(), reads: 64 }],
            phases: vec![ExitPhaseLine { name: "firmware".to_owned(), start_ns: 0, counts: counts(12, 70) }],
            has_calls: true,
            without_time: 1,
            uncounted: 0,
        }
    }

    #[test]
    fn the_tables_have_kinds_functions_waits_and_phases() {
        let text = exits(&example(), Layout { top: 2, ..Layout::default() });
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert!(rows.contains(&vec!["MMIO", "read:", "HPET", "9", "7"]), "{text}");
        assert!(rows.contains(&vec!["(code", "without", "a", "name)", "2", "0", "70"]), "{text}");
        assert!(rows.contains(&vec!["reads", "9", "0", "0", "9", "0", "0"]), "{text}");
        assert!(rows.contains(&vec!["1", "other", "function", "1", "0", "0"]), "{text}");
        assert!(rows.contains(&vec!["firmware", "12", "0", "70"]), "{text}");
        assert!(text.contains("wait for them: waits 64") && text.contains("1 access without a time"), "{text}");
        assert!(!text.contains("only_calls"), "{text}");
        assert!(!exits(&example(), Layout::default()).contains('\u{1b}'));
    }

    #[test]
    fn a_boot_without_accesses_says_so() {
        assert_eq!(exits(&ExitsLine::default(), Layout::default()), "device accesses: there were none\n");
    }
}
