//! The values that boots took, by quantity that can have a budget.

use super::{About, Kind, What};
use crate::did_you_mean::similar_names;
use crate::document::Document;
use crate::metrics::{Metric, Values};
use crate::runs::{Boot, Measured, PhaseTime};
use analysis::{Phase, Tables};
use evidence::BootCalls;
use std::collections::{BTreeMap, BTreeSet};
use timeline::{Cost, Timeline};

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
fn milestones(passed: &[PhaseTime], amount: fn(&PhaseTime) -> i64) -> impl Iterator<Item = (What, f64)> {
    passed.iter().map(move |passed| (What::new(Kind::Milestone, &passed.name), amount(passed) as f64))
}

/// The values of boots of one configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// Name of the configuration, as the user gave it.
    pub name: String,
    /// Their machine and kernel.
    pub about: About,
    /// The cause of their differences.
    pub noise: Noise,
    /// Number of boots that reached their end mark.
    pub boots: usize,
    /// Number of other boots, which did not reach it.
    pub failed: usize,
    /// True if a deterministic boot does not show its timed waits: its instructions are unknown.
    pub has_unknown_waits: bool,
    /// True if deterministic boots have the prices of a machine model: their amounts are times.
    pub is_priced: bool,
    /// The values by quantity and round. A quantity that a boot lacks counts as 0, except milestones and metrics, which have no
    /// value then.
    values: BTreeMap<What, BTreeMap<u32, f64>>,
    /// For each round, true if a trace shows the boot's threads. `None` if it is not known.
    rounds: BTreeMap<u32, Option<bool>>,
}

impl Observed {
    /// An empty collection of boots.
    pub fn new(name: &str, noise: Noise) -> Observed {
        Observed {
            name: name.to_owned(),
            about: About::default(),
            noise,
            boots: 0,
            failed: 0,
            has_unknown_waits: false,
            is_priced: false,
            values: BTreeMap::new(),
            rounds: BTreeMap::new(),
        }
    }

    /// The boots of one variant, warm-ups left out.
    pub fn of_variant(document: &Document, variant: usize, name: &str) -> Observed {
        let head = &document.head;
        let noise = match (head.deterministic, head.dithered) {
            (false, _) => Noise::Clock,
            (true, true) => Noise::Dithered,
            (true, false) => Noise::Repeats,
        };
        let mut observed = Observed { about: About::of_variant(document, variant), ..Observed::new(name, noise) };
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
        self.note_waits(measured);
        let amount = self.amount();
        let total = match self.noise {
            Noise::Clock => total,
            Noise::Dithered | Noise::Repeats => total - measured.waited_ns.unwrap_or_default(),
        };
        let mut values = vec![(What::total(), total as f64)];
        values.extend(measured.phases.iter().map(|p| (What::new(Kind::Phase, &p.name), amount(p) as f64)));
        values.extend(measured.rows.iter().map(|r| (What::new(Kind::Function, &r.name), amount(r) as f64)));
        if self.noise != Noise::Clock {
            values.push((What::new(Kind::Instructions, super::TOTAL), total as f64));
            values.extend(measured.rows.iter().map(|r| (What::new(Kind::Instructions, &r.name), amount(r) as f64)));
        }
        values.extend(milestones(&measured.milestones, amount));
        values.extend(metrics(&measured.metrics));
        self.add(round, values);
        self.rounds.insert(round, measured.traced);
    }

    fn note_waits(&mut self, measured: &Measured) {
        self.has_unknown_waits |= self.noise != Noise::Clock && !self.is_priced && measured.waited_ns.is_none();
    }

    /// The amount of a part that has a budget: its time, or the instructions of a deterministic boot.
    fn amount(&self) -> fn(&PhaseTime) -> i64 {
        match self.noise {
            Noise::Clock => |part| part.ns,
            Noise::Dithered | Noise::Repeats => PhaseTime::busy_ns,
        }
    }

