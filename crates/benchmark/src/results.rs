//! What the boots of a bench say: each variant by itself, each against the first, in total, by phase, by row and by metric.
//!
//! There are four families of comparisons. The totals of all variants are one, and all metrics of all variants another: each
//! is corrected for its number ([`statistics::holm`]). All phases of a variant go together, and so do all its rows, of
//! which there are hundreds: these are corrected all at once ([`statistics::max_t`]), and for the number of variants. Boots
//! that only repeat leave nothing to chance, and nothing is corrected. A phase or a row that a boot does not have took no
//! time in it.

use crate::head::Head;
use crate::likely::{Likely, Moved, likely};
use crate::metrics::{METRICS, Metric, PerMetric, Unit};
use crate::runs::{Boot, Measured, PhaseTime, counted};
use crate::samples::{Lengths, parts, phases_of, reached, rows_of, whole};
use crate::scaling::{AxisScaling, along_axes};
use analysis::floor;
use serde::{Deserialize, Serialize};
use statistics::describe::{Description, describe, mean, sd};
use statistics::quantile::{median, median_interval};
use statistics::rank_sum::RankSum;
use statistics::signed_rank::SignedRank;
use statistics::verdict::{Change, Comparison, judge, judge_corrected};
use statistics::{CONFIDENCE, Interval, dithered, max_t, pairs, sorted};
use std::collections::BTreeMap;

/// What all boots say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Results {
    /// Of each variant.
    pub variants: Vec<VariantRuns>,
    /// Of each variant but the first: against the first.
    pub comparisons: Vec<Against>,
    /// How a swept boot grows along each axis of its grid.
    #[serde(default, rename = "laws")]
    pub scaling: Vec<AxisScaling>,
}

/// One variant's boots.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct VariantRuns {
    /// Its name.
    pub name: String,
    /// How often its boots ended how, warm-ups left out.
    pub outcomes: BTreeMap<String, usize>,
    /// From time zero to the end mark, in ns; none if no boot reached it.
    pub total: Option<Description>,
    /// In the order of the boot.
    pub phases: Vec<PhaseRuns>,
    /// What the boot path was charged to, the largest first.
    #[serde(default)]
    pub rows: Vec<RowRuns>,
    /// Each metric beside the length.
    #[serde(flatten, with = "crate::metrics::by_name")]
    #[schemars(with = "crate::metrics::ByName<Description>")]
    pub metrics: PerMetric<Description>,
}

/// One phase of one variant's boots.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PhaseRuns {
    /// Its name.
    pub name: String,
    /// When it begins, in ns: the mean.
    #[serde(default)]
    pub start_mean: f64,
    /// The standard deviation of that; none of a single run.
    #[serde(default)]
    pub start_sd: Option<f64>,
    /// Its length, in ns.
    pub length: Description,
}

/// One row of one variant's boots, in ns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RowRuns {
    /// Its name.
    pub name: String,
    /// In how many boots it is; in the others it took no time.
    pub seen: usize,
    /// The mean.
    pub mean: f64,
    /// The standard deviation; none of a single run.
    pub sd: Option<f64>,
    /// The median.
    pub median: Interval,
}

/// A variant against the first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Against {
    /// Which, from 1.
    pub variant: usize,
    /// The totals; none if the two never reached their end mark in the same round.
    pub total: Option<Comparison>,
    /// By phase, the largest difference first.
    pub phases: Vec<Moved>,
    /// By what the boot path was charged to, the largest difference first.
    #[serde(default)]
    pub rows: Vec<Moved>,
    /// Where a phase is proven to move and no row is: the rows that may be why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub likely_rows: Option<Likely>,
    /// Each metric that has a better and a worse, by its name.
    #[serde(default)]
    pub metrics: Vec<Moved>,
    /// Those in bytes, by the name before there were metrics of other units.
    #[serde(default)]
    pub memory: Vec<Moved>,
}

