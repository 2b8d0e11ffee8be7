//! Checks the stated rates of the statistics on simulated hosts: false alarms, coverage, power, forecast.
//!
//! Each rate is tested with 2 000 seeded benchmarks and, with `--ignored`, in full with 10 000 and every kind of noise:
//! `cargo test --release -p benchmark --test integration -- simulation:: --ignored --nocapture --test-threads 2` prints the
//! rates.

use crate::support::{KINDS, Kind, Random, rate};
use benchmark::{Boot, Boots, Ended, Measured, Plan, Stop, Turn, looks, resume, run};
use statistics::signed_rank::SignedRank;
use statistics::verdict::{Ask, Change};
use statistics::{max_t, pairs, power};
use std::time::Duration;

const FULL: usize = 10_000;
const SMALL: usize = 2_000;

fn verdict(kind: Kind, n: usize, ratio: f64, random: &mut Random) -> Change {
    let (a, b) = crate::support::pairs(kind, n, ratio, random);
    pairs::compare(&a, &b, &Ask::default()).unwrap().change
}

fn differs(verdict: Change) -> bool {
    matches!(verdict, Change::Less | Change::More)
}

/// Tests how often two equal variants are called different. Few pairs have few possible outcomes, so the rate is below the
/// allowed 5 %: 3.1 % with six pairs, 3.9 % with eight, 4.9 % with ten.
fn false_alarms(kind: Kind, n: usize, trials: usize) {
    let mut random = Random::with_seed(100 + n as u64);
    let found = rate(trials, || differs(verdict(kind, n, 1.0, &mut random)));
    println!("A/A, {kind:?} noise, {n} pairs: {:.2} % false alarms", found * 100.0);
    let null = SignedRank::new(n);
    let stated = null.p(null.critical(0.05).unwrap());
    assert!(stated <= 0.05 && (n < 10 || stated > 0.045), "{n} pairs: {stated}");
    // Four standard errors of the simulation. In full, that is less than the promised one per cent.
    let within = 4.0 * (stated * (1.0 - stated) / trials as f64).sqrt();
    assert!((found - stated).abs() <= within, "{kind:?}, {n} pairs: {found}");
}

#[test]
fn false_alarms_are_as_rare_as_stated() {
    for n in [6, 10, 20] {
        false_alarms(Kind::All, n, SMALL);
    }
}

#[test]
#[ignore = "full simulation: a minute in release"]
fn full_false_alarms() {
    for kind in KINDS {
        for n in [6, 8, 10, 20, 40] {
            false_alarms(kind, n, FULL);
        }
    }
}

/// Tests how often any of twelve unchanged phases is reported as changed.
fn false_alarms_in_phases(n: usize, trials: usize) {
    let mut random = Random::with_seed(200);
    let found = rate(trials, || {
        let mut phase = || -> Vec<f64> {
            let (a, b) = crate::support::pairs(Kind::All, n, 1.0, &mut random);
            a.iter().zip(b).map(|(a, b)| b - a).collect()
        };
        let phases: Vec<Vec<f64>> = (0..12).map(|_| phase()).collect();
        max_t::pairs(&phases).iter().any(|&p| p <= 0.05)
    });
    println!("A/A, 12 phases, {n} pairs: {:.2} % with any false alarm", found * 100.0);
    let chance = 3.0 * (0.05 * 0.95 / trials as f64).sqrt();
    assert!((found - 0.05).abs() < 0.003 + chance, "{found}");
}

