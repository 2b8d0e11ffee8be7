//! Finds the places where a series of measurements changed its level, such as the first of the slower benches.
//!
//! Pettitt's test ("A non-parametric approach to the change-point problem", Applied Statistics 28, 1979) checks whether the
//! ranks of a series are higher after some place than before it. It assumes no distribution, and an outlier counts only by its
//! rank. The place with the largest difference is the change. The parts before and after it are tested again (binary
//! segmentation: Scott and Knott, Biometrics 30, 1974; Vostrikova, Soviet Mathematics Doklady 24, 1981) until no change is
//! found. The probability is Pettitt's approximation. That is conservative for short series, so those are also tested by
//! random permutations.
//!
//! Values must be independent except for the changes. Noise of the host that lasts for several benches is reported as a change,
//! too, because the series alone does not distinguish the two.

use super::order::ranks;
use super::quantile::median;
use super::sorted;
use serde::{Deserialize, Serialize};

/// A change of level.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Change {
    /// Index of the first value of the new level.
    pub at: usize,
    /// Median of the values since the previous change.
    pub before: f64,
    /// Median of the values until the next change.
    pub after: f64,
    /// Probability of at least so clear a change by chance.
    pub p: f64,
}

/// Significance level. It is low because changes are reported without a request.
pub const ALPHA: f64 = 0.01;
/// Minimum number of values in a level. Fewer are outliers.
const MIN_LEVEL: usize = 3;
/// Minimum number of values in a window that is tested alone.
const MIN_WINDOW: usize = 16;
/// Maximum number of values for permutations. For longer series the approximation is close.
const MAX_SHUFFLED: usize = 100;
const SHUFFLES: usize = 1999;
/// Number of passes that refine the places, because each depends on its neighbours'.
const REFINEMENTS: usize = 3;
/// Maximum number of changes. A series with more does not consist of levels.
const MAX_CHANGES: usize = 100;

/// The changes of level, in order. Quasi-linear in the number of values for each change that is found. Permutations are
/// seeded, so the same values give the same answer.
pub fn changes(values: &[f64]) -> Vec<Change> {
    let mut found: Vec<(usize, f64)> = Vec::new();
    let mut open = vec![(0, values.len())];
    while let Some((from, to)) = open.pop() {
        if let Some((at, p)) = change(&values[from..to]) {
            found.push((from + at, p));
            open.extend([(from, from + at), (from + at, to)]);
        }
        if found.len() == MAX_CHANGES {
            break;
        }
    }
    found.sort_by_key(|&(at, _)| at);
    for _ in 0..REFINEMENTS {
        refine(values, &mut found);
    }
    let ends: Vec<usize> = found.iter().map(|&(at, _)| at).chain([values.len()]).collect();
    let level = |from: usize, to: usize| median(&sorted(&values[from..to]));
    let mut from = 0;
    let mut changes = Vec::new();
    for (i, (at, p)) in found.into_iter().enumerate() {
        changes.push(Change { at, before: level(from, at), after: level(at, ends[i + 1]), p });
        from = at;
    }
    changes
}

/// Tests each change again between its neighbours, which were not known when it was found. This may move or remove it.
fn refine(values: &[f64], found: &mut Vec<(usize, f64)>) {
    let mut i = 0;
    while i < found.len() {
        let from = if i == 0 { 0 } else { found[i - 1].0 };
        let to = found.get(i + 1).map_or(values.len(), |next| next.0);
        match clearest_significant(&values[from..to], ALPHA) {
            Some((at, _)) => {
                found[i].0 = from + at;
                i += 1;
            }
            None => drop(found.remove(i)),
        }
    }
}

/// A significant change of a series, with its p-value, if there is one. First the whole series is tested, then windows of a
/// half, a quarter and an eighth, each overlapping its neighbours by half. The windows find temporary levels, which do not
/// show in the whole series (seeded binary segmentation: Kovács and others, Biometrika 110, 2023). The p-value is multiplied
/// by the number of windows of that length and by the number of lengths (Bonferroni).
fn change(values: &[f64]) -> Option<(usize, f64)> {
    if values.len() < 2 * MIN_LEVEL {
        return None;
    }
    let lengths: Vec<usize> =
        (0..4).map(|halved| values.len() >> halved).filter(|&n| n >= MIN_WINDOW || n == values.len()).collect();
    lengths.iter().find_map(|&length| {
        let step = (length / 2).max(1);
        let last = values.len() - length;
        let starts: Vec<usize> = (0..last).step_by(step).chain([last]).collect();
        let tests = (starts.len() * lengths.len()) as f64;
        let found = starts.iter().filter_map(|&start| {
            let (at, p) = clearest_significant(&values[start..start + length], ALPHA / tests)?;
            Some((start + at, p * tests))
        });
        found.min_by(|a, b| a.1.total_cmp(&b.1))
    })
}

/// The clearest change of one window, if it is significant.
fn clearest_significant(values: &[f64], alpha: f64) -> Option<(usize, f64)> {
    let mut ranks = ranks(values);
    let (at, most) = clearest(&ranks);
    if most == 0.0 {
        return None;
    }
    // The approximation is conservative, so permutations are needed only if it is not significant.
    let mut p = approximate(ranks.len(), most);
    if p > alpha && ranks.len() <= MAX_SHUFFLED {
        p = shuffled(&mut ranks, most, alpha);
    }
    (p <= alpha).then_some((at, p))
}

/// Place and value of Pettitt's statistic, the largest difference of rank sums.
fn clearest(ranks: &[f64]) -> (usize, f64) {
    let n = ranks.len() as f64;
    let (mut sum, mut at, mut most) = (0.0, 0, 0.0);
    for (before, rank) in (1..).zip(ranks).take(ranks.len() - MIN_LEVEL) {
        sum += rank;
        let far = f64::abs(2.0 * sum - before as f64 * (n + 1.0));
        if before >= MIN_LEVEL && far > most {
            (at, most) = (before, far);
        }
    }
    (at, most)
}

/// Share of permutations with at least as clear a change. Returns 1, early, if the share must exceed `alpha`.
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

    /// Skewed noise of a few per cent, and sometimes a boot that takes half as long again.
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
            // 1 % of 500 is 5, standard deviation 2.2; the approximation is conservative.
            assert!(alarms <= 12, "{n}: {alarms} of {trials}");
        }
    }

    #[test]
    fn the_levels_are_reported() {
        let values: Vec<f64> = [vec![10.0; 9], vec![12.0; 9], vec![11.0; 9]].concat();
        let found = changes(&values);
        let levels: Vec<_> = found.iter().map(|c| (c.at, c.before, c.after)).collect();
        assert_eq!(levels, [(9, 10.0, 12.0), (18, 12.0, 11.0)]);
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
            let expected = (MIN_LEVEL..=values.len() - MIN_LEVEL).map(u).fold(0.0, f64::max);
            assert_eq!(clearest(&ranks(&values)).1, expected);
        }
    }

    #[test]
    fn permutations_and_approximation_agree_at_their_border() {
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

    #[test]
    fn a_change_as_rare_as_the_limit_is_reported() {
        let ranks = ranks(&[1.0, 2.0, 4.0, 3.0, 5.0, 7.0, 6.0, 9.0, 8.0, 10.0]);
        let most = clearest(&ranks).1;
        let p = shuffled(&mut ranks.clone(), most, 1.0);
        assert!(p < 0.1, "{p}");
        assert_eq!(shuffled(&mut ranks.clone(), most, p), p);
        assert_eq!(shuffled(&mut ranks.clone(), most, p - 1e-6), 1.0);
    }
}
