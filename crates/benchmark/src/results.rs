//! Results of a bench: statistics of each variant, and its comparison with the first, by total, phase, row and metric.
//!
//! p-values are corrected within four families. The totals of all variants are one family, and all metrics of all variants
//! another; both are corrected for their number ([`statistics::holm`]). The phases of a variant are a family, and so are its
//! hundreds of rows; both are corrected jointly ([`statistics::max_t`]), and for the number of variants. Deterministic boots
//! that only repeat involve no chance and need no correction. A phase or row that a boot does not have counts as 0 ns.

use crate::head::Head;
use crate::likely_rows::{Likely, Moved, likely};
use crate::looks::Test;
use crate::metrics::{METRICS, Metric, PerMetric, Unit};
use crate::runs::{Boot, Measured, PhaseTime, counted};
use crate::samples::{Lengths, parts, phases_of, reached, rows_of, with_zeros};
use crate::scaling::{AxisScaling, along_axes};
use analysis::floor;
use serde::{Deserialize, Serialize};
use statistics::describe::{Description, describe, mean, sd};
use statistics::quantile::{median, median_interval};
use statistics::verdict::{Change, Comparison, judge, judge_corrected, judge_parts};
use statistics::{Interval, dithered, max_t, pairs, sorted};
use std::collections::BTreeMap;

/// Statistics and comparisons of a bench's boots.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Results {
    /// Statistics of each variant.
    pub variants: Vec<VariantRuns>,
    /// Comparisons with the first variant, one for each of the others.
    pub comparisons: Vec<Against>,
    /// Scaling of a swept boot along each axis of its grid.
    #[serde(default, rename = "laws")]
    pub scaling: Vec<AxisScaling>,
}

/// One variant's boots.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct VariantRuns {
    /// Name, as in the header.
    pub name: String,
    /// Number of boots with each outcome, warm-ups left out.
    pub outcomes: BTreeMap<String, usize>,
    /// Time from time zero to the end mark, in ns. Null if no boot reached it.
    pub total: Option<Description>,
    /// The phases, in the order of the boot.
    pub phases: Vec<PhaseRuns>,
    /// The rows to which the boot path was charged, largest first.
    #[serde(default)]
    pub rows: Vec<RowRuns>,
    /// Each metric except the length.
    #[serde(flatten, with = "crate::metrics::by_name")]
    #[schemars(with = "crate::metrics::ByName<Description>")]
    pub metrics: PerMetric<Description>,
}

/// One phase of one variant's boots.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PhaseRuns {
    /// Name, as `show` prints it.
    pub name: String,
    /// Mean of its beginning, in ns.
    #[serde(default)]
    pub start_mean: f64,
    /// Standard deviation of its beginning. Null for a single run.
    #[serde(default)]
    pub start_sd: Option<f64>,
    /// Length in ns.
    pub length: Description,
}

/// One row of one variant's boots, in ns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RowRuns {
    /// Name, as `show` prints it.
    pub name: String,
    /// Number of boots that have the row; in the others it took no time.
    pub seen: usize,
    /// Mean over all boots.
    pub mean: f64,
    /// Standard deviation over all boots. Null for a single run.
    pub sd: Option<f64>,
    /// Median over all boots, with its interval.
    pub median: Interval,
}

/// Comparison of a variant with the first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Against {
    /// Number of the variant, from 1.
    pub variant: usize,
    /// Options whose effect these boots cannot show, because they count instructions: there is no verdict on the totals.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncountable: Vec<String>,
    /// The evidence that only one of the two variants has. Phases and rows are not compared then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_comparable: Option<NotComparable>,
    /// Comparison of the totals. Null if the two variants never reached their end mark in the same round.
    pub total: Option<Comparison>,
    /// Comparisons by phase, largest difference first.
    pub phases: Vec<Moved>,
    /// Comparisons by row of the boot path, largest difference first.
    #[serde(default)]
    pub rows: Vec<Moved>,
    /// The rows that probably explain a change, if a phase is proven to have moved and no row is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub likely_rows: Option<Likely>,
    /// Comparisons of the metrics for which less or more is better, by name.
    #[serde(default)]
    pub metrics: Vec<Moved>,
    /// The metrics in bytes again, under the name that this field had before there were metrics in other units.
    #[serde(default)]
    pub memory: Vec<Moved>,
}