/// Tests how often any row is reported as growing in a sweep of four sizes, in rounds, with rows that do not grow.
fn false_growth(kind: Kind, rows: usize, rounds: usize, trials: usize) {
    const SIZES: [f64; 4] = [1.0, 2.0, 4.0, 8.0];
    let mut random = Random::with_seed(250);
    let found = rate(trials, || {
        let mut orders = Random::with_seed(random.u64());
        let mut boots = Vec::new();
        let mut all = vec![Vec::new(); rows];
        let mut host = crate::support::Host::new(kind, 4 * rounds, &mut random);
        for round in 0..rounds {
            let mut sizes = SIZES.to_vec();
            (1..sizes.len()).rev().for_each(|i| sizes.swap(i, (orders.f64() * (i + 1) as f64) as usize));
            for size in sizes {
                let mood = host.boot();
                boots.push((size, round as u32));
                all.iter_mut().for_each(|row| row.push(mood * (1.0 + 0.1 * crate::support::normal(&mut orders))));
            }
        }
        max_t::growth(&all, &boots).unwrap().iter().any(|&p| p <= 0.05)
    });
    println!("a level sweep, {rows} rows, {kind:?} noise, {rounds} rounds: {:.2} % with any false row", found * 100.0);
    let chance = 3.0 * (0.05 * 0.95 / trials as f64).sqrt();
    assert!((found - 0.05).abs() < 0.01 + chance, "{kind:?}, {rounds} rounds: {found}");
}

#[test]
fn rows_of_a_level_sweep_do_not_grow() {
    false_growth(Kind::All, 40, 5, SMALL / 20);
}

#[test]
#[ignore = "full simulation"]
fn full_false_growth() {
    KINDS.into_iter().for_each(|kind| false_growth(kind, 165, 5, FULL / 20));
}

#[test]
fn false_alarms_among_many_phases_are_rare() {
    false_alarms_in_phases(12, SMALL / 4);
}

#[test]
#[ignore = "full simulation"]
fn full_false_alarms_in_phases() {
    for n in [10, 12, 20] {
        false_alarms_in_phases(n, FULL);
    }
}

/// Tests how often the interval of the ratio contains 1.1 if the second variant takes 1.1 times as long.
fn coverage(kind: Kind, n: usize, trials: usize) {
    let mut random = Random::with_seed(300);
    let found = rate(trials, || {
        let (a, b) = crate::support::pairs(kind, n, 1.1, &mut random);
        pairs::compare(&a, &b, &Ask::default()).unwrap().ratio.unwrap().holds(1.1)
    });
    println!("ratio 1.1, {kind:?} noise, {n} pairs: {:.2} % of the intervals hold it", found * 100.0);
    assert!((0.94..=0.975).contains(&found), "{kind:?}, {n} pairs: {found}");
}

#[test]
fn intervals_hold_the_ratio_as_often_as_stated() {
    coverage(Kind::All, 10, SMALL);
}

#[test]
#[ignore = "full simulation"]
fn full_coverage() {
    for kind in KINDS {
        for n in [8, 10, 20] {
            coverage(kind, n, FULL);
        }
    }
}

/// Returns how often a difference is found that equals the smallest one that an earlier bench of the host could have shown.
fn shown(kind: Kind, n: usize, trials: usize) -> f64 {
    let mut random = Random::with_seed(400);
    let ask = Ask::default();
    let found = rate(trials, || {
        let (a, b) = crate::support::pairs(kind, n, 1.0, &mut random);
        let mut earlier = pairs::compare(&a, &b, &ask).unwrap();
        pairs::forecast(&mut earlier, &a, &b, &Ask { margin: 1.0, ..ask });
        verdict(kind, n, 1.0 + earlier.shown_from.unwrap(), &mut random) == Change::More
    });
    println!("smallest difference, {kind:?} noise, {n} pairs: found in {:.1} % (stated 90)", found * 100.0);
    found
}

/// Returns how often a difference of 5 % is found with the number of pairs that a pilot forecast.
fn forecast(kind: Kind, pilot: usize, trials: usize) -> f64 {
    let mut random = Random::with_seed(500);
    let ask = Ask::default();
    let mut needed = Vec::new();
    let found = rate(trials, || {
        let (a, b) = crate::support::pairs(kind, pilot, 1.0, &mut random);
        let ratio = pairs::compare(&a, &b, &ask).unwrap().ratio.unwrap().estimate;
        let pairs = power::pairs_needed(&power::spread(&a, &b, ratio).unwrap(), 0.05, &ask).unwrap();
        needed.push(pairs as f64);
        verdict(kind, pairs, 1.05, &mut random) == Change::More
    });
    let mean = needed.iter().sum::<f64>() / needed.len() as f64;
    println!(
        "forecast for 5 %, {kind:?} noise, pilot of {pilot}: {mean:.0} pairs, found in {:.1} % (stated 90)",
        found * 100.0
    );
    found
}

