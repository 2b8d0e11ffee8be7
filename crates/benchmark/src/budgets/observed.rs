//! What boots took, by what can have a budget.

use super::{Kind, What};
use crate::alike::alike;
use crate::document::Document;
use crate::metrics::{Metric, Values};
use crate::runs::{Boot, Measured, PhaseTime};
use analysis::{Phase, Tables};
use evidence::calls::BootCalls;
use std::collections::BTreeMap;
use timeline::Ns;

/// In what way boots of one thing differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noise {
    /// By whatever goes on on the host.
    Clock,
    /// Deterministic, each with another layout.
    Dithered,
    /// Deterministic, and all the same: one says as much as ten, about one layout.
    Repeats,
}

/// A boot's metrics that can have a budget.
pub fn metrics(values: &Values) -> impl Iterator<Item = (What, f64)> {
    Metric::budgeted().filter_map(|metric| Some((What::metric(metric), values.get(metric)? as f64)))
}

/// When a boot passed its milestones.
fn milestones(passed: &[PhaseTime]) -> impl Iterator<Item = (What, f64)> {
    passed.iter().map(|passed| (What::new(Kind::Milestone, &passed.name), passed.ns as f64))
}

/// Boots of one thing, that reached their end mark.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// What they are boots of, as the user named it.
    pub name: String,
    /// How they differ.
    pub noise: Noise,
    /// How many there are.
    pub boots: usize,
    /// How many more there were that did not reach it.
    pub failed: usize,
    /// What each took, by round; what a boot does not have took nothing in it. Memory that is not known is left out.
    values: BTreeMap<What, BTreeMap<u32, f64>>,
    rounds: Vec<u32>,
}

impl Observed {
    /// None yet.
    pub fn new(name: &str, noise: Noise) -> Observed {
        Observed { name: name.to_owned(), noise, boots: 0, failed: 0, values: BTreeMap::new(), rounds: Vec::new() }
    }

    /// One variant's boots, warm-ups left out.
    pub fn of_variant(document: &Document, variant: usize, name: &str) -> Observed {
        let head = &document.head;
        let noise = match (head.deterministic, head.dithered) {
            (false, _) => Noise::Clock,
            (true, true) => Noise::Dithered,
            (true, false) => Noise::Repeats,
        };
        let mut observed = Observed::new(name, noise);
        let own = |boot: &&Boot| boot.variant == variant;
        for boot in document.boots.iter().filter(own) {
            if let Some(round) = boot.round {
                observed.boot(round, &boot.measured);
            }
        }
        observed
    }

    /// Adds a boot of a bench.
    fn boot(&mut self, round: u32, measured: &Measured) {
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

    /// Adds a recorded boot that reached its end mark: its total, phases, rows and functions, its milestones and metrics, and
    /// where boots are deterministic its instructions. `calls`: where every call was followed.
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
        // A function that is no row of its own has the time of all that it called.
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

    /// Adds a boot that reached its end mark: what it took, in the unit of each kind. What is named twice is added up.
    pub fn add(&mut self, round: u32, values: impl IntoIterator<Item = (What, f64)>) {
        self.boots += 1;
        self.rounds.push(round);
        for (what, value) in values {
            *self.values.entry(what).or_default().entry(round).or_default() += value;
        }
    }

    /// Counts a boot that did not.
    pub fn add_failed(&mut self) {
        self.failed += 1;
    }

    /// What a thing took, by round; none if no boot has it.
    pub fn of(&self, what: &What) -> Option<BTreeMap<u32, f64>> {
        let own = self.values.get(what)?;
        if matches!(what.kind, Kind::Milestone | Kind::Memory | Kind::Metric) {
            return Some(own.clone());
        }
        Some(self.rounds.iter().map(|round| (*round, own.get(round).copied().unwrap_or(0.0))).collect())
    }

    /// What a thing took that no boot has: nothing in any.
    pub fn nothing(&self) -> BTreeMap<u32, f64> {
        self.rounds.iter().map(|round| (*round, 0.0)).collect()
    }

    /// The names of a kind that are most like one; at most three.
    pub fn nearest(&self, what: &What) -> Vec<String> {
        let names = self.values.keys().filter(|known| known.kind == what.kind).map(|known| known.name.as_str());
        alike(&what.name, names)
    }
}

/// As they were counted, where every call was followed; else one is a nanosecond of a deterministic boot.
fn instructions(total: Ns, named: &[(&str, f64)], calls: Option<&BootCalls>) -> Vec<(What, f64)> {
    let what = |name: &str| What::new(Kind::Instructions, name);
    let Some(found) = calls else {
        let rows = named.iter().map(|(name, ns)| (what(name), *ns));
        return std::iter::once((what(super::TOTAL), total.0 as f64)).chain(rows).collect();
    };
    let mut all = vec![(what(super::TOTAL), found.share.insns as f64)];
    for row in found.profile.functions().iter().filter(|row| !row.bottom) {
        all.push((what(found.names.get(row.name)), row.total as f64));
    }
    all
}
