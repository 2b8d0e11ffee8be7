//! The values that boots took, by quantity that can have a budget.

use super::{Kind, What};
use crate::did_you_mean::similar_names;
use crate::document::Document;
use crate::metrics::{Metric, Values};
use crate::runs::{Boot, Measured, PhaseTime};
use analysis::{Phase, Tables};
use evidence::BootCalls;
use std::collections::BTreeMap;
use timeline::Ns;

/// The cause of differences between boots of one configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noise {
    /// Boots are timed by the clock, so the host's activity adds noise.
    Clock,
    /// Boots are deterministic, each with another layout.
    Dithered,
    /// Boots are deterministic and all the same. Ten of them show no more than one, and only about one layout.
    Repeats,
}

/// The metrics of a boot that can have a budget.
pub fn metrics(values: &Values) -> impl Iterator<Item = (What, f64)> {
    Metric::budgeted().filter_map(|metric| Some((What::metric(metric), values.get(metric)? as f64)))
}

/// The times of a boot's milestones.
fn milestones(passed: &[PhaseTime]) -> impl Iterator<Item = (What, f64)> {
    passed.iter().map(|passed| (What::new(Kind::Milestone, &passed.name), passed.ns as f64))
}

/// The values of boots of one configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// Name of the configuration, as the user gave it.
    pub name: String,
    /// The cause of their differences.
    pub noise: Noise,
    /// Number of boots that reached their end mark.
    pub boots: usize,
    /// Number of other boots, which did not reach it.
    pub failed: usize,
    /// The values by quantity and round. A quantity that a boot lacks counts as 0, except milestones and metrics, which have no
    /// value then.
    values: BTreeMap<What, BTreeMap<u32, f64>>,
    rounds: Vec<u32>,
}

impl Observed {
    /// An empty collection of boots.
    pub fn new(name: &str, noise: Noise) -> Observed {
        Observed { name: name.to_owned(), noise, boots: 0, failed: 0, values: BTreeMap::new(), rounds: Vec::new() }
    }

    /// The boots of one variant, warm-ups left out.
    pub fn of_variant(document: &Document, variant: usize, name: &str) -> Observed {
        let head = &document.head;
        let noise = match (head.deterministic, head.dithered) {
            (false, _) => Noise::Clock,
            (true, true) => Noise::Dithered,
            (true, false) => Noise::Repeats,
        };
        let mut observed = Observed::new(name, noise);
        let of_variant = |boot: &&Boot| boot.variant == variant;
        for boot in document.boots.iter().filter(of_variant) {
            if let Some(round) = boot.round {
                observed.add_measured(round, &boot.measured);
            }
        }
        observed
    }

    /// Adds a boot of a bench.
    fn add_measured(&mut self, round: u32, measured: &Measured) {
        let Some(total) = measured.total_ns else {
            self.failed += 1;
            return;
        };
        let mut values = vec![(What::total(), total as f64)];
        values.extend(measured.phases.iter().map(|p| (What::new(Kind::Phase, &p.name), p.ns as f64)));
        values.extend(measured.rows.iter().map(|r| (What::new(Kind::Function, &r.name), r.ns as f64)));
        if self.noise != Noise::Clock {
            values.push((What::new(Kind::Instructions, super::TOTAL), total as f64));
            values.extend(measured.rows.iter().map(|r| (What::new(Kind::Instructions, &r.name), r.ns as f64)));
        }
        values.extend(milestones(&measured.milestones));
        values.extend(metrics(&measured.metrics));
        self.add(round, values);
    }

    /// Adds a recorded boot that reached its end mark: its total, phases, rows, functions, milestones and metrics. Adds its
    /// instructions if boots are deterministic. `calls` is given if every call was followed.
    pub fn add_recorded(
        &mut self,
        round: u32,
        total: Ns,
        phases: &[Phase],
        tables: &Tables,
        calls: Option<&BootCalls>,
        measured: &Measured,
    ) {
        let mut values = vec![(What::total(), total.0 as f64)];
        values.extend(phases.iter().map(|p| (What::new(Kind::Phase, &p.name.to_string()), p.length().0 as f64)));
        let rows = || tables.wheres.iter().map(|row| (row.name.as_str(), row.self_time.0 as f64));
        // A function without a row of the same name counts with the time of its callees.
        let functions = tables.functions.iter().map(|f| (f.name.trim(), f.total_time.0 as f64));
        let functions = functions.filter(|(name, _)| !rows().any(|(row, _)| row == *name));
        let named: Vec<(&str, f64)> = rows().chain(functions).collect();
        values.extend(named.iter().map(|(name, ns)| (What::new(Kind::Function, name), *ns)));
        if self.noise != Noise::Clock {
            values.extend(instructions(total, &named, calls));
        }
        values.extend(milestones(&measured.milestones));
        values.extend(metrics(&measured.metrics));
        self.add(round, values);
    }

    /// Adds a boot that reached its end mark, with its values in the unit of each kind. Sums values of the same quantity.
    pub fn add(&mut self, round: u32, values: impl IntoIterator<Item = (What, f64)>) {
        self.boots += 1;
        self.rounds.push(round);
        for (what, value) in values {
            *self.values.entry(what).or_default().entry(round).or_default() += value;
        }
    }

    /// Counts a boot that did not reach its end mark.
    pub fn add_failed(&mut self) {
        self.failed += 1;
    }

    /// Values of a quantity by round. `None` if no boot has it.
    pub fn of(&self, what: &What) -> Option<BTreeMap<u32, f64>> {
        let values = self.values.get(what)?;
        if matches!(what.kind, Kind::Milestone | Kind::Memory | Kind::Metric) {
            return Some(values.clone());
        }
        Some(self.rounds.iter().map(|round| (*round, values.get(round).copied().unwrap_or(0.0))).collect())
    }

    /// Zero for each round: the values of a quantity that no boot has.
    pub fn nothing(&self) -> BTreeMap<u32, f64> {
        self.rounds.iter().map(|round| (*round, 0.0)).collect()
    }

    /// The existing names of the same kind that are most similar; at most three.
    pub fn nearest(&self, what: &What) -> Vec<String> {
        let names = self.values.keys().filter(|other| other.kind == what.kind).map(|other| other.name.as_str());
        similar_names(&what.name, names)
    }
}

/// Instructions of the total and of functions: counted, if every call was followed; else one per nanosecond of a
/// deterministic boot.
fn instructions(total: Ns, named: &[(&str, f64)], calls: Option<&BootCalls>) -> Vec<(What, f64)> {
    let what = |name: &str| What::new(Kind::Instructions, name);
    let Some(calls) = calls else {
        let rows = named.iter().map(|(name, ns)| (what(name), *ns));
        return std::iter::once((what(super::TOTAL), total.0 as f64)).chain(rows).collect();
    };
    let mut all = vec![(what(super::TOTAL), calls.share.insns as f64)];
    for row in calls.profile.functions().iter().filter(|row| !row.bottom) {
        all.push((what(calls.names.get(row.name)), row.total as f64));
    }
    all
}
