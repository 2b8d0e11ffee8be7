//! What two boots of an experiment say, the slow one and one with a remedy, and whether that is right.

use super::{LabAmount, LabBoot, LabCheck, LabFigure};
use crate::Boot;
use analysis::{RowChange, WhatIf};
use lab::experiments::Experiment;
use serde::{Deserialize, Serialize};
use timeline::Ns;

/// A remedy is right if the boot became shorter by what was foretold, give or take this share of it. How long it took is
/// compared likewise: where nearly all is saved, a small error of the saving is a large one of the boot.
const FORETOLD_WITHIN: f64 = 0.1;

/// An experiment with one of its remedies: two boots.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LabTrial {
    /// The experiment.
    pub name: String,
    /// What is slow, and what helps.
    pub what: String,
    /// Where the published figures are from.
    pub source: String,
    /// Virtual CPUs of both boots.
    pub cpus: u32,
    /// Memory of both.
    pub memory_bytes: u64,
    /// The words that make it quick.
    pub remedy: String,
    /// The slow boot's command line.
    pub slow: String,
    /// The other one's.
    pub fast: String,
    /// How long the slow boot took.
    pub slow_total_ns: i64,
    /// How long the other one did.
    pub fast_total_ns: i64,
    /// What was timed in both.
    pub figures: Vec<LabFigure>,
    /// What else was measured.
    #[serde(default)]
    pub amounts: Vec<LabAmount>,
    /// Which lengths are neither the hardware's nor published, and how they were chosen; empty if none.
    #[serde(default)]
    pub chosen: String,
    /// The rows of the boot path that became shorter by most, as many as are expected.
    pub blamed: Vec<LabBlame>,
    /// The rows that the switch is to be found in.
    pub expected: Vec<String>,
    /// Whether they are the same, and `added` is what the remedy was to add.
    #[serde(default)]
    pub rows_right: bool,
    /// The rows that became longer by most, as many as the remedy was to add: what it costs.
    #[serde(default)]
    pub added: Vec<LabAdded>,
    /// How much shorter the boot became.
    #[serde(default)]
    pub saved_ns: i64,
    /// How much shorter `what-if` says that the slow boot becomes if the expected rows take what they take in the other
    /// one; none if it cannot say.
    #[serde(default)]
    pub foretold_ns: Option<i64>,
    /// Why it cannot, or what else keeps the two apart; empty if nothing does.
    #[serde(default)]
    pub not_foretold: String,
    /// How long `what-if` says that the slow boot then takes: `slow_total_ns` less `foretold_ns`, and what was added.
    #[serde(default)]
    pub foretold_total_ns: Option<i64>,
    /// Whether `fast_total_ns` is that, within 10 %.
    #[serde(default)]
    pub total_near: bool,
    /// Why it is not: what else the remedy adds or changes; empty if it is.
    #[serde(default)]
    pub differs: String,
    /// In what the experiment is unlike the published boot; empty if in nothing.
    #[serde(default)]
    pub note: String,
    /// Why this was published as no remedy; empty if it was as one, or not at all.
    #[serde(default)]
    pub no_better: String,
    /// What the kernel says of a check that decides in the place of a time; none where time decides.
    #[serde(default)]
    pub check: Option<LabCheck>,
    /// Whether the expected rows were blamed, the boot became shorter by what was foretold, within 10 %, and it took what
    /// was foretold, within 10 %, or `differs` says why not. Of a check: whether the slow boot is broken and the other one
    /// correct.
    pub right: bool,
}

/// A row that became shorter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LabBlame {
    /// The row.
    pub row: String,
    /// By how much.
    pub saved_ns: i64,
}

/// A row that a remedy made longer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LabAdded {
    /// The row.
    pub row: String,
    /// By how much.
    pub added_ns: i64,
}

