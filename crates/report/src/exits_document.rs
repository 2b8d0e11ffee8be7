//! The accesses that leave the guest, as `show --json` lists them. `exits_text` makes the text for a terminal.

use crate::PhaseLine;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use timeline::{ExitKind, ExitRow, Exits, NameId, Names, Ns};

/// The accesses that left the guest up to the end mark, reads of clocks' registers, and first touches of pages of RAM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ExitsLine {
    /// The sums by kind and device, the largest first.
    pub kinds: Vec<ExitKindLine>,
    /// The functions that made accesses, those with the most first.
    pub functions: Vec<ExitFunctionLine>,
    /// The functions with loops that wait for a clock, those with the most reads first.
    pub waits: Vec<ExitWaitLine>,
    /// The sums by phase, in the order of the phases.
    pub phases: Vec<ExitPhaseLine>,
    /// True if `with_callees` of functions is known: the boot was recorded with `--trace calls`, too.
    pub has_calls: bool,
    /// Accesses whose time is unknown. They are in `kinds` and `functions`, but in no phase, and some may be after the
    /// end mark.
    pub without_time: u64,
    /// Accesses whose function is unknown, because the recorder's table was full. They are in no list, and some may be
    /// after the end mark.
    pub uncounted: u64,
}

/// Counts of accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ExitCounts {
    /// Accesses that left the guest, except those of timed waits.
    pub accesses: u64,
    /// Accesses that left the guest in loops that wait for a clock: as many as fit into the wait.
    pub in_waits: u64,
    /// Pages of 4 KiB that were first touched.
    pub pages: u64,
}

/// The accesses of one kind to one device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ExitKindLine {
    /// `port read`, `port write`, `MMIO read`, `MMIO write`, `MSR read`, `MSR write`, `CPUID`, `halt`, `hypercall`; or
    /// `clock read` or `page first touched`, which leave no guest.
    pub kind: String,
    /// The device, the port or the page of addresses; empty if it is unknown.
    pub device: String,
    /// All such accesses.
    pub count: u64,
    /// Those of them in loops that wait for a clock.
    pub in_waits: u64,
}

/// The accesses of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ExitFunctionLine {
    /// The function; empty for code without a name, such as firmware and programs.
    pub name: String,
    /// The accesses of its own code.
    pub own: ExitCounts,
    /// The same and those of the functions that it called; `null` if calls were not followed.
    pub with_callees: Option<ExitCounts>,
}

/// The loops of a function that wait for a clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ExitWaitLine {
    /// The function; empty for code without a name.
    pub name: String,
    /// Their reads of clocks' registers and of clocks that are devices.
    pub reads: u64,
}

/// The accesses in a phase.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ExitPhaseLine {
    pub name: String,
    pub start_ns: i64,
    pub counts: ExitCounts,
}

impl ExitCounts {
    fn add(&mut self, kind: ExitKind, count: u64, in_waits: u64) {
        match kind {
            ExitKind::FirstTouch => self.pages = self.pages.saturating_add(count),
            _ if kind.leaves_guest() => {
                self.accesses = self.accesses.saturating_add(count - in_waits);
                self.in_waits = self.in_waits.saturating_add(in_waits);
            }
            _ => {}
        }
    }

    pub(crate) fn sum(&mut self, other: ExitCounts) {
        self.accesses = self.accesses.saturating_add(other.accesses);
        self.in_waits = self.in_waits.saturating_add(other.in_waits);
        self.pages = self.pages.saturating_add(other.pages);
    }
}

/// A row's accesses up to the end mark.
#[derive(Clone, Copy, Default)]
struct Counted {
    count: u64,
    in_waits: u64,
}

impl Counted {
    fn sum(&mut self, count: u64, in_waits: u64) {
        self.count = self.count.saturating_add(count);
        self.in_waits = self.in_waits.saturating_add(in_waits);
    }
}

impl ExitsLine {
    /// Sums up what is before the end of the boot. The phases are those of the boot, in order.
    pub(crate) fn of(exits: &Exits, phases: &[PhaseLine], end: Ns, names: &Names) -> ExitsLine {
        let counted = counted(exits, end);
        let (own, within) = (own(exits, &counted), within(exits, &counted));
        let has_calls = !exits.paths.is_empty();
        let functions = functions(&own, &within, has_calls, names);
        ExitsLine {
            kinds: kinds(exits, &counted, names),
            functions,
            waits: waits(exits, &counted, names),
            phases: by_phase(exits, phases, end),
            has_calls,
            without_time: exits
                .runs
                .iter()
                .filter(|run| run.at.is_none())
                .fold(0, |sum, run| run.count.saturating_add(sum)),
            uncounted: exits.rest.iter().fold(0, |sum, (_, count)| count.saturating_add(sum)),
        }
    }
}

