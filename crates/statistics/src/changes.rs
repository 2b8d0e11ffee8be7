//! Where a series of measurements changed its level: which bench was the first of the slower ones.
//!
//! Pettitt's test ("A non-parametric approach to the change-point problem", Applied Statistics 28, 1979) asks of a series
//! whether its ranks lie higher after some place than before it; it needs no distribution, and an outlier is one rank. The
//! place where that is most is the change. What lies before it and after it is asked again (binary segmentation: Scott and
//! Knott, Biometrics 30, 1974; Vostrikova, Soviet Mathematics Doklady 24, 1981) until nothing more is found. The
//! probability is Pettitt's own approximation, which is careful for short series: those are also put in random orders.
//!
//! Values must be independent but for the changes. Noise of the host that lasts for several benches is reported as a change
//! too: the series alone cannot distinguish it from one.

use super::order::ranks;
use super::quantile::median;
use super::sorted;
use serde::{Deserialize, Serialize};

/// A change of level.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Change {
    /// The first value of the new level.
    pub at: usize,
    /// Median of the values since the change before.
    pub before: f64,
    /// Median of the values until the next change.
    pub after: f64,
    /// The probability of so clear a change without any.
    pub p: f64,
}

/// Said without being asked, so false alarms must be rare.
pub const ALPHA: f64 = 0.01;
/// A level has so many values at least: fewer are outliers.
const LEVEL_MIN: usize = 3;
/// A part of a series is asked by itself if it has so many values.
const WINDOW_MIN: usize = 16;
/// Up to so many values, random orders; beyond, the approximation, which is close there.
const SHUFFLED_MOST: usize = 100;
const SHUFFLES: usize = 1999;
/// Asked again so often: each place rests on its neighbours'.
const SETTLED: usize = 3;
/// A series has so many changes at most; one that has more is no series of levels.
const CHANGES_MOST: usize = 100;

/// The changes of level, in order. Quasi-linear in the number of values for each change that is found. Random orders are
/// seeded: the same values give the same answer.
pub fn changes(values: &[f64]) -> Vec<Change> {
    let mut found: Vec<(usize, f64)> = Vec::new();
    let mut open = vec![(0, values.len())];
    while let Some((from, to)) = open.pop() {
        if let Some((at, p)) = change(&values[from..to]) {
            found.push((from + at, p));
            open.extend([(from, from + at), (from + at, to)]);
        }
        if found.len() == CHANGES_MOST {
            break;
        }
    }
    found.sort_by_key(|&(at, _)| at);
    for _ in 0..SETTLED {
        settle(values, &mut found);
    }
    let ends: Vec<usize> = found.iter().map(|&(at, _)| at).chain([values.len()]).collect();
    let level = |from: usize, to: usize| median(&sorted(&values[from..to]));
    let mut from = 0;
    let mut told = Vec::new();
    for (i, (at, p)) in found.into_iter().enumerate() {
        told.push(Change { at, before: level(from, at), after: level(at, ends[i + 1]), p });
        from = at;
    }
    told
}

/// Asks for each change again between its neighbours, which were not known when it was found: it may lie a little beside,
/// or be none.
fn settle(values: &[f64], found: &mut Vec<(usize, f64)>) {
    let mut i = 0;
    while i < found.len() {
        let from = if i == 0 { 0 } else { found[i - 1].0 };
        let to = found.get(i + 1).map_or(values.len(), |next| next.0);
        match alone(&values[from..to], ALPHA) {
            Some((at, _)) => {
                found[i].0 = from + at;
                i += 1;
            }
            None => drop(found.remove(i)),
        }
    }
}

/// A change of a series, and how likely one as clear is by chance; none if that is not rare. First the whole is asked, then
/// windows of half of it, of a quarter and of an eighth, each overlapping its neighbours by half: a level that came and went
/// does not show in the whole (seeded binary segmentation: Kovács and others, Biometrika 110, 2023). The probability is
/// multiplied by the number of windows of that length and of lengths (Bonferroni).
fn change(values: &[f64]) -> Option<(usize, f64)> {
    if values.len() < 2 * LEVEL_MIN {
        return None;
    }
    let lengths: Vec<usize> =
        (0..4).map(|halved| values.len() >> halved).filter(|&n| n >= WINDOW_MIN || n == values.len()).collect();
    lengths.iter().find_map(|&length| {
        let step = (length / 2).max(1);
        let last = values.len() - length;
        let starts: Vec<usize> = (0..last).step_by(step).chain([last]).collect();
        let asked = (starts.len() * lengths.len()) as f64;
        let found = starts.iter().filter_map(|&start| {
            let (at, p) = alone(&values[start..start + length], ALPHA / asked)?;
            Some((start + at, p * asked))
        });
        found.min_by(|a, b| a.1.total_cmp(&b.1))
    })
}

/// The clearest change of one window, if it is rare enough.
fn alone(values: &[f64], alpha: f64) -> Option<(usize, f64)> {
    let mut ranks = ranks(values);
    let (at, most) = clearest(&ranks);
    if most == 0.0 {
        return None;
    }
    // The approximation is careful: of what it calls rare nothing more need be asked.
    let mut p = approximate(ranks.len(), most);
    if p > alpha && ranks.len() <= SHUFFLED_MOST {
        p = shuffled(&mut ranks, most, alpha);
    }
    (p <= alpha).then_some((at, p))
}

