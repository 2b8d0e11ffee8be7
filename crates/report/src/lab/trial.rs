//! The comparison of two boots of an experiment, the slow one and one with a remedy, and whether it confirms the
//! expectation.

use super::{LabAmount, LabBoot, LabCheck, LabFigure};
use crate::Boot;
use analysis::{RowChange, WhatIf};
use lab::experiments::Experiment;
use serde::{Deserialize, Serialize};
use timeline::Ns;

/// The allowed relative error of a predicted saving. It also applies to the length of the boot: if nearly all is saved,
/// a small error of the saving is a large one of the boot.
const FORETOLD_WITHIN: f64 = 0.1;

/// An experiment with one of its remedies: two boots.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LabTrial {
    /// The name of the experiment.
    pub name: String,
    /// The cause and the remedy, in words.
    pub what: String,
    /// The source of the published figures.
    pub source: String,
    /// Virtual CPUs of both boots.
    pub cpus: u32,
    /// Memory of both boots.
    pub memory_bytes: u64,
    /// The words that make the boot fast.
    pub remedy: String,
    /// The slow boot's command line.
    pub slow: String,
    /// The fast boot's command line.
    pub fast: String,
    /// The length of the slow boot.
    pub slow_total_ns: i64,
    /// True if the boots have timed waits. Their lengths are then guest time, else instructions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_waits: bool,
    /// The length of the fast boot.
    pub fast_total_ns: i64,
    /// The times that were measured in both.
    pub figures: Vec<LabFigure>,
    /// The other measured amounts.
    #[serde(default)]
    pub amounts: Vec<LabAmount>,
    /// The lengths that are neither the hardware's nor published, and the reason for each choice; empty if there are
    /// none.
    #[serde(default)]
    pub chosen: String,
    /// The rows of the boot path that became shorter by most. There are as many as are expected.
    pub blamed: Vec<LabBlame>,
    /// The rows that the switch should appear in.
    pub expected: Vec<String>,
    /// True if the blamed rows are the expected ones, and `added` are the rows that the remedy should add to.
    #[serde(default)]
    pub rows_right: bool,
    /// The rows that became longer by most, as many as the remedy should add to: its cost.
    #[serde(default)]
    pub added: Vec<LabAdded>,
    /// The saving: by how much the boot became shorter.
    #[serde(default)]
    pub saved_ns: i64,
    /// The saving that `what-if` predicts for the slow boot if the expected rows take their time in the fast boot;
    /// `null` if there is no prediction.
    #[serde(default)]
    pub foretold_ns: Option<i64>,
    /// The reason why there is no prediction, or for another difference between the two; empty if there is neither.
    #[serde(default)]
    pub not_foretold: String,
    /// The predicted length of the boot: `slow_total_ns` less `foretold_ns`, plus the added time.
    #[serde(default)]
    pub foretold_total_ns: Option<i64>,
    /// True if `fast_total_ns` is within 10 % of that.
    #[serde(default)]
    pub total_near: bool,
    /// The reason if it is not, such as what else the remedy adds or changes; empty if it is.
    #[serde(default)]
    pub differs: String,
    /// The differences between the experiment and the published boot; empty if it has no differences.
    #[serde(default)]
    pub note: String,
    /// The reason why this was published as useless; empty if it was published as a remedy, or not at all.
    #[serde(default)]
    pub no_better: String,
    /// The kernel's check that decides instead of a time; `null` if time decides.
    #[serde(default)]
    pub check: Option<LabCheck>,
    /// True if three conditions hold: the expected rows were blamed; the saving is within 10 % of the prediction; so is
    /// the length of the boot, or `differs` explains why not. For a check, true if the slow boot is broken and the fast
    /// one correct.
    pub right: bool,
}

/// A row that became shorter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LabBlame {
    pub row: String,
    /// The saved time.
    pub saved_ns: i64,
}

/// A row that a remedy made longer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LabAdded {
    pub row: String,
    /// The added time.
    pub added_ns: i64,
}

