//! Figures of a boot that contradict each other. No contradiction may be shown without a diagnostic. Each is a fault of
//! the evidence that no reader of it noticed, or of bootscope.
//!
//! All recordings have the same check. `show` prints what it finds, and the tests run it on every recording that they
//! make.

use crate::phases::Phase;
use crate::stretch::BootPath;
use crate::tables::{Row, Tables};
use timeline::{DiagnosticKind, Diagnostics, Ns, Running, SpanId, SpanKind, SpanRow, Timeline, TrackId, Unit};

/// Returns all contradictions in a boot, by kind. The result is empty if bootscope and its evidence are correct.
/// `O(n log n)` in spans and running stretches.
pub fn impossible(timeline: &Timeline, path: &BootPath, phases: &[Phase], tables: &Tables) -> Diagnostics {
    let mut problems = Diagnostics::default();
    let show = |time| timeline.unit.show_at(time);
    check_spans(timeline, &mut problems);
    check_running(timeline, &mut problems);
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
        problems.note(DiagnosticKind::ImpossiblePhaseGap, || format!("at {}", show(at)));
    }
    for at in contiguous(&mut path.stretches.iter().map(|stretch| (stretch.from, stretch.to))) {
        problems.note(DiagnosticKind::ImpossiblePathGap, || format!("at {}", show(at)));
    }
    let whole: Ns = path.stretches.iter().map(|stretch| stretch.length()).sum();
    for (name, rows) in [("where", &tables.wheres), ("functions", &tables.functions)] {
        check_table(name, rows, whole, timeline.unit, &mut problems);
    }
    let all: Ns = tables.all_threads.iter().map(|row| row.self_time).sum();
    for row in tables.all_threads.iter().filter(|row| row.self_time > all) {
        problems.note(DiagnosticKind::ImpossibleRowLongerThanBoot, || row.name.clone());
    }
    // Threads work in parallel, and time in which none of them ran has a row. Therefore their sum is at least the
    // boot's length.
    let total = crate::total(timeline);
    if all < total {
        problems.note(DiagnosticKind::ImpossibleSum, || format!("all threads: {} of {}", show(all), show(total)));
    }
    problems
}

/// Checks that spans lie inside their parents, and that a thread runs one initcall at a time.
fn check_spans(timeline: &Timeline, problems: &mut Diagnostics) {
    // For each span: true if it is an initcall or lies in one.
    let mut in_initcall: Vec<bool> = Vec::with_capacity(timeline.spans.len());
    let mut last_initcall: Option<SpanRow> = None;
    let name = |row: &SpanRow| {
        let names = &timeline.names;
        format!("{} {} at {}", names.get(row.name), names.get(row.detail), timeline.unit.show_at(row.start))
            .replace("  ", " ")
    };
    for (id, row) in timeline.spans.iter() {
        let parent: Option<SpanId> = timeline.spans.parent(id);
        let around = parent.map(|parent| timeline.spans.get(parent));
        if around.is_some_and(|a| a.track != row.track || row.start < a.start || row.end > a.end) {
            problems.note(DiagnosticKind::ImpossibleWorkOutside, || name(&row));
        }
        let inside = parent.is_some_and(|parent| in_initcall[parent.0 as usize]);
        let is_initcall = row.kind == SpanKind::Initcall && row.length() > Ns::ZERO;
        let overlaps = last_initcall.is_some_and(|last| last.track == row.track && row.start < last.end);
        if is_initcall {
            if inside || overlaps {
                problems.note(DiagnosticKind::ImpossibleInitcallOverlap, || name(&row));
            }
            last_initcall =
                Some(last_initcall.filter(|last| last.track == row.track && last.end > row.end).unwrap_or(row));
        }
        in_initcall.push(inside || is_initcall);
    }
}

/// Checks that a CPU runs one thread at a time.
fn check_running(timeline: &Timeline, problems: &mut Diagnostics) {
    // Stretches from two sources agree only as exactly as their clocks do.
    let tolerance = timeline.clocks.iter().map(|c| c.residual).max().unwrap_or_default().max(Ns::from_us(50));
    let mut runs: Vec<Running> = timeline.running.iter().filter(|r| r.from < r.to).copied().collect();
    runs.sort_by_key(|r| (r.cpu, r.from, r.to));
    let mut longest: Option<(u32, TrackId, Ns)> = None;
    for r in runs {
        let overlap = longest.filter(|&(cpu, track, to)| cpu == r.cpu && track != r.track && to - r.from > tolerance);
        if overlap.is_some() {
            problems.note(DiagnosticKind::ImpossibleCpuShared, || {
                format!("CPU {} at {}", r.cpu, timeline.unit.show_at(r.from))
            });
        }
        longest = match longest {
            Some((cpu, track, to)) if cpu == r.cpu && to > r.to => Some((cpu, track, to)),
            _ => Some((r.cpu, r.track, r.to)),
        };
    }
}

/// Checks that the rows of a table of the boot path sum to the path, and that no row is longer.
fn check_table(table: &str, rows: &[Row], whole: Ns, unit: Unit, problems: &mut Diagnostics) {
    let sum: Ns = rows.iter().map(|row| row.self_time).sum();
    if sum != whole {
        problems.note(DiagnosticKind::ImpossibleSum, || {
            format!("{table}: {} of {}", unit.show_at(sum), unit.show_at(whole))
        });
    }
    for row in rows {
        if row.total_time > whole || row.self_time > whole {
            problems.note(DiagnosticKind::ImpossibleRowLongerThanBoot, || format!("{table}: {}", row.name));
        }
        if row.self_time > row.total_time {
            problems.note(DiagnosticKind::ImpossibleSelfOverTotal, || format!("{table}: {}", row.name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Groups, boot_path, phases, tables};
    use timeline::{End, EndEvidence, NameId, TimeBase, TrackKind};

    /// Returns a boot of 100 ns with these spans: kind, start, end.
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
    fn a_consistent_boot_has_no_contradictions() {
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