#[test]
fn a_difference_of_the_stated_minimum_is_found() {
    let found = shown(Kind::Tame, 20, 200);
    assert!((0.80..=0.97).contains(&found), "{found}");
}

#[test]
fn as_many_runs_as_forecast_find_it() {
    let found = forecast(Kind::All, 20, 100);
    assert!((0.80..=1.0).contains(&found), "{found}");
}

#[test]
#[ignore = "full simulation"]
fn full_shown() {
    let cases = KINDS.into_iter().flat_map(|kind| [10, 20, 40].map(|n| (kind, n)));
    let found: Vec<_> = cases.map(|(kind, n)| (kind, n, shown(kind, n, FULL / 10))).collect();
    for (kind, n, found) in found {
        // Ten pairs may well miss an event that affects one boot in twenty.
        let least = if kind == Kind::Skewed && n == 10 { 0.8 } else { 0.86 };
        assert!((least..=0.97).contains(&found), "{kind:?}, {n} pairs: {found}");
    }
}

#[test]
#[ignore = "full simulation"]
fn full_forecast() {
    for kind in KINDS {
        for pilot in [10, 20] {
            let found = forecast(kind, pilot, FULL / 20);
            assert!((0.86..=1.0).contains(&found), "{kind:?}, {pilot} pairs: {found}");
        }
    }
}

/// Tests how often a difference of 20 % is found with 10 + 10 boots, on a host as noisy as those measured (standard deviation
/// 10 to 11 %).
fn a_fifth(kind: Kind, trials: usize) {
    let mut random = Random::with_seed(600);
    let found = rate(trials, || verdict(kind, 10, 1.2, &mut random) == Change::More);
    println!("20 %, {kind:?} noise, 10 pairs: found in {:.1} %", found * 100.0);
    // Pairs are worst with independent and skewed noise.
    let least = if kind == Kind::Skewed { 0.8 } else { 0.9 };
    assert!(found >= least, "{kind:?}: {found}");
}

#[test]
fn a_fifth_is_found_with_ten_pairs() {
    a_fifth(Kind::Tame, SMALL);
    a_fifth(Kind::All, SMALL);
}

#[test]
#[ignore = "full simulation"]
fn full_a_fifth() {
    KINDS.into_iter().for_each(|kind| a_fifth(kind, FULL));
}

/// Boots on a simulated host. The second variant takes `ratio` times as long.
struct Simulated<'a> {
    ratio: f64,
    host: crate::support::Host<'a>,
}

impl Boots for Simulated<'_> {
    type Error = std::convert::Infallible;
    fn boot(&mut self, turn: &Turn) -> Result<Option<Measured>, Self::Error> {
        let ratio = if turn.variant == 1 { self.ratio } else { 1.0 };
        Ok(Some(Measured { total_ns: Some((1.2e9 * ratio * self.host.boot()) as i64), ..Measured::default() }))
    }
    fn keep(&mut self, _: &Boot) -> Result<(), Self::Error> {
        Ok(())
    }
    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }
}

/// Tests benches that stop as soon as the interval is narrow enough. With a ratio of 1, tests how often the two are called
/// different.
fn stopped(kind: Kind, width: f64, ratio: f64, trials: usize) {
    let mut random = Random::with_seed(800);
    let (mut rounds, mut narrow) = (Vec::new(), 0);
    let found = rate(trials, || {
        let stop = Stop { rounds: 200, width: Some(width), ..Stop::default() };
        let plan = Plan { variants: 2, warm_ups: 0, stop, seed: random.u64(), ..Plan::default() };
        let host = crate::support::Host::new(kind, 60, &mut random);
        let boots = run(&plan, &mut Simulated { host, ratio }).boots;
        rounds.push(boots.len() as f64 / 2.0);
        // All rounds are complete and in order.
        let of =
            |variant| boots.iter().filter(move |b| b.variant == variant).map(|b| b.measured.total_ns.unwrap() as f64);
        let (first, second): (Vec<f64>, Vec<f64>) = (of(0).collect(), of(1).collect());
        let found = pairs::compare(&first, &second, &Ask::default()).unwrap();
        let interval = found.ratio.unwrap();
        narrow += usize::from(interval.half_width() <= width * interval.estimate);
        differs(found.change)
    });
    let mean = rounds.iter().sum::<f64>() / rounds.len() as f64;
    let narrow = narrow as f64 / trials as f64;
    println!(
        "ratio {ratio}, stopped at ± {} %, {kind:?} noise: {mean:.0} pairs, {:.2} % differ, {:.0} % are that narrow",
        width * 100.0,
        found * 100.0,
        narrow * 100.0
    );
    assert!(narrow > 0.5, "{kind:?}, {width}: {narrow}");
    let error = 4.0 * (0.05 * 0.95 / trials as f64).sqrt();
    assert!(ratio > 1.0 || found <= 0.05 + error, "{kind:?}, {width}: {found}");
}