impl LabTrial {
    /// Compares two boots of an experiment, the slow one and one with a remedy.
    pub fn of(experiment: &Experiment, remedy: &str, slow: LabBoot, fast: LabBoot) -> LabTrial {
        let nth = experiment.remedies.iter().position(|other| *other == remedy).unwrap_or(usize::MAX);
        let amounts = experiment.amounts.iter().map(|amount| LabAmount::of(amount, nth, slow, fast)).collect();
        let check = LabCheck::of(experiment, slow, fast);
        let (slow, fast) = (slow.boot, fast.boot);
        let figure = |figure| LabFigure::of(figure, experiment, remedy, slow, fast);
        let figures = experiment.figures.iter().map(figure).collect();
        let line = |words: &str| format!("{} {words}", experiment.always).trim_start().to_owned();
        let rows_of = |boot: &Boot| boot.tables().wheres.clone();
        let mut fell: Vec<RowChange> = analysis::row_changes(&rows_of(slow), &rows_of(fast));
        let (added, added_right) = added(experiment, remedy, &fell);
        let added_total: Ns = added.iter().map(|row| Ns(row.added_ns)).sum();
        fell.retain(|row| row.on_path() < Ns::ZERO);
        // A remedy that should save nothing must blame no row; any other must blame exactly the switch's rows.
        let saves_nothing = experiment.saves_nothing.contains(&remedy);
        fell.truncate(if saves_nothing { 0 } else { experiment.blamed.len() });
        let rows: Vec<&str> = fell.iter().map(|row| row.name.as_str()).collect();
        let saved = slow.total - fast.total;
        let blamed_right = if saves_nothing { 100 * saved.0.abs() <= slow.total.0 } else { experiment.is_right(&rows) };
        let rows_right = blamed_right && added_right;
        let (foretold, not_foretold) =
            if check.is_none() { foretell(experiment, slow, fast) } else { Default::default() };
        let foretold_total = foretold.map(|foretold| slow.total - foretold + added_total);
        let total_near = foretold_total.is_some_and(|total| is_near(total, fast.total));
        let differs = if total_near { String::new() } else { of_remedy(experiment.differs, remedy) };
        let saves_as_foretold =
            saves_nothing || foretold.is_some_and(|foretold| is_near(foretold - added_total, saved));
        let right = match &check {
            Some(check) => check.is_right(),
            None => rows_right && saves_as_foretold && (total_near || !differs.is_empty()),
        };
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
            has_waits: (slow.cost() + fast.cost()).waited > Ns::ZERO,
            fast_total_ns: fast.total.0,
            figures,
            amounts,
            chosen: experiment.chosen.to_owned(),
            rows_right,
            saved_ns: saved.0,
            foretold_ns: foretold.map(|foretold| foretold.0),
            not_foretold,
            right,
            check,
            added,
            foretold_total_ns: foretold_total.map(|total| total.0),
            total_near,
            differs,
            note: experiment.note.to_owned(),
            no_better: of_remedy(experiment.no_better, remedy),
            blamed: fell.iter().map(|row| LabBlame { row: row.name.clone(), saved_ns: -row.on_path().0 }).collect(),
            expected: experiment.blamed.iter().map(|&row| row.to_owned()).collect(),
        }
    }
}

/// The one of these texts that belongs to a remedy.
fn of_remedy(texts: &[(&str, &str)], remedy: &str) -> String {
    texts.iter().find(|(name, _)| *name == remedy).map_or_else(String::new, |(_, why)| (*why).to_owned())
}

/// The predicted saving if the switch's rows take their time in the fast boot, or the reason why there is no
/// prediction.
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

/// The rows that became longer by most, as many as the remedy should add to, and true if they are the expected ones.
fn added(experiment: &Experiment, remedy: &str, changes: &[RowChange]) -> (Vec<LabAdded>, bool) {
    let expected = experiment.adds.iter().find(|(name, _)| *name == remedy).map_or(&[][..], |(_, rows)| *rows);
    let mut grew: Vec<&RowChange> = changes.iter().filter(|row| row.on_path() > Ns::ZERO).collect();
    grew.sort_by_key(|row| std::cmp::Reverse(row.on_path()));
    grew.truncate(expected.len());
    let right = grew.len() == expected.len() && grew.iter().all(|row| expected.contains(&row.name.as_str()));
    (grew.iter().map(|row| LabAdded { row: row.name.clone(), added_ns: row.on_path().0 }).collect(), right)
}

#[cfg(test)]
mod tests {
    use super::*;
    use timeline::Cost;

    #[test]
    fn a_prediction_within_a_tenth_of_the_saving_is_near() {
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
    fn a_remedy_must_add_to_the_expected_rows() {
        assert!(is_near(Ns(13_650_000) - Ns(70_000_000), Ns(-56_350_000)) && !is_near(Ns(1), Ns(-1)));
        let changes = |rows: &[(&str, i64)]| -> Vec<RowChange> {
            let row = |&(name, ns): &(&str, i64)| RowChange {
                name: name.to_owned(),
                before: Some(Cost::ZERO),
                after: Some(Cost::busy(Ns(ns))),
            };
            rows.iter().map(row).collect()
        };
        let pci = Experiment::named("pci-probe").unwrap();
        let expected = [("THREAD pci_probe", 20), ("check_tsc_sync", 60), ("em_reset", -60), ("wake_aps · DELAY", 10)];
        let (rows, right) = added(pci, pci.remedies[0], &changes(&expected));
        assert_eq!((rows[0].row.as_str(), rows[0].added_ns, rows.len(), right), ("check_tsc_sync", 60, 3, true));
        // Another row grew by more, or an expected row did not grow.
        assert!(!added(pci, pci.remedies[0], &changes(&[&expected[..], &[("_vprintf", 30)]].concat())).1);
        assert!(!added(pci, pci.remedies[0], &changes(&expected[1..])).1);
        assert!(added(Experiment::named("page-array").unwrap(), "vm_page=one-pass", &changes(&expected)).1);
    }
}