/// Computes what the boots say. Boots of variants that the head does not have are left out.
///
/// Quadratic in the number of rounds for each phase and row.
pub fn results(head: &Head, boots: &[Boot]) -> Results {
    let variants = (0..head.variants.len()).map(|v| variant(head, boots, v)).collect();
    let others = 1..head.variants.len();
    let mut comparisons: Vec<Against> = others.map(|v| against(head, boots, v)).collect();
    judge_all(head, comparisons.iter_mut().filter_map(|c| c.total.as_mut()).collect());
    judge_all(head, comparisons.iter_mut().flat_map(|c| &mut c.metrics).map(|m| &mut m.by).collect());
    comparisons.iter_mut().for_each(|c| c.memory = c.metrics.iter().filter(|m| in_bytes(&m.name)).cloned().collect());
    Results { variants, comparisons, scaling: along_axes(head, boots) }
}

fn in_bytes(name: &str) -> bool {
    Metric::named(name).is_some_and(|metric| metric.unit == Unit::Bytes)
}

/// The fewest rounds in which the totals can have a verdict at all, be it of only one comparison of these: fewer are
/// *too few*, whatever they show. 1 where nothing is compared, and of boots that only repeat.
pub fn rounds_least(comparisons: usize, test: Test) -> u32 {
    if comparisons == 0 || test == Test::Repeated {
        return 1;
    }
    let p_least = |rounds: u32| {
        let rounds = rounds as usize;
        if test == Test::Dithered { RankSum::new(rounds, rounds).p(0) } else { SignedRank::new(rounds).p(0) }
    };
    (1..).find(|&rounds| p_least(rounds) * comparisons as f64 <= 1.0 - CONFIDENCE).unwrap_or(u32::MAX)
}

/// How two variants are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// By pairs of boots ([`pairs`]).
    Pairs,
    /// By deterministic boots, each with another layout ([`dithered`]).
    Dithered,
    /// By deterministic boots that only repeat.
    Repeated,
}

impl Test {
    /// The test of these boots.
    pub fn of(head: &Head) -> Test {
        match (head.deterministic, head.dithered) {
            (false, _) => Test::Pairs,
            (true, true) => Test::Dithered,
            (true, false) => Test::Repeated,
        }
    }
}

/// Gives each its verdict; together they are one family.
fn judge_all(head: &Head, mut family: Vec<&mut Comparison>) {
    let mut judged: Vec<Comparison> = family.iter().map(|c| (**c).clone()).collect();
    judge(&mut judged, &head.ask);
    family.iter_mut().zip(judged).for_each(|(comparison, judged)| **comparison = judged);
}

fn variant(head: &Head, boots: &[Boot], variant: usize) -> VariantRuns {
    let rounds: Vec<u32> = reached(boots, variant).map(|(round, _)| round).collect();
    let runs = |metric: &Metric| {
        describe(
            &reached(boots, variant).filter_map(|(_, m)| Some(m.metrics.get(metric)? as f64)).collect::<Vec<f64>>(),
        )
    };
    let mut outcomes = BTreeMap::new();
    for boot in boots.iter().filter(|b| b.variant == variant && b.round.is_some()) {
        *outcomes.entry(boot.measured.outcome.clone()).or_default() += 1;
    }
    VariantRuns {
        name: head.variants[variant].name.clone(),
        outcomes,
        total: describe(&counted(boots, variant).into_values().collect::<Vec<f64>>()),
        phases: phase_runs(boots, variant, &rounds),
        rows: row_runs(boots, variant, &rounds),
        metrics: PerMetric::of(runs),
    }
}

fn phase_runs(boots: &[Boot], variant: usize, rounds: &[u32]) -> Vec<PhaseRuns> {
    let parts = parts(boots, variant, phases_of);
    let one = |name: String| {
        let lengths: Vec<f64> = whole(parts.get(name.as_str()), rounds).into_values().collect();
        let starts: Vec<f64> = reached(boots, variant).filter_map(|(_, m)| start(m, &name)).collect();
        Some(PhaseRuns { start_mean: mean(&starts), start_sd: sd(&starts), length: describe(&lengths)?, name })
    };
    phase_names(reached(boots, variant)).into_iter().filter_map(one).collect()
}

/// When a phase begins: after those before it.
fn start(measured: &Measured, name: &str) -> Option<f64> {
    let at = measured.phases.iter().position(|p| p.name == name)?;
    Some(measured.phases[..at].iter().map(|p| p.ns as f64).sum())
}