#[test]
#[ignore = "full simulation"]
fn full_false_alarms_when_stopped() {
    for (kind, width) in
        [(Kind::Tame, 0.05), (Kind::Skewed, 0.05), (Kind::Correlated, 0.03), (Kind::Drifting, 0.03), (Kind::All, 0.05)]
    {
        stopped(kind, width, 1.0, FULL / 2);
        stopped(kind, width, 1.2, FULL / 20);
    }
}

#[test]
fn stopping_early_makes_no_false_alarms() {
    stopped(Kind::Drifting, 0.03, 1.0, SMALL / 4);
}

/// The verdict of a bench that stops when it is sure, after at most 1000 rounds; and true if it reports any difference.
fn sure(kind: Kind, ratio: f64, random: &mut Random) -> (Change, bool, usize) {
    let ask = Ask { looks: looks(1000, 1).len() as u32, ..Ask::default() };
    let stop = Stop { rounds: 1000, sure: true, ..Stop::default() };
    let plan = Plan { variants: 2, warm_ups: 0, stop, seed: random.u64(), ..Plan::default() };
    let host = crate::support::Host::new(kind, 60, random);
    let finished = resume(&plan, &ask, Vec::new(), &mut Simulated { host, ratio });
    assert!(matches!(finished.ended, Ended::Sure | Ended::Rounds), "{:?}", finished.ended);
    let of = |variant| finished.boots.iter().filter(move |b| b.variant == variant);
    let totals = |variant| of(variant).map(|b| b.measured.total_ns.unwrap() as f64).collect::<Vec<f64>>();
    let found = pairs::compare(&totals(0), &totals(1), &ask).unwrap();
    (found.change, found.direction().is_some(), of(0).count())
}

/// Tests how often a bench that stops when it is sure gives a wrong verdict. A ratio of 1 must not be called a difference,
/// another one must not be called no difference or the opposite. Prints the number of pairs.
fn stopped_when_sure(kind: Kind, ratio: f64, trials: usize) {
    let mut random = Random::with_seed(900);
    let mut pairs = Vec::new();
    let wrong = rate(trials, || {
        let (change, differs, rounds) = sure(kind, ratio, &mut random);
        pairs.push(rounds as f64);
        if ratio == 1.0 { differs } else { matches!(change, Change::Less | Change::NoDifference) }
    });
    pairs.sort_by(f64::total_cmp);
    let (median, most) = (pairs[pairs.len() / 2], pairs[pairs.len() * 9 / 10]);
    println!(
        "ratio {ratio}, stopped when sure, {kind:?} noise: {:.2} % wrong, {median} pairs in half of the benches, \
         {most} in nine of ten",
        wrong * 100.0
    );
    assert!(wrong <= 0.05, "{kind:?}, {ratio}: {wrong}");
}

#[test]
fn a_bench_that_stops_when_it_is_sure_is_seldom_wrong() {
    for ratio in [1.0, 1.1] {
        stopped_when_sure(Kind::Drifting, ratio, SMALL / 10);
    }
}

#[test]
#[ignore = "full simulation"]
fn full_stopped_when_sure() {
    for kind in KINDS {
        [1.0, 1.1, 1.2, 1.5].into_iter().for_each(|ratio| stopped_when_sure(kind, ratio, SMALL));
    }
}
