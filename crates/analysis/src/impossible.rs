//! What cannot be: figures of a boot that contradict each other. Whatever the evidence was, none of these may be shown
//! without being said: each is a fault of the evidence that no reader noticed, or of bootscope.
//!
//! One check for all recordings: `show` prints what it finds, and the tests run it on every recording that they make.

use crate::phases::Phase;
use crate::stretch::BootPath;
use crate::tables::{Row, Tables};
use timeline::{DiagnosticKind, Diagnostics, Ns, Running, SpanId, SpanKind, SpanRow, Timeline, TrackId};

/// All that contradicts itself in a boot, by kind. Nothing, if bootscope and its evidence are as they should be.
/// `O(n log n)` in spans and running stretches.
pub fn impossible(timeline: &Timeline, path: &BootPath, phases: &[Phase], tables: &Tables) -> Diagnostics {
    let mut found = Diagnostics::default();
    spans(timeline, &mut found);
    running(timeline, &mut found);
    let contiguous = |ends: &mut dyn Iterator<Item = (Ns, Ns)>| {
        let mut at = None;
        ends.filter_map(|(from, to)| {
            let fits = from <= to && at.is_none_or(|at| at == from);
            at = Some(to);
            (!fits).then_some(from)
        })
        .collect::<Vec<Ns>>()
    };
    for at in contiguous(&mut phases.iter().map(|phase| (phase.start, phase.end))) {
        found.note(DiagnosticKind::ImpossiblePhaseGap, || format!("at {at}"));
    }
    for at in contiguous(&mut path.stretches.iter().map(|stretch| (stretch.from, stretch.to))) {
        found.note(DiagnosticKind::ImpossiblePathGap, || format!("at {at}"));
    }
    let whole: Ns = path.stretches.iter().map(|stretch| stretch.length()).sum();
    for (name, rows) in [("where", &tables.wheres), ("functions", &tables.functions)] {
        of_table(name, rows, whole, &mut found);
    }
    let all: Ns = tables.all_threads.iter().map(|row| row.self_time).sum();
    for row in tables.all_threads.iter().filter(|row| row.self_time > all) {
        found.note(DiagnosticKind::ImpossibleRowLongerThanBoot, || row.name.clone());
    }
    // Threads work side by side, and what none of them did has a row: their sum is the boot's length at least.
    let total = crate::total(timeline);
    if all < total {
        found.note(DiagnosticKind::ImpossibleSum, || format!("all threads: {all} of {total}"));
    }
    found
}

/// Spans lie in what they are shown in, and a thread runs one initcall at a time.
fn spans(timeline: &Timeline, found: &mut Diagnostics) {
    // Of each span, whether an initcall is around it or is it.
    let mut in_initcall: Vec<bool> = Vec::with_capacity(timeline.spans.len());
    let mut last_initcall: Option<SpanRow> = None;
    let name = |row: &SpanRow| {
        let names = &timeline.names;
        format!("{} {} at {}", names.get(row.name), names.get(row.detail), row.start).replace("  ", " ")
    };
    for (id, row) in timeline.spans.iter() {
        let parent: Option<SpanId> = timeline.spans.parent(id);
        let around = parent.map(|parent| timeline.spans.get(parent));
        if around.is_some_and(|a| a.track != row.track || row.start < a.start || row.end > a.end) {
            found.note(DiagnosticKind::ImpossibleWorkOutside, || name(&row));
        }
        let inside = parent.is_some_and(|parent| in_initcall[parent.0 as usize]);
        let is_initcall = row.kind == SpanKind::Initcall && row.length() > Ns::ZERO;
        let overlaps = last_initcall.is_some_and(|last| last.track == row.track && row.start < last.end);
        if is_initcall {
            if inside || overlaps {
                found.note(DiagnosticKind::ImpossibleInitcallOverlap, || name(&row));
            }
            last_initcall =
                Some(last_initcall.filter(|last| last.track == row.track && last.end > row.end).unwrap_or(row));
        }
        in_initcall.push(inside || is_initcall);
    }
}

/// A CPU runs one thread at a time.
fn running(timeline: &Timeline, found: &mut Diagnostics) {
    // Stretches of two sources meet as exactly as their clocks agree.
    let tolerance = timeline.clocks.iter().map(|c| c.residual).max().unwrap_or_default().max(Ns::from_us(50));
    let mut of_cpu: Vec<Running> = timeline.running.iter().filter(|r| r.from < r.to).copied().collect();
    of_cpu.sort_by_key(|r| (r.cpu, r.from, r.to));
    let mut before: Option<(u32, TrackId, Ns)> = None;
    for r in of_cpu {
        let overlap = before.filter(|&(cpu, track, to)| cpu == r.cpu && track != r.track && to - r.from > tolerance);
        if overlap.is_some() {
            found.note(DiagnosticKind::ImpossibleCpuShared, || format!("CPU {} at {}", r.cpu, r.from));
        }
        before = match before {
            Some((cpu, track, to)) if cpu == r.cpu && to > r.to => Some((cpu, track, to)),
            _ => Some((r.cpu, r.track, r.to)),
        };
    }
}