impl LabTrial {
    /// What two boots of an experiment say, the slow one and one with a remedy.
    pub fn of(experiment: &Experiment, remedy: &str, slow: LabBoot, fast: LabBoot) -> LabTrial {
        let nth = experiment.remedies.iter().position(|of| *of == remedy).unwrap_or(usize::MAX);
        let amounts = experiment.amounts.iter().map(|amount| LabAmount::of(amount, nth, slow, fast)).collect();
        let check = LabCheck::of(experiment, slow, fast);
        let (slow, fast) = (slow.boot, fast.boot);
        let line = |words: &str| format!("{} {words}", experiment.always).trim_start().to_owned();
        let of = |boot: &Boot| boot.tables().wheres.clone();
        let mut fell: Vec<RowChange> = analysis::row_changes(&of(slow), &of(fast));
        let (added, added_right) = added(experiment, remedy, &fell);
        let added_total: Ns = added.iter().map(|row| Ns(row.added_ns)).sum();
        fell.retain(|row| row.on_path() < Ns::ZERO);
        // Where a remedy is to save nothing, no row is to blame; otherwise just the switch's are.
        let saves_nothing = experiment.saves_nothing.contains(&remedy);
        fell.truncate(if saves_nothing { 0 } else { experiment.blamed.len() });
        let rows: Vec<&str> = fell.iter().map(|row| row.name.as_str()).collect();
        let saved = slow.total - fast.total;
        let rows_right = if saves_nothing { 100 * saved.0.abs() <= slow.total.0 } else { experiment.is_right(&rows) };
        let rows_right = rows_right && added_right;
        let (foretold, not_foretold) = match &check {
            None => foretell(experiment, slow, fast),
            Some(_) => (None, String::new()),
        };
        let foretold_total = foretold.map(|foretold| slow.total - foretold + added_total);
        let total_near = foretold_total.is_some_and(|total| is_near(total, fast.total));
        let of_remedy = |said: &[(&str, &str)]| {
            said.iter().find(|(of, _)| *of == remedy).map_or_else(String::new, |(_, why)| (*why).to_owned())
        };
        let differs = if total_near { String::new() } else { of_remedy(experiment.differs) };
        LabTrial {
            name: experiment.name.to_owned(),
            what: experiment.what.to_owned(),
            source: experiment.source.to_owned(),
            cpus: experiment.machine.cpus,
            memory_bytes: experiment.machine.memory_bytes,
            remedy: remedy.to_owned(),
            slow: line(experiment.slow),
            fast: line(remedy),
            slow_total_ns: slow.total.0,
            fast_total_ns: fast.total.0,
            figures: experiment
                .figures
                .iter()
                .map(|figure| LabFigure::of(figure, experiment, remedy, slow, fast))
                .collect(),
            amounts,
            chosen: experiment.chosen.to_owned(),
            rows_right,
            saved_ns: saved.0,
            foretold_ns: foretold.map(|foretold| foretold.0),
            not_foretold,
            right: match &check {
                Some(check) => check.is_right(),
                None => {
                    rows_right
                        && (saves_nothing || foretold.is_some_and(|foretold| is_near(foretold - added_total, saved)))
                        && (total_near || !differs.is_empty())
                }
            },
            check,
            added,
            foretold_total_ns: foretold_total.map(|total| total.0),
            total_near,
            differs,
            note: experiment.note.to_owned(),
            no_better: of_remedy(experiment.no_better),
            blamed: fell.iter().map(|row| LabBlame { row: row.name.clone(), saved_ns: -row.on_path().0 }).collect(),
            expected: experiment.blamed.iter().map(|&row| row.to_owned()).collect(),
        }
    }
}

/// How much shorter the slow boot becomes if the rows that the switch is in take what they take in the fast one; or why
/// nobody can say.
fn foretell(experiment: &Experiment, slow: &Boot, fast: &Boot) -> (Option<Ns>, String) {
    let takes = |name: &str| {
        let row = fast.tables().wheres.iter().find(|row| row.name == name);
        row.map_or(Ns::ZERO, |row| row.self_time)
    };
    let rows: Vec<(String, Ns)> = experiment.blamed.iter().map(|&row| (row.to_owned(), takes(row))).collect();
    match WhatIf::foretell(slow.timeline, slow.groups(), &rows) {
        Ok(foretold) => (Some(foretold), String::new()),
        Err(cannot) => (None, cannot.to_string()),
    }
}

fn is_near(foretold: Ns, saved: Ns) -> bool {
    (foretold - saved).0.abs() as f64 <= FORETOLD_WITHIN * saved.0.abs() as f64
}

/// The rows that became longer by most, as many as the remedy is to add, and whether they are those.
fn added(experiment: &Experiment, remedy: &str, changes: &[RowChange]) -> (Vec<LabAdded>, bool) {
    let expected = experiment.adds.iter().find(|(of, _)| *of == remedy).map_or(&[][..], |(_, rows)| *rows);
    let mut grew: Vec<&RowChange> = changes.iter().filter(|row| row.on_path() > Ns::ZERO).collect();
    grew.sort_by_key(|row| std::cmp::Reverse(row.on_path()));
    grew.truncate(expected.len());
    let right = grew.len() == expected.len() && grew.iter().all(|row| expected.contains(&row.name.as_str()));
    (grew.iter().map(|row| LabAdded { row: row.name.clone(), added_ns: row.on_path().0 }).collect(), right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saving_is_foretold_within_a_tenth_of_what_was_saved() {
        for (foretold, saved, near) in [
            (90, 100, true),
            (110, 100, true),
            (89, 100, false),
            (111, 100, false),
            (0, 0, true),
            (5, 0, false),
            (3, -3, false),
        ] {
            assert_eq!(is_near(Ns(foretold), Ns(saved)), near, "{foretold} for {saved}");
        }
    }

    #[test]
    fn what_a_remedy_adds_is_what_it_was_to_add() {
        assert!(is_near(Ns(13_650_000) - Ns(70_000_000), Ns(-56_350_000)) && !is_near(Ns(1), Ns(-1)));
        let of = |rows: &[(&str, i64)]| -> Vec<RowChange> {
            let row = |&(name, ns): &(&str, i64)| RowChange {
                name: name.to_owned(),
                before: Some(Ns::ZERO),
                after: Some(Ns(ns)),
            };
            rows.iter().map(row).collect()
        };
        let pci = Experiment::named("pci-probe").unwrap();
        let expected = [("THREAD pci_probe", 20), ("check_tsc_sync", 60), ("em_reset", -60), ("wake_aps · DELAY", 10)];
        let (rows, right) = added(pci, pci.remedies[0], &of(&expected));
        assert_eq!((rows[0].row.as_str(), rows[0].added_ns, rows.len(), right), ("check_tsc_sync", 60, 3, true));
        // Another row that grew by more, or one that did not grow.
        assert!(!added(pci, pci.remedies[0], &of(&[&expected[..], &[("_vprintf", 30)]].concat())).1);
        assert!(!added(pci, pci.remedies[0], &of(&expected[1..])).1);
        assert!(added(Experiment::named("page-array").unwrap(), "vm_page=one-pass", &of(&expected)).1);
    }
}
