//! What the boots of a bench say: each variant by itself, each against the first, in total and by phase.
//!
//! Totals of all variants are one family of comparisons, and so are all phases of all variants: each is corrected for its
//! own number ([`crate::stats::holm`]). A phase that a boot does not have took no time in it.

use crate::document::Head;
use crate::runs::{Boot, counted};
use crate::stats::describe::{Description, describe};
use crate::stats::verdict::{Comparison, judge};
use crate::stats::{dithered, pairs};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What all boots say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Of each variant.
    pub variants: Vec<VariantRuns>,
    /// Of each variant but the first: against the first.
    pub comparisons: Vec<Against>,
}

/// One variant's boots.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VariantRuns {
    /// Its name.
    pub name: String,
    /// How often its boots ended how, warm-ups left out.
    pub outcomes: BTreeMap<String, usize>,
    /// From time zero to the end mark, in ns; none if no boot reached it.
    pub total: Option<Description>,
    /// In the order of the boot.
    pub phases: Vec<PhaseRuns>,
    /// The VMM's maximum resident set, in bytes.
    pub vmm_max_rss: Option<Description>,
    /// What was available in the guest at the end mark, in bytes.
    pub guest_available: Option<Description>,
}

/// One phase of one variant's boots.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseRuns {
    /// Its name.
    pub name: String,
    /// Its length, in ns.
    pub length: Description,
}

/// A variant against the first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Against {
    /// Which, from 1.
    pub variant: usize,
    /// The totals; none if the two never reached their end mark in the same round.
    pub total: Option<Comparison>,
    /// By phase, the largest difference first.
    pub phases: Vec<Moved>,
}

/// How a phase's length changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moved {
    /// Its name.
    pub name: String,
    /// By how much.
    pub by: Comparison,
}

/// Computes what the boots say. Boots of variants that the head does not have are left out.
pub fn results(head: &Head, boots: &[Boot]) -> Results {
    let variants = (0..head.variants.len()).map(|v| variant(head, boots, v)).collect();
    let others = 1..head.variants.len();
    let mut comparisons: Vec<Against> = others.map(|v| against(head, boots, v)).collect();
    let mut totals: Vec<Comparison> = comparisons.iter().filter_map(|c| c.total.clone()).collect();
    judge(&mut totals, &head.ask);
    let mut totals = totals.into_iter();
    for total in comparisons.iter_mut().filter_map(|c| c.total.as_mut()) {
        *total = totals.next().expect("one for each");
    }
    judge_phases(head, &mut comparisons);
    Results { variants, comparisons }
}

fn judge_phases(head: &Head, comparisons: &mut [Against]) {
    let mut all: Vec<Comparison> = comparisons.iter().flat_map(|c| &c.phases).map(|m| m.by.clone()).collect();
    judge(&mut all, &head.ask);
    let mut all = all.into_iter();
    for moved in comparisons.iter_mut().flat_map(|c| &mut c.phases) {
        moved.by = all.next().expect("one for each");
    }
}

fn variant(head: &Head, boots: &[Boot], variant: usize) -> VariantRuns {
    let own = || boots.iter().filter(move |b| b.variant == variant && b.round.is_some());
    let reached = || own().filter(|b| b.measured.total_ns.is_some());
    let bytes =
        |of: fn(&Boot) -> Option<u64>| describe(&reached().filter_map(|b| Some(of(b)? as f64)).collect::<Vec<f64>>());
    let mut outcomes = BTreeMap::new();
    for boot in own() {
        *outcomes.entry(boot.measured.outcome.clone()).or_default() += 1;
    }
    let by_name = |name: String| {
        let lengths: Vec<f64> = counted_phase(boots, variant, &name).into_values().collect();
        Some(PhaseRuns { length: describe(&lengths)?, name })
    };
    VariantRuns {
        name: head.variants[variant].name.clone(),
        outcomes,
        total: describe(&counted(boots, variant).into_values().collect::<Vec<f64>>()),
        phases: phase_names(reached()).into_iter().filter_map(by_name).collect(),
        vmm_max_rss: bytes(|b| b.measured.vmm_max_rss_bytes),
        guest_available: bytes(|b| b.measured.guest_available_bytes),
    }
}

/// All phases' names, in the order in which they are first seen.
fn phase_names<'a>(boots: impl Iterator<Item = &'a Boot>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for phase in boots.flat_map(|b| &b.measured.phases) {
        if !names.contains(&phase.name) {
            names.push(phase.name.clone());
        }
    }
    names
}

/// The lengths of a phase in a variant's boots that count, by round.
fn counted_phase(boots: &[Boot], variant: usize, name: &str) -> BTreeMap<u32, f64> {
    let own = boots.iter().filter(|b| b.variant == variant && b.measured.total_ns.is_some());
    let length = |b: &Boot| b.measured.phases.iter().filter(|p| p.name == name).map(|p| p.ns as f64).sum();
    own.filter_map(|b| Some((b.round?, length(b)))).collect()
}