fn is_before(at: Option<Ns>, end: Ns) -> bool {
    at.is_none_or(|at| at < end)
}

fn counted(exits: &Exits, end: Ns) -> Vec<Counted> {
    let mut counted = vec![Counted::default(); exits.rows.len()];
    for run in exits.runs.iter().filter(|run| is_before(run.at, end)) {
        counted[run.row as usize].sum(run.count, run.in_waits);
    }
    counted
}

fn rows<'e>(exits: &'e Exits, counted: &'e [Counted]) -> impl Iterator<Item = (&'e ExitRow, Counted)> {
    exits.rows.iter().zip(counted.iter().copied()).filter(|(_, counted)| counted.count > 0)
}

fn kinds(exits: &Exits, counted: &[Counted], names: &Names) -> Vec<ExitKindLine> {
    let mut sums: BTreeMap<(ExitKind, &str), Counted> = BTreeMap::new();
    for (row, counted) in rows(exits, counted) {
        sums.entry((row.kind, names.get(row.place))).or_default().sum(counted.count, counted.in_waits);
    }
    let line = |((kind, device), sum): ((ExitKind, &str), Counted)| ExitKindLine {
        kind: kind.name().to_owned(),
        device: device.to_owned(),
        count: sum.count,
        in_waits: sum.in_waits,
    };
    let mut lines: Vec<ExitKindLine> = sums.into_iter().map(line).collect();
    lines.sort_by_key(|line| std::cmp::Reverse(line.count));
    lines
}

fn waits(exits: &Exits, counted: &[Counted], names: &Names) -> Vec<ExitWaitLine> {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for (row, counted) in rows(exits, counted).filter(|(_, counted)| counted.in_waits > 0) {
        let sum = sums.entry(names.get(row.function)).or_default();
        *sum = sum.saturating_add(counted.in_waits);
    }
    let mut lines: Vec<ExitWaitLine> =
        sums.into_iter().map(|(name, reads)| ExitWaitLine { name: name.to_owned(), reads }).collect();
    lines.sort_by_key(|line| std::cmp::Reverse(line.reads));
    lines
}

type ByFunction = BTreeMap<NameId, ExitCounts>;

fn own(exits: &Exits, counted: &[Counted]) -> ByFunction {
    let mut sums = ByFunction::new();
    for (row, Counted { count, in_waits }) in rows(exits, counted) {
        sums.entry(row.function).or_default().add(row.kind, count, in_waits);
    }
    sums
}

/// The accesses below each function on their call paths. A function that is on a path several times counts once.
fn within(exits: &Exits, counted: &[Counted]) -> ByFunction {
    let mut by_path = vec![ExitCounts::default(); exits.paths.len()];
    for (row, Counted { count, in_waits }) in rows(exits, counted) {
        if let Some(path) = row.path {
            by_path[path as usize].add(row.kind, count, in_waits);
        }
    }
    let mut sums = ByFunction::new();
    for (path, counts) in by_path.into_iter().enumerate().filter(|(_, counts)| *counts != ExitCounts::default()) {
        let mut functions: Vec<NameId> =
            std::iter::successors(Some(path), |&at| exits.paths[at].caller.map(|caller| caller as usize))
                .map(|at| exits.paths[at].function)
                .collect();
        functions.sort_unstable();
        functions.dedup();
        functions.into_iter().for_each(|function| sums.entry(function).or_default().sum(counts));
    }
    sums
}

fn functions(own: &ByFunction, within: &ByFunction, has_calls: bool, names: &Names) -> Vec<ExitFunctionLine> {
    let mut ids: Vec<NameId> = own.keys().chain(within.keys()).copied().collect();
    ids.sort_unstable();
    ids.dedup();
    let line = |id: NameId| ExitFunctionLine {
        name: names.get(id).to_owned(),
        own: own.get(&id).copied().unwrap_or_default(),
        // The callees of code without a name are not those of one function.
        with_callees: (has_calls && !id.is_empty()).then(|| within.get(&id).copied().unwrap_or_default()),
    };
    let mut lines: Vec<ExitFunctionLine> = ids.into_iter().map(line).collect();
    lines.retain(|line| {
        line.own != ExitCounts::default() || line.with_callees.is_some_and(|within| within != ExitCounts::default())
    });
    let key = |line: &ExitFunctionLine| (line.own.accesses, line.own.in_waits, line.own.pages);
    lines.sort_by(|a, b| key(b).cmp(&key(a)).then_with(|| a.name.cmp(&b.name)));
    lines
}