    /// The same for a length in its parts.
    fn amount_of(&self, cost: Cost) -> f64 {
        let amount = if self.noise == Noise::Clock { cost.length } else { cost.instructions() };
        amount.0 as f64
    }

    /// Adds a recorded boot that reached its end mark: its total, phases, rows, functions, milestones and metrics. Adds its
    /// instructions if boots are deterministic. `calls` is given if every call was followed.
    pub fn add_recorded(
        &mut self,
        round: u32,
        (timeline, total): (&Timeline, Cost),
        phases: &[Phase],
        tables: &Tables,
        calls: Option<&BootCalls>,
        measured: &Measured,
    ) {
        self.note_waits(measured);
        let total = self.amount_of(total);
        let mut values = vec![(What::total(), total)];
        let phase = |p: &Phase| self.amount_of(timeline.cost(p.start, p.end));
        values.extend(phases.iter().map(|p| (What::new(Kind::Phase, &p.name), phase(p))));
        let rows = || tables.wheres.iter().map(|row| (row.name.as_str(), self.amount_of(row.self_cost())));
        // A function without a row of the same name counts with the time of its callees.
        let functions = tables.functions.iter().map(|f| (f.name.trim(), self.amount_of(f.total_cost())));
        let functions = functions.filter(|(name, _)| !rows().any(|(row, _)| row == *name));
        let named: Vec<(&str, f64)> = rows().chain(functions).collect();
        values.extend(named.iter().map(|(name, ns)| (What::new(Kind::Function, name), *ns)));
        if self.noise != Noise::Clock {
            values.extend(instructions(total, &named, calls));
        }
        values.extend(milestones(&measured.milestones, self.amount()));
        values.extend(metrics(&measured.metrics));
        self.add(round, values);
        self.rounds.insert(round, measured.traced);
    }

    /// Adds a boot that reached its end mark, with its values in the unit of each kind. Sums values of the same quantity.
    pub fn add(&mut self, round: u32, values: impl IntoIterator<Item = (What, f64)>) {
        self.boots += 1;
        self.rounds.insert(round, None);
        for (what, value) in values {
            *self.values.entry(what).or_default().entry(round).or_default() += value;
        }
    }

    /// Counts a boot that did not reach its end mark.
    pub fn add_failed(&mut self) {
        self.failed += 1;
    }

    /// Values of a quantity by round, of the boots that have evidence of it. `None` if no boot has it, here or in `others`.
    ///
    /// A boot whose trace is lost has no evidence of a row that a traced boot has. A traced boot without the row spent no
    /// time in it.
    pub fn of(&self, what: &What, others: &[Observed]) -> Option<BTreeMap<u32, f64>> {
        if matches!(what.kind, Kind::Milestone | Kind::Memory | Kind::Metric) {
            return self.values_of(what);
        }
        let all = || std::iter::once(self).chain(others);
        if !all().any(|boots| boots.values_of(what).is_some()) {
            return None;
        }
        let is_traced_where_known = all().any(|boots| boots.has_in_a_trace(what));
        let values = self.values_of(what).unwrap_or_default();
        let value = |(round, traced): (&u32, &Option<bool>)| match values.get(round) {
            Some(value) => Some((*round, *value)),
            None if is_traced_where_known && *traced == Some(false) => None,
            None => Some((*round, 0.0)),
        };
        Some(self.rounds.iter().filter_map(value).collect())
    }

    /// The values that boots have. A phase also has those of the group that it names: `initcalls` sums `initcalls: …`.
    fn values_of(&self, what: &What) -> Option<BTreeMap<u32, f64>> {
        if let Some(values) = self.values.get(what) {
            return Some(values.clone());
        }
        let group = format!("{}: ", what.name);
        let is_member =
            |other: &What| what.kind == Kind::Phase && other.kind == Kind::Phase && other.name.starts_with(&group);
        let mut sums: BTreeMap<u32, f64> = BTreeMap::new();
        for (_, values) in self.values.iter().filter(|(other, _)| is_member(other)) {
            values.iter().for_each(|(round, value)| *sums.entry(*round).or_default() += value);
        }
        (!sums.is_empty()).then_some(sums)
    }