fn against(head: &Head, boots: &[Boot], variant: usize) -> Against {
    let mut total = compare(head, counted(boots, 0), counted(boots, variant));
    if let (Some(total), false) = (&mut total, head.deterministic) {
        let (first, second) = crate::runs::paired(boots, 0, variant);
        pairs::forecast(total, &first, &second, &head.ask);
    }
    let both = boots.iter().filter(|b| b.round.is_some() && (b.variant == 0 || b.variant == variant));
    let moved = |name: String| {
        let by = compare(head, counted_phase(boots, 0, &name), counted_phase(boots, variant, &name))?;
        Some(Moved { name, by })
    };
    let mut phases: Vec<Moved> = phase_names(both).into_iter().filter_map(moved).collect();
    phases.sort_by(|a, b| b.by.difference.estimate.abs().total_cmp(&a.by.difference.estimate.abs()));
    Against { variant, total, phases }
}

/// Two variants' values by round: as pairs, or as dithered boots, which need no rounds.
fn compare(head: &Head, first: BTreeMap<u32, f64>, second: BTreeMap<u32, f64>) -> Option<Comparison> {
    if head.deterministic {
        let (first, second): (Vec<f64>, Vec<f64>) = (first.into_values().collect(), second.into_values().collect());
        return dithered::estimate(&first, &second);
    }
    let pairs: (Vec<f64>, Vec<f64>) =
        first.into_iter().filter_map(|(round, a)| Some((a, *second.get(&round)?))).unzip();
    pairs::estimate(&pairs.0, &pairs.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{SCHEMA, Variant};
    use crate::runs::{Measured, PhaseTime, Plan, Stop};
    use crate::stats::verdict::{Ask, Basis, Verdict};

    pub fn head(variants: &[&str], deterministic: bool) -> Head {
        let stop = Stop { rounds: 12, width: None, budget_ns: None };
        let named = |name: &&str| Variant { name: (*name).to_owned(), how: serde_json::Value::Null };
        Head {
            schema: SCHEMA.to_owned(),
            tool_version: String::new(),
            created: String::new(),
            plan: Plan { variants: variants.len(), warm_ups: 0, stop, seed: 1 },
            variants: variants.iter().map(named).collect(),
            deterministic,
            host_cpus_allowed: String::new(),
            ask: Ask::default(),
        }
    }

    /// A boot of phases `kernel` and `console`, in ms.
    fn boot(round: u32, variant: usize, kernel: f64, console: f64) -> Boot {
        let ns = |ms: f64| (ms * 1e6) as i64;
        let phase = |name: &str, ms| PhaseTime { name: name.to_owned(), ns: ns(ms) };
        let measured = Measured {
            outcome: "reached".to_owned(),
            total_ns: Some(ns(kernel) + ns(console)),
            phases: vec![phase("kernel", kernel), phase("console", console)],
            ..Measured::default()
        };
        Boot { number: 0, round: Some(round), variant, began_ns: 0, measured }
    }

    fn boots(rounds: u32, change: (f64, f64)) -> Vec<Boot> {
        let mut random = fastrand::Rng::with_seed(12);
        let mut noise = || random.f64();
        let round = |r| {
            [
                boot(r, 0, 500.0 + noise(), 100.0 + noise()),
                boot(r, 1, 500.0 + change.0 + noise(), 100.0 + change.1 + noise()),
            ]
        };
        (0..rounds).flat_map(round).collect()
    }

    #[test]
    fn what_moved_is_told_though_the_total_did_not() {
        let found = results(&head(&["a", "b"], false), &boots(12, (-15.0, 15.0)));
        let against = &found.comparisons[0];
        assert_eq!(against.total.as_ref().unwrap().verdict, Verdict::NoDifference);
        let moved: Vec<_> = against.phases.iter().map(|m| (m.name.as_str(), m.by.verdict)).collect();
        assert_eq!(moved.len(), 2);
        assert!(
            moved.contains(&("kernel", Verdict::Faster)) && moved.contains(&("console", Verdict::Slower)),
            "{moved:?}"
        );
        assert!((against.phases[0].by.difference.estimate.abs() - 15e6).abs() < 1e6);
        assert!(against.total.as_ref().unwrap().shown_from.unwrap() < 0.01);
        assert_eq!(found.variants[1].phases[0].length.count, 12);
    }

    #[test]
    fn a_boot_that_failed_is_counted_and_its_pair_left_out() {
        let mut all = boots(8, (60.0, 0.0));
        all[3].measured.total_ns = None;
        all[3].measured.outcome = "hang".to_owned();
        let found = results(&head(&["a", "b"], false), &all);
        assert_eq!(found.variants[1].outcomes, BTreeMap::from([("hang".to_owned(), 1), ("reached".to_owned(), 7)]));
        let total = found.comparisons[0].total.as_ref().unwrap();
        assert_eq!((total.basis, total.verdict), (Basis::Pairs(7), Verdict::Slower));
    }

    #[test]
    fn deterministic_boots_are_not_paired() {
        let found = results(&head(&["a", "b"], true), &boots(5, (4.0, 0.0)));
        let total = found.comparisons[0].total.as_ref().unwrap();
        assert_eq!((total.basis, total.verdict), (Basis::Dithered(5, 5), Verdict::Slower));
    }

    #[test]
    fn nothing_reached_is_nothing_said() {
        let found = results(&head(&["a", "b"], false), &[]);
        assert_eq!((found.variants.len(), &found.variants[0].total), (2, &None));
        assert!(found.comparisons[0].total.is_none() && found.comparisons[0].phases.is_empty());
    }
}