fn by_phase(exits: &Exits, phases: &[PhaseLine], end: Ns) -> Vec<ExitPhaseLine> {
    let line =
        |phase: &PhaseLine| ExitPhaseLine { name: phase.name.clone(), start_ns: phase.start_ns, ..Default::default() };
    let mut lines: Vec<ExitPhaseLine> = phases.iter().map(line).collect();
    for run in exits.runs.iter().filter(|run| is_before(run.at, end)) {
        let Some(at) = run.at else { continue };
        // The first phase also has what was before it.
        let place = phases.partition_point(|phase| phase.start_ns <= at.0).saturating_sub(1);
        if let Some(line) = lines.get_mut(place) {
            line.counts.add(exits.rows[run.row as usize].kind, run.count, run.in_waits);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use timeline::{ExitPath, ExitRun};

    /// Two functions: `outer` touches a page and calls `inner`, which writes to a port, in a wait and after it.
    fn example(names: &mut Names) -> Exits {
        let [outer, inner, uart] = ["outer", "inner", "UART"].map(|name| names.intern(name));
        let row = |kind, function, place, path| ExitRow { kind, function, place, path };
        let run = |row, at: Option<i64>, count, in_waits| ExitRun { row, at: at.map(Ns), count, in_waits };
        let path = |function, caller| ExitPath { function, caller };
        Exits {
            rows: vec![
                row(ExitKind::FirstTouch, outer, NameId::EMPTY, Some(0)),
                row(ExitKind::PortWrite, inner, uart, Some(2)),
                row(ExitKind::ClockRead, inner, NameId::EMPTY, Some(1)),
            ],
            runs: vec![
                run(0, Some(5), 1, 0),
                run(1, Some(20), 70, 64),
                run(1, Some(99), 3, 0),
                run(1, Some(100), 1000, 0),
                run(1, None, 2, 0),
                run(2, Some(20), 500, 500),
            ],
            // `inner` calls itself.
            paths: vec![path(outer, None), path(inner, Some(0)), path(inner, Some(1))],
            rest: vec![(ExitKind::Cpuid, 4)],
        }
    }

    #[test]
    fn accesses_are_summed_up_to_the_end_mark() {
        let mut names = Names::default();
        let exits = example(&mut names);
        let phase = |name: &str, start_ns| PhaseLine { name: name.to_owned(), start_ns, ..PhaseLine::default() };
        let found = ExitsLine::of(&exits, &[phase("firmware", 10), phase("kernel", 21)], Ns(100), &names);
        let counts = |accesses, in_waits, pages| ExitCounts { accesses, in_waits, pages };
        let functions: Vec<_> = found.functions.iter().map(|f| (&*f.name, f.own, f.with_callees)).collect();
        assert_eq!(
            functions,
            [
                ("inner", counts(11, 64, 0), Some(counts(11, 64, 0))),
                ("outer", counts(0, 0, 1), Some(counts(11, 64, 1)))
            ]
        );
        let kinds: Vec<_> = found.kinds.iter().map(|k| (&*k.kind, &*k.device, k.count, k.in_waits)).collect();
        let expected = [("clock read", "", 500, 500), ("port write", "UART", 75, 64), ("page first touched", "", 1, 0)];
        assert_eq!(kinds, expected);
        let waits: Vec<_> = found.waits.iter().map(|w| (&*w.name, w.reads)).collect();
        assert_eq!(waits, [("inner", 564)]);
        let phases: Vec<_> = found.phases.iter().map(|p| (&*p.name, p.counts)).collect();
        assert_eq!(phases, [("firmware", counts(6, 64, 1)), ("kernel", counts(3, 0, 0))]);
        assert!(found.has_calls && (found.without_time, found.uncounted) == (2, 4));
    }

    #[test]
    fn without_calls_a_function_has_its_own_accesses_only() {
        let mut names = Names::default();
        let mut exits = example(&mut names);
        exits.paths.clear();
        exits.rows.iter_mut().for_each(|row| row.path = None);
        let found = ExitsLine::of(&exits, &[], Ns(100), &names);
        assert!(!found.has_calls && found.phases.is_empty());
        assert!(found.functions.iter().all(|f| f.with_callees.is_none()));
    }
}