/// Phases and rows that are not compared, because one variant's boots lack evidence that the other's have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct NotComparable {
    /// Number of the variant whose boots have no trace, from 0.
    pub without_trace: usize,
    /// Number of different phases of both.
    pub phases: usize,
    /// Number of different rows of both.
    pub rows: usize,
}

/// Computes the results. Ignores boots of variants that the header does not list.
///
/// The cost is quadratic in the number of rounds, for each phase and row.
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

impl Test {
    /// The test for the boots of this bench.
    pub fn of(head: &Head) -> Test {
        match (head.deterministic, head.dithered) {
            (false, _) => Test::Pairs,
            (true, true) => Test::Dithered,
            (true, false) => Test::Repeated,
        }
    }
}

/// Sets the verdict of each comparison. Together they are one family.
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
        let lengths: Vec<f64> = with_zeros(parts.get(name.as_str()), rounds).into_values().collect();
        let starts: Vec<f64> = reached(boots, variant).filter_map(|(_, m)| start(m, &name)).collect();
        Some(PhaseRuns { start_mean: mean(&starts), start_sd: sd(&starts), length: describe(&lengths)?, name })
    };
    phase_names(reached(boots, variant)).into_iter().filter_map(one).collect()
}

/// The beginning of a phase: the sum of the phases before it.
fn start(measured: &Measured, name: &str) -> Option<f64> {
    let at = measured.phases.iter().position(|p| p.name == name)?;
    Some(measured.phases[..at].iter().map(|p| p.ns as f64).sum())
}

fn row_runs(boots: &[Boot], variant: usize, rounds: &[u32]) -> Vec<RowRuns> {
    let one = |(name, lengths): (&str, &Lengths)| {
        let values: Vec<f64> = with_zeros(Some(lengths), rounds).into_values().collect();
        let median = median_interval(&sorted(&values))?;
        Some(RowRuns { name: name.to_owned(), seen: lengths.len(), mean: mean(&values), sd: sd(&values), median })
    };
    let mut rows: Vec<RowRuns> = parts(boots, variant, rows_of).iter().filter_map(|(n, l)| one((n, l))).collect();
    rows.sort_by(|a, b| b.mean.total_cmp(&a.mean));
    rows
}

/// Names of all phases, in the order of their first appearance.
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
        // The bound for effects of layout does not bound the host's noise, so such a metric needs pairs.
        let by = if metric.is_of_host() && repeats(head) {
            let (first, second) = in_both(&first, &second);
            pairs::estimate(&first, &second, &head.ask)
        } else {
            compare(head, &first, &second)
        };
        Some(Moved { name: metric.name.to_owned(), by: by? })
    };
    let (mut phases, mut rows) = (moved(head, boots, variant, phases_of), moved(head, boots, variant, rows_of));
    let not_comparable = without_trace(boots, variant).map(|without_trace| {
        let (phases, rows) = (std::mem::take(&mut phases).len(), std::mem::take(&mut rows).len());
        NotComparable { without_trace, phases, rows }
    });
    Against {
        variant,
        uncountable: head.uncountable(variant),
        not_comparable,
        total,
        likely_rows: likely(&phases, &rows),
        phases,
        rows,
        metrics: METRICS.iter().filter(|metric| metric.is_compared()).filter_map(of_metric).collect(),
        memory: Vec::new(),
    }
}

/// The first variant or this one: the one that has no trace, if the other has one. Journals of earlier versions do not say.
fn without_trace(boots: &[Boot], variant: usize) -> Option<usize> {
    let is_traced = |variant| reached(boots, variant).find_map(|(_, measured)| measured.traced);
    match (is_traced(0)?, is_traced(variant)?) {
        (true, false) => Some(variant),
        (false, true) => Some(0),
        _ => None,
    }
}