/// Pettitt's statistic, the largest difference of rank sums, and the place of it.
fn clearest(ranks: &[f64]) -> (usize, f64) {
    let n = ranks.len() as f64;
    let (mut sum, mut at, mut most) = (0.0, 0, 0.0);
    for (before, rank) in (1..).zip(ranks).take(ranks.len() - LEVEL_MIN) {
        sum += rank;
        let far = f64::abs(2.0 * sum - before as f64 * (n + 1.0));
        if before >= LEVEL_MIN && far > most {
            (at, most) = (before, far);
        }
    }
    (at, most)
}

/// The share of random orders that are as clear; 1 as soon as that is sure to be more than `alpha`.
fn shuffled(ranks: &mut [f64], most: f64, alpha: f64) -> f64 {
    let mut random = fastrand::Rng::with_seed(ranks.len() as u64);
    let rare = alpha * (SHUFFLES + 1) as f64;
    let mut as_clear = 1;
    for _ in 0..SHUFFLES {
        random.shuffle(ranks);
        as_clear += usize::from(clearest(ranks).1 >= most);
        if as_clear as f64 > rare {
            return 1.0;
        }
    }
    as_clear as f64 / (SHUFFLES + 1) as f64
}

fn approximate(n: usize, most: f64) -> f64 {
    let n = n as f64;
    (2.0 * (-6.0 * most * most / (n * n * n + n * n)).exp()).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Skewed noise of some per cent, and now and then a boot that took half as long again.
    fn noise(random: &mut fastrand::Rng) -> f64 {
        let late = if random.f64() < 0.03 { 0.5 } else { 0.0 };
        1.0 + 0.02 * -(1.0 - random.f64()).ln() + late
    }

    fn series(random: &mut fastrand::Rng, levels: &[(usize, f64)]) -> Vec<f64> {
        levels.iter().flat_map(|&(n, level)| (0..n).map(|_| level * noise(random)).collect::<Vec<_>>()).collect()
    }

    fn check(levels: &[(usize, f64)], slack: usize, at_least: usize) {
        let mut random = fastrand::Rng::with_seed(20);
        let mut expected = Vec::new();
        levels[..levels.len() - 1].iter().fold(0, |sum, &(n, _)| {
            expected.push(sum + n);
            sum + n
        });
        let right = (0..100).filter(|_| {
            let found = changes(&series(&mut random, levels));
            found.len() == expected.len() && found.iter().zip(&expected).all(|(c, &at)| c.at.abs_diff(at) <= slack)
        });
        let right = right.count();
        println!("{levels:?}: {right} of 100");
        assert!(right >= at_least, "{levels:?}: {right} of 100");
    }

    #[test]
    fn changes_are_found_where_they_are() {
        check(&[(30, 1.0), (30, 1.05)], 2, 80);
        check(&[(20, 1.0), (20, 1.1), (20, 1.0)], 2, 80);
        check(&[(150, 1.0), (150, 1.05), (150, 1.15), (50, 1.0)], 4, 80);
        check(&[(14, 1.0), (9, 1.2)], 1, 80);
    }

    #[test]
    fn no_change_is_found_as_rarely_as_stated() {
        let mut random = fastrand::Rng::with_seed(21);
        for n in [8, 30, 100, 101, 400] {
            let trials = 500;
            let alarms = (0..trials).filter(|_| !changes(&series(&mut random, &[(n, 1.0)])).is_empty()).count();
            // 1 % of 500 is 5, standard deviation 2.2; the approximation is careful.
            assert!(alarms <= 12, "{n}: {alarms} of {trials}");
        }
    }

    #[test]
    fn the_levels_are_told() {
        let values: Vec<f64> = [vec![10.0; 9], vec![12.0; 9], vec![11.0; 9]].concat();
        let found = changes(&values);
        let told: Vec<_> = found.iter().map(|c| (c.at, c.before, c.after)).collect();
        assert_eq!(told, [(9, 10.0, 12.0), (18, 12.0, 11.0)]);
        assert!(found.iter().all(|c| c.p <= ALPHA));
    }

    #[test]
    fn the_statistic_is_the_sum_of_signs() {
        let mut random = fastrand::Rng::with_seed(22);
        for _ in 0..50 {
            let values: Vec<f64> = (0..20).map(|_| (random.f64() * 12.0).floor()).collect();
            let sign = |a: f64, b: f64| if a == b { 0.0 } else { (a - b).signum() };
            let u = |t: usize| {
                let signs = values[..t].iter().flat_map(|&a| values[t..].iter().map(move |&b| sign(a, b)));
                signs.sum::<f64>().abs()
            };
            let expected = (LEVEL_MIN..=values.len() - LEVEL_MIN).map(u).fold(0.0, f64::max);
            assert_eq!(clearest(&ranks(&values)).1, expected);
        }
    }

    #[test]
    fn where_the_one_way_gives_way_to_the_other_they_agree() {
        let mut ranks: Vec<f64> = (1..=100).map(f64::from).collect();
        for most in [700.0, 800.0, 900.0] {
            let (exact, near) = (shuffled(&mut ranks, most, 1.0), approximate(100, most));
            assert!((exact - near).abs() < 0.03 && exact <= near + 0.01, "{most}: {exact} {near}");
        }
    }

    #[test]
    fn few_and_equal_values_have_no_change() {
        assert!(changes(&[]).is_empty() && changes(&[1.0, 2.0, 3.0, 9.0, 9.0]).is_empty());
        assert!(changes(&[5.0; 1000]).is_empty());
    }
}