fn row_runs(boots: &[Boot], variant: usize, rounds: &[u32]) -> Vec<RowRuns> {
    let one = |(name, lengths): (&str, &Lengths)| {
        let values: Vec<f64> = whole(Some(lengths), rounds).into_values().collect();
        let median = median_interval(&sorted(&values))?;
        Some(RowRuns { name: name.to_owned(), seen: lengths.len(), mean: mean(&values), sd: sd(&values), median })
    };
    let mut rows: Vec<RowRuns> = parts(boots, variant, rows_of).iter().filter_map(|(n, l)| one((n, l))).collect();
    rows.sort_by(|a, b| b.mean.total_cmp(&a.mean));
    rows
}

/// All phases' names, in the order in which they are first seen.
fn phase_names<'a>(boots: impl Iterator<Item = (u32, &'a Measured)>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for phase in boots.flat_map(|(_, measured)| &measured.phases) {
        if !names.contains(&phase.name) {
            names.push(phase.name.clone());
        }
    }
    names
}

fn against(head: &Head, boots: &[Boot], variant: usize) -> Against {
    let mut total = compare(head, &counted(boots, 0), &counted(boots, variant));
    if let (Some(total), false) = (&mut total, head.deterministic) {
        let (first, second) = crate::runs::paired(boots, 0, variant);
        pairs::forecast(total, &first, &second, &head.ask);
    }
    let of_metric = |metric: &Metric| {
        let values =
            |v| reached(boots, v).filter_map(|(round, m)| Some((round, m.metrics.get(metric)? as f64))).collect();
        let (first, second): (Lengths, Lengths) = (values(0), values(variant));
        // What layout alone changes in a boot says nothing of what the host's noise changes.
        let by = if metric.is_of_host() && repeats(head) {
            let (first, second) = in_both(&first, &second);
            pairs::estimate(&first, &second)
        } else {
            compare(head, &first, &second)
        };
        Some(Moved { name: metric.name.to_owned(), by: by? })
    };
    let (phases, rows) = (moved(head, boots, variant, phases_of), moved(head, boots, variant, rows_of));
    Against {
        variant,
        total,
        likely_rows: likely(&phases, &rows),
        phases,
        rows,
        metrics: METRICS.iter().filter(|metric| metric.is_compared()).filter_map(of_metric).collect(),
        memory: Vec::new(),
    }
}

/// How each part changed, the largest difference first.
fn moved(head: &Head, boots: &[Boot], variant: usize, of: fn(&Measured) -> &[PhaseTime]) -> Vec<Moved> {
    let rounds = |v| -> Vec<u32> { reached(boots, v).map(|(round, _)| round).collect() };
    let (rounds_first, rounds_second) = (rounds(0), rounds(variant));
    let (first, second) = (parts(boots, 0, of), parts(boots, variant, of));
    let mut names: Vec<&str> = first.keys().chain(second.keys()).copied().collect();
    names.sort_unstable();
    names.dedup();
    let sides: Vec<(Lengths, Lengths)> = names
        .iter()
        .map(|name| (whole(first.get(name), &rounds_first), whole(second.get(name), &rounds_second)))
        .collect();
    let one = |(name, (first, second)): (&&str, &(Lengths, Lengths))| {
        Some(Moved { name: (*name).to_owned(), by: compare(head, first, second)? })
    };
    let mut moved: Vec<Moved> = names.iter().zip(&sides).filter_map(one).collect();
    // All are there, or none: it is the rounds that decide.
    let mut family: Vec<&mut Comparison> = moved.iter_mut().map(|m| &mut m.by).collect();
    if repeats(head) {
        judge_all(head, family);
        let whole = median(&sorted(&counted(boots, 0).into_values().collect::<Vec<f64>>()));
        moved.iter_mut().for_each(|m| doubt(&mut m.by, floor::VIRTUAL_TIME * whole));
    } else {
        judge_corrected(&mut family, &corrected(head, &sides), head.variants.len() - 1, &head.ask);
    }
    moved.sort_by(|a, b| b.by.difference.estimate.abs().total_cmp(&a.by.difference.estimate.abs()));
    moved
}