/// Changes of the phases or rows (as `select` chooses), largest difference first.
fn moved(head: &Head, boots: &[Boot], variant: usize, select: fn(&Measured) -> &[PhaseTime]) -> Vec<Moved> {
    let rounds = |v| -> Vec<u32> { reached(boots, v).map(|(round, _)| round).collect() };
    let (rounds_first, rounds_second) = (rounds(0), rounds(variant));
    let (first, second) = (parts(boots, 0, select), parts(boots, variant, select));
    let mut names: Vec<&str> = first.keys().chain(second.keys()).copied().collect();
    names.sort_unstable();
    names.dedup();
    let sides: Vec<(Lengths, Lengths)> = names
        .iter()
        .map(|name| (with_zeros(first.get(name), &rounds_first), with_zeros(second.get(name), &rounds_second)))
        .collect();
    let one = |(name, (first, second)): (&&str, &(Lengths, Lengths))| {
        Some(Moved { name: (*name).to_owned(), by: compare(head, first, second)? })
    };
    let mut moved: Vec<Moved> = names.iter().zip(&sides).filter_map(one).collect();
    // Either all parts could be compared or no part could: that depends only on the rounds.
    let mut family: Vec<&mut Comparison> = moved.iter_mut().map(|m| &mut m.by).collect();
    if repeats(head) {
        judge_parts(&mut family, &head.ask);
        let total = median(&sorted(&counted(boots, 0).into_values().collect::<Vec<f64>>()));
        moved.iter_mut().for_each(|m| doubt(&mut m.by, floor::VIRTUAL_TIME * total));
    } else {
        judge_corrected(&mut family, &corrected(head, &sides), head.variants.len() - 1, &head.ask);
    }
    moved.sort_by(|a, b| b.by.difference.estimate.abs().total_cmp(&a.by.difference.estimate.abs()));
    moved
}

/// Withdraws the verdict on a part that moved by at most `layout`. Another layout of the code changes the whole boot by up to
/// that, and the change may fall into any single part, however small.
fn doubt(comparison: &mut Comparison, layout: f64) {
    let is_decided = matches!(comparison.change, Change::Less | Change::More);
    if is_decided && comparison.difference.estimate.abs() <= layout {
        comparison.change = Change::TooNoisy;
    }
}

/// p-values of all parts, corrected for their number.
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

/// Compares two variants' values by round: as pairs, as dithered boots (which need no rounds), or as boots that only repeat.
pub(crate) fn compare(head: &Head, first: &Lengths, second: &Lengths) -> Option<Comparison> {
    if !head.deterministic {
        let (first, second) = in_both(first, second);
        return pairs::estimate(&first, &second, &head.ask);
    }
    let values = |side: &Lengths| side.values().copied().collect::<Vec<f64>>();
    let (first, second) = (values(first), values(second));
    match head.dithered {
        true => dithered::estimate(&first, &second),
        false => dithered::compare_repeated(&first, &second, floor::VIRTUAL_TIME, &head.ask),
    }
}