/// The rows of a table of the boot path sum to the path, and none is longer.
fn of_table(table: &str, rows: &[Row], whole: Ns, found: &mut Diagnostics) {
    let sum: Ns = rows.iter().map(|row| row.self_time).sum();
    if sum != whole {
        found.note(DiagnosticKind::ImpossibleSum, || format!("{table}: {sum} of {whole}"));
    }
    for row in rows {
        if row.total_time > whole || row.self_time > whole {
            found.note(DiagnosticKind::ImpossibleRowLongerThanBoot, || format!("{table}: {}", row.name));
        }
        if row.self_time > row.total_time {
            found.note(DiagnosticKind::ImpossibleSelfOverTotal, || format!("{table}: {}", row.name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Groups, boot_path, phases, tables};
    use timeline::{End, EndEvidence, NameId, TimeBase, TrackKind};

    /// A boot of 100 ns with these spans: kind, from, to.
    fn boot(spans: &[(SpanKind, i64, i64)]) -> Timeline {
        let mut t = Timeline::new(TimeBase::Host);
        let track = t.tracks.add(NameId::EMPTY, TrackKind::Thread, 1);
        for (i, &(kind, start, end)) in spans.iter().enumerate() {
            let name = t.names.intern(&format!("f{i}"));
            let row = SpanRow { name, detail: NameId::EMPTY, start: Ns(start), end: Ns(end), track, kind };
            t.spans.push(row, None);
        }
        t.end = Some(End { at: Ns(100), error: Ns::ZERO, track: Some(track), evidence: EndEvidence::LastSign });
        t
    }

    fn kinds(t: &Timeline, change: impl FnOnce(&mut BootPath, &mut Vec<Phase>, &mut Tables)) -> Vec<DiagnosticKind> {
        let (mut path, mut phases) = (boot_path(t), phases(t));
        let mut tables = tables(t, &path, &phases, &Groups::linux());
        change(&mut path, &mut phases, &mut tables);
        impossible(t, &path, &phases, &tables).iter().map(|d| d.kind).collect()
    }

    #[test]
    fn nothing_is_found_in_a_boot_that_adds_up() {
        use SpanKind::{Call, Initcall, Level};
        let mut t = boot(&[(Level, 0, 90), (Initcall, 10, 30), (Call, 12, 20), (Initcall, 30, 80)]);
        t.finalize(Ns::ZERO);
        assert_eq!(kinds(&t, |_, _, _| {}), []);
    }

    #[test]
    fn each_contradiction_is_found() {
        use SpanKind::{Call, Initcall};
        let mut nested = boot(&[(Initcall, 0, 50), (Call, 5, 40), (Initcall, 10, 30)]);
        nested.finalize(Ns::ZERO);
        assert_eq!(kinds(&nested, |_, _, _| {}), [DiagnosticKind::ImpossibleInitcallOverlap]);

        let mut around = boot(&[(Call, 0, 50), (Call, 5, 40)]);
        around.finalize(Ns::ZERO);
        around.spans.set_end(SpanId(0), Ns(20));
        assert!(kinds(&around, |_, _, _| {}).contains(&DiagnosticKind::ImpossibleWorkOutside));

        let mut plain = boot(&[(Call, 0, 50), (Call, 60, 90)]);
        plain.finalize(Ns::ZERO);
        assert_eq!(
            kinds(&plain, |path, _, _| path.stretches[0].to = Ns(40)),
            [DiagnosticKind::ImpossiblePathGap, DiagnosticKind::ImpossibleSum]
        );
        assert_eq!(kinds(&plain, |_, phases, _| phases.extend(phases.clone())), [DiagnosticKind::ImpossiblePhaseGap]);
        let longer = |_: &mut BootPath, _: &mut Vec<Phase>, tables: &mut Tables| tables.wheres[0].total_time = Ns(101);
        assert_eq!(kinds(&plain, longer), [DiagnosticKind::ImpossibleRowLongerThanBoot]);
        let less = |_: &mut BootPath, _: &mut Vec<Phase>, tables: &mut Tables| tables.wheres[0].total_time = Ns(1);
        assert_eq!(kinds(&plain, less), [DiagnosticKind::ImpossibleSelfOverTotal]);

        let other = plain.tracks.add(NameId::EMPTY, TrackKind::Thread, 2);
        let first = plain.spans.get(SpanId(0)).track;
        let ran = |track, from, to| Running { track, cpu: 0, from: Ns::from_us(from), to: Ns::from_us(to) };
        plain.running = vec![ran(first, 0, 400), ran(other, 300, 500)];
        assert!(kinds(&plain, |_, _, _| {}).contains(&DiagnosticKind::ImpossibleCpuShared));
    }
}