/// What another layout moves in the whole boot it may move in any part of it: a part that moved by no more is not told from
/// that, however small the part is.
fn doubt(by: &mut Comparison, layout: f64) {
    let told = matches!(by.change, Change::Less | Change::More);
    if told && by.difference.estimate.abs() <= layout {
        by.change = Change::TooNoisy;
    }
}

/// The p-values of all parts, corrected for their number.
fn corrected(head: &Head, sides: &[(Lengths, Lengths)]) -> Vec<f64> {
    if head.deterministic {
        let first = sides.first().map_or(0, |(first, _)| first.len());
        let all = |(a, b): &(Lengths, Lengths)| a.values().chain(b.values()).copied().collect();
        return max_t::groups(&sides.iter().map(all).collect::<Vec<Vec<f64>>>(), first);
    }
    let difference = |(a, b): &(Lengths, Lengths)| {
        let (first, second) = in_both(a, b);
        first.iter().zip(second).map(|(a, b)| b - a).collect()
    };
    max_t::pairs(&sides.iter().map(difference).collect::<Vec<Vec<f64>>>())
}

fn repeats(head: &Head) -> bool {
    head.deterministic && !head.dithered
}

/// Two variants' values by round: as pairs, as dithered boots, which need no rounds, or as boots that only repeat.
pub(crate) fn compare(head: &Head, first: &Lengths, second: &Lengths) -> Option<Comparison> {
    if !head.deterministic {
        let (first, second) = in_both(first, second);
        return pairs::estimate(&first, &second);
    }
    let values = |side: &Lengths| side.values().copied().collect::<Vec<f64>>();
    let (first, second) = (values(first), values(second));
    match head.dithered {
        true => dithered::estimate(&first, &second),
        false => dithered::compare_repeated(&first, &second, floor::VIRTUAL_TIME, &head.ask),
    }
}