    /// True if a boot with a trace has the quantity.
    fn has_in_a_trace(&self, what: &What) -> bool {
        let values = self.values_of(what).unwrap_or_default();
        values.keys().any(|round| self.rounds.get(round) == Some(&Some(true)))
    }

    /// True if a boot has no trace of its threads.
    pub fn lacks_a_trace(&self) -> bool {
        self.rounds.values().any(|traced| *traced == Some(false))
    }

    /// The existing names of the same kind that are most similar; at most three.
    pub fn nearest(&self, what: &What) -> Vec<String> {
        let of_kind = self.values.keys().filter(|other| other.kind == what.kind).map(|other| other.name.as_str());
        let groups =
            of_kind.clone().filter(|_| what.kind == Kind::Phase).filter_map(|name| Some(name.split_once(": ")?.0));
        let names: BTreeSet<&str> = of_kind.chain(groups).collect();
        similar_names(&what.name, names)
    }
}

/// Instructions of the total and of functions: counted, if every call was followed; else one per nanosecond of a
/// deterministic boot that is no timed wait.
fn instructions(total: f64, named: &[(&str, f64)], calls: Option<&BootCalls>) -> Vec<(What, f64)> {
    let what = |name: &str| What::new(Kind::Instructions, name);
    let Some(calls) = calls else {
        let rows = named.iter().map(|(name, ns)| (what(name), *ns));
        return std::iter::once((what(super::TOTAL), total)).chain(rows).collect();
    };
    let mut all = vec![(what(super::TOTAL), calls.share.insns as f64)];
    for row in calls.profile.functions().iter().filter(|row| !row.bottom) {
        all.push((what(calls.names.get(row.name)), row.total as f64));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boots(traced: &[bool], phases: &[(&str, f64)]) -> Observed {
        let mut boots = Observed::new("boots", Noise::Clock);
        for (round, traced) in (0..).zip(traced) {
            // Rows that only a trace shows are lost with it.
            let shown = phases.iter().filter(|(name, _)| *traced || !name.starts_with("initcalls"));
            boots.add(round, shown.map(|(name, ms)| (What::new(Kind::Phase, name), *ms)));
            boots.rounds.insert(round, Some(*traced));
        }
        boots
    }

    #[test]
    fn a_group_of_phases_has_their_sum() {
        let boots = boots(&[true, true], &[("kernel", 5.0), ("initcalls: fs", 2.0), ("initcalls: device", 3.0)]);
        let of = |name: &str| boots.of(&What::new(Kind::Phase, name), &[]).map(|values| values[&1]);
        assert_eq!((of("initcalls"), of("initcalls: fs"), of("kernel")), (Some(5.0), Some(2.0), Some(5.0)));
        assert_eq!((of("initcall"), of("")), (None, None));
        assert_eq!(boots.nearest(&What::new(Kind::Phase, "initcals"))[0], "initcalls");
    }

    #[test]
    fn a_row_that_is_lost_with_the_trace_is_no_row_of_0_ns() {
        let phases = [("kernel", 5.0), ("initcalls: fs", 2.0)];
        let traced = boots(&[true, true], &phases);
        let untraced = boots(&[false, true, false], &phases);
        let fs = What::new(Kind::Phase, "initcalls: fs");
        let rounds = |boots: &Observed, others: &[Observed]| {
            boots.of(&fs, others).map(|values| values.into_keys().collect::<Vec<u32>>())
        };
        assert_eq!(rounds(&untraced, &[]), Some(vec![1]));
        let lost = boots(&[false, false], &phases);
        assert_eq!((rounds(&lost, &[]), rounds(&lost, std::slice::from_ref(&traced))), (None, Some(vec![])));
        // A traced boot without the row spent no time in it.
        let without = boots(&[true], &phases[..1]);
        assert_eq!(without.of(&fs, &[traced]).unwrap()[&0], 0.0);
        assert!(lost.lacks_a_trace() && !without.lacks_a_trace());
    }
}