/// The values of the rounds that both sides have.
fn in_both(first: &Lengths, second: &Lengths) -> (Vec<f64>, Vec<f64>) {
    first.iter().filter_map(|(round, a)| Some((*a, *second.get(round)?))).unzip()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::Variant;
    use crate::looks::rounds_least;
    use crate::runs::{Measured, PhaseTime, Plan, Stop};
    use statistics::verdict::{Ask, Basis};

    pub fn head(variants: &[&str], deterministic: bool) -> Head {
        let stop = Stop { rounds: 12, ..Stop::default() };
        let plan = Plan { variants: variants.len(), warm_ups: 0, stop, seed: 1, ..Plan::default() };
        let variants = variants.iter().map(|name| Variant::named(name)).collect();
        Head { deterministic, dithered: deterministic, ask: Ask::of_boots(deterministic), ..Head::of(plan, variants) }
    }

    /// A boot with the phases `kernel` and `console`, in ms.
    fn boot(round: u32, variant: usize, kernel: f64, console: f64) -> Boot {
        let ns = |ms: f64| (ms * 1e6) as i64;
        let phase = |name: &str, ms| PhaseTime { name: name.to_owned(), ns: ns(ms), waited_ns: 0 };
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
    fn a_moved_phase_is_reported_though_the_total_did_not_move() {
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
    fn what_only_one_variant_shows_is_not_compared() {
        let traced = |all: [Option<bool>; 2]| {
            let mut boots = boots(12, (-15.0, 15.0));
            boots.iter_mut().for_each(|boot| boot.measured.traced = all[boot.variant]);
            results(&head(&["a", "b"], false), &boots).comparisons.remove(0)
        };
        let seen = |against: &Against| (against.phases.len(), against.rows.is_empty());
        for both in [[Some(true); 2], [Some(false); 2], [None, Some(false)], [None; 2]] {
            let against = traced(both);
            assert_eq!((seen(&against), &against.not_comparable), ((2, false), &None), "{both:?}");
        }
        for (all, without_trace) in [([Some(true), Some(false)], 1), ([Some(false), Some(true)], 0)] {
            let against = traced(all);
            assert_eq!(seen(&against), (0, true), "{all:?}");
            let lost = against.not_comparable.unwrap();
            assert_eq!((lost.without_trace, lost.phases), (without_trace, 2));
            assert!(against.total.is_some(), "totals are compared");
        }
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
    fn a_part_of_repeated_boots_moves_only_beyond_the_effect_of_layout() {
        let head = Head { dithered: false, ..head(&["a", "b"], true) };
        let part = |name: &str, ns: i64| PhaseTime { name: name.to_owned(), ns, waited_ns: 0 };
        // The boot takes 1 s: 10 µs more in a row of 50 µs is less than 0.075 % of that, 5 ms more is not.
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

    /// A phase loses 391 ms, in three of hundreds of rows that scatter. Six pairs prove that the phase moved, but no row.
    #[test]
    fn likely_rows_are_listed_if_only_a_phase_is_proven() {
        let mut random = fastrand::Rng::with_seed(7);
        let part = |name: String, ns: f64| PhaseTime { name, ns: ns as i64, waited_ns: 0 };
        let mut all = Vec::new();
        for number in 0..14 {
            let (round, variant) = (number / 2, number as usize % 2);
            let mut rows: Vec<PhaseTime> =
                (0..400).map(|i| part(format!("row {i}"), 1e6 * (1.0 + random.f64()))).collect();
            for (i, lost) in [(17, 250e6), (90, 100e6), (200, 41e6)] {
                // Each row scatters by about as much as it loses; the sum of the rows scatters less.
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
        // If a row is proven to have moved, there is no need to guess.
        assert_eq!(likely_of_a_proven_row(), None);
    }

    fn likely_of_a_proven_row() -> Option<Likely> {
        let found = results(&head(&["a", "b"], false), &boots(7, (4.0, 0.0)));
        found.comparisons[0].likely_rows.clone()
    }

    #[test]
    fn deterministic_boots_are_not_paired() {
        let found = results(&head(&["a", "b"], true), &boots(5, (14.0, 0.0)));
        let total = found.comparisons[0].total.as_ref().unwrap();
        assert_eq!((total.basis, total.change), (Basis::Dithered(5, 5), Change::More));
    }

    #[test]
    fn host_metrics_of_repeated_boots_are_compared_by_pairs() {
        let head = Head { dithered: false, ..head(&["a", "b"], true) };
        let boots = |rounds: u32| -> Vec<Boot> {
            let one = |(round, variant): (u32, usize)| {
                let mut boot = boot(round, variant, 500.0, 100.0);
                // 7 s of CPU time, varying by 0.2 s by chance: 10 % more in the second variant is evidence of 8 pairs.
                let cpu_ns = 7_000_000_000 + u64::from(round * 37 % 11) * 40_000_000 + variant as u64 * 700_000_000;
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
    fn the_minimum_of_rounds_is_enough_and_fewer_are_too_few() {
        for (variants, deterministic, least) in
            [(2, false, 6), (3, false, 7), (9, false, 9), (2, true, 4), (3, true, 5), (9, true, 6), (1, false, 1)]
        {
            let names: Vec<String> = (0..variants).map(|v| v.to_string()).collect();
            let head = head(&names.iter().map(String::as_str).collect::<Vec<_>>(), deterministic);
            assert_eq!(rounds_least(variants - 1, Test::of(&head)), least, "{variants} {deterministic}");
            let of = |rounds: u32| {
                let boots = (0..rounds).flat_map(|round| {
                    // No two boots are equal, and each variant is clearly slower than the one before.
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
    fn no_reached_boot_gives_no_results() {
        let found = results(&head(&["a", "b"], false), &[]);
        assert_eq!((found.variants.len(), &found.variants[0].total), (2, &None));
        assert!(found.comparisons[0].total.is_none() && found.comparisons[0].phases.is_empty());
    }
}