/// The values of rounds that both have.
fn in_both(first: &Lengths, second: &Lengths) -> (Vec<f64>, Vec<f64>) {
    first.iter().filter_map(|(round, a)| Some((*a, *second.get(round)?))).unzip()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::Variant;
    use crate::runs::{Measured, PhaseTime, Plan, Stop};
    use statistics::verdict::Basis;

    pub fn head(variants: &[&str], deterministic: bool) -> Head {
        let stop = Stop { rounds: 12, width: None, budget_ns: None };
        let plan = Plan { leaves_out: false, variants: variants.len(), warm_ups: 0, stop, seed: 1 };
        let variants = variants.iter().map(|name| Variant::named(name)).collect();
        Head { deterministic, dithered: deterministic, ..Head::of(plan, variants) }
    }

    /// A boot of phases `kernel` and `console`, in ms.
    fn boot(round: u32, variant: usize, kernel: f64, console: f64) -> Boot {
        let ns = |ms: f64| (ms * 1e6) as i64;
        let phase = |name: &str, ms| PhaseTime { name: name.to_owned(), ns: ns(ms) };
        let measured = Measured {
            outcome: "reached".to_owned(),
            total_ns: Some(ns(kernel) + ns(console)),
            phases: vec![phase("kernel", kernel), phase("console", console)],
            rows: vec![phase("initcall a", kernel - 40.0), phase("printk", console), phase("initcall b", 40.0)],
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
        assert_eq!(against.total.as_ref().unwrap().change, Change::NoDifference);
        let moved: Vec<_> = against.phases.iter().map(|m| (m.name.as_str(), m.by.change)).collect();
        assert_eq!(moved.len(), 2);
        assert!(moved.contains(&("kernel", Change::Less)) && moved.contains(&("console", Change::More)), "{moved:?}");
        assert!((against.phases[0].by.difference.estimate.abs() - 15e6).abs() < 1e6);
        assert!(against.total.as_ref().unwrap().shown_from.unwrap() < 0.01);
        assert_eq!(found.variants[1].phases[0].length.count, 12);
        let rows: Vec<_> = against.rows.iter().map(|m| (m.name.as_str(), m.by.change)).collect();
        assert_eq!(rows.last(), Some(&("initcall b", Change::NoDifference)));
        assert!(rows.contains(&("initcall a", Change::Less)) && rows.contains(&("printk", Change::More)));
        let longest = &found.variants[0].rows[0];
        assert!((longest.name.as_str(), longest.seen) == ("initcall a", 12) && (460e6..461e6).contains(&longest.mean));
        let console = &found.variants[0].phases[1];
        assert!((500e6..501e6).contains(&console.start_mean) && console.start_sd.is_some_and(|sd| sd < 1e6));
    }

    #[test]
    fn a_boot_that_failed_is_counted_and_its_pair_left_out() {
        let mut all = boots(8, (60.0, 0.0));
        all[3].measured.total_ns = None;
        all[3].measured.outcome = "hang".to_owned();
        let found = results(&head(&["a", "b"], false), &all);
        assert_eq!(found.variants[1].outcomes, BTreeMap::from([("hang".to_owned(), 1), ("reached".to_owned(), 7)]));
        let total = found.comparisons[0].total.as_ref().unwrap();
        assert_eq!((total.basis, total.change), (Basis::Pairs(7), Change::More));
    }

    #[test]
    fn of_boots_that_only_repeat_a_part_moves_beyond_what_layout_does_in_the_whole() {
        let head = Head { dithered: false, ..head(&["a", "b"], true) };
        let part = |name: &str, ns: i64| PhaseTime { name: name.to_owned(), ns };
        // A second; 10 µs more in a row of 50 µs is less than 0.075 % of it, 5 ms is not.
        let boot = |variant: usize, small: i64, large: i64| {
            let rows = vec![part("small", small), part("large", large), part("rest", 1_000_000_000)];
            let total_ns = Some(rows.iter().map(|r| r.ns).sum());
            let measured = Measured { outcome: "reached".to_owned(), total_ns, rows, ..Measured::default() };
            Boot { number: 0, round: Some(0), variant, began_ns: 0, measured }
        };
        let found = results(&head, &[boot(0, 50_000, 20_000_000), boot(1, 60_000, 25_000_000)]);
        let rows: Vec<_> = found.comparisons[0].rows.iter().map(|m| (m.name.as_str(), m.by.change)).collect();
        let expected = [("large", Change::More), ("small", Change::TooNoisy), ("rest", Change::NoDifference)];
        assert_eq!(rows, expected);
    }

    /// A phase loses 391 ms, from three rows of hundreds that scatter: six pairs prove the phase and no row.
    #[test]
    fn where_a_phase_is_proven_and_no_row_is_the_likeliest_rows_are_listed() {
        let mut random = fastrand::Rng::with_seed(7);
        let part = |name: String, ns: f64| PhaseTime { name, ns: ns as i64 };
        let mut all = Vec::new();
        for number in 0..14 {
            let (round, variant) = (number / 2, number as usize % 2);
            let mut rows: Vec<PhaseTime> =
                (0..400).map(|i| part(format!("row {i}"), 1e6 * (1.0 + random.f64()))).collect();
            for (i, lost) in [(17, 250e6), (90, 100e6), (200, 41e6)] {
                // Each scatters by about as much as it loses; their sum scatters less.
                let scatter = (random.f64() - 0.5) * 1.5 * lost;
                rows[i].ns += (300e6 - if variant == 1 { lost } else { 0.0 } + scatter) as i64;
            }
            let length = rows.iter().map(|row| row.ns).sum::<i64>();
            let phases = vec![part("initcalls".to_owned(), length as f64), part("userspace".to_owned(), 1e9)];
            let total_ns = Some(length + 1_000_000_000);
            let measured = Measured { outcome: "reached".to_owned(), total_ns, phases, rows, ..Measured::default() };
            all.push(Boot { number, round: Some(round), variant, began_ns: 0, measured });
        }
        let found = results(&head(&["a", "b"], false), &all);
        let against = &found.comparisons[0];
        assert_eq!((&*against.phases[0].name, against.phases[0].by.change), ("initcalls", Change::Less));
        assert!(against.rows.iter().all(|row| row.by.change != Change::Less), "{:?}", &against.rows[..3]);
        let likely = against.likely_rows.as_ref().unwrap();
        let names: Vec<&str> = likely.rows.iter().take(3).map(|row| row.name.as_str()).collect();
        assert_eq!((names, likely.tested), (vec!["row 17", "row 90", "row 200"], 400));
        assert!(likely.rows.iter().all(|row| row.by.difference.high < 0.0 && row.by.p.unwrap() <= 0.05));
        assert!((likely.by_chance - 10.0).abs() < 1e-9 && likely.rows.len() < 25, "{}", likely.rows.len());
        // Where a row is proven there is no need to guess.
        assert_eq!(likely_of_a_proven_row(), None);
    }

    fn likely_of_a_proven_row() -> Option<Likely> {
        let found = results(&head(&["a", "b"], false), &boots(7, (4.0, 0.0)));
        found.comparisons[0].likely_rows.clone()
    }

    #[test]
    fn deterministic_boots_are_not_paired() {
        let found = results(&head(&["a", "b"], true), &boots(5, (4.0, 0.0)));
        let total = found.comparisons[0].total.as_ref().unwrap();
        assert_eq!((total.basis, total.change), (Basis::Dithered(5, 5), Change::More));
    }

    #[test]
    fn of_boots_that_only_repeat_what_the_host_measures_is_compared_by_pairs() {
        let head = Head { dithered: false, ..head(&["a", "b"], true) };
        let boots = |rounds: u32| -> Vec<Boot> {
            let one = |(round, variant): (u32, usize)| {
                let mut boot = boot(round, variant, 500.0, 100.0);
                // 7 s of CPU time, 0.2 s less or more by chance: 2 % more in the second variant shows nothing.
                let cpu_ns = 7_000_000_000 + u64::from(round * 37 % 11) * 40_000_000 + variant as u64 * 140_000_000;
                boot.measured.metrics = PerMetric::of(|metric| (metric.name == "vmm_cpu").then_some(cpu_ns));
                boot
            };
            (0..rounds).flat_map(|round| [(round, 0), (round, 1)]).map(one).collect()
        };
        let cpu = |rounds| {
            let found = results(&head, &boots(rounds));
            let against = &found.comparisons[0];
            assert!(matches!(against.total.as_ref().unwrap().basis, Basis::Repeated(_)));
            against.metrics.iter().find(|moved| moved.name == "vmm_cpu").unwrap().by.clone()
        };
        let one = cpu(1);
        assert_eq!((one.basis, one.change, one.difference.is_sure()), (Basis::Pairs(1), Change::TooFew, false));
        assert_eq!((cpu(8).basis, cpu(8).change), (Basis::Pairs(8), Change::More));
    }

    #[test]
    fn fewer_rounds_than_the_least_are_too_few_and_the_least_are_not() {
        for (variants, deterministic, least) in
            [(2, false, 6), (3, false, 7), (9, false, 9), (2, true, 4), (3, true, 5), (9, true, 6), (1, false, 1)]
        {
            let names: Vec<String> = (0..variants).map(|v| v.to_string()).collect();
            let head = head(&names.iter().map(String::as_str).collect::<Vec<_>>(), deterministic);
            assert_eq!(rounds_least(variants - 1, Test::of(&head)), least, "{variants} {deterministic}");
            let of = |rounds: u32| {
                let boots = (0..rounds).flat_map(|round| {
                    // No two alike, and each variant clearly slower than the one before.
                    (0..variants).map(move |v| boot(round, v, 100.0 * (v + 1) as f64 + f64::from(round), 1.0))
                });
                let found = results(&head, &boots.collect::<Vec<Boot>>());
                found.comparisons.iter().filter_map(|c| c.total.as_ref()).map(|t| t.change).collect::<Vec<_>>()
            };
            assert!(of(least).iter().all(|&v| v == Change::More), "{:?}", of(least));
            assert!(of(least - 1).iter().all(|&v| v == Change::TooFew), "{:?}", of(least - 1));
        }
        assert_eq!(rounds_least(1, Test::of(&Head { dithered: false, ..head(&["a", "b"], true) })), 1);
    }

    #[test]
    fn nothing_reached_is_nothing_said() {
        let found = results(&head(&["a", "b"], false), &[]);
        assert_eq!((found.variants.len(), &found.variants[0].total), (2, &None));
        assert!(found.comparisons[0].total.is_none() && found.comparisons[0].phases.is_empty());
    }
}
