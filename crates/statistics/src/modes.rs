//! Tests whether the runs have two modes (a host with two speeds, a race with two outcomes).
//!
//! The test is the excess mass test of Müller and Sawitzki ("Excess mass estimates and tests for multimodality", Journal of the
//! American Statistical Association 86, 1991), whose statistic is twice Hartigan's dip. For a density `d`, the excess of an
//! interval is its share of the values minus `d` times its length. The statistic is the largest gain in excess of two
//! intervals over one, over all `d`. It assumes no shape: skew or a tail is not a second mode. Its distribution without two
//! modes is simulated with the uniform distribution, the hardest unimodal one.

use super::quantile::{median, quantile};
use super::sorted;
use serde::{Deserialize, Serialize};

/// Two modes of runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Modes {
    /// Median of the faster runs.
    pub low: f64,
    /// Number of faster runs.
    pub low_count: usize,
    /// Median of the slower runs.
    pub high: f64,
    /// Number of slower runs.
    pub high_count: usize,
    /// Middle of the gap between the two modes. Runs below it are the faster ones.
    pub border: f64,
    /// Probability of at least so clear a gap without two modes.
    pub p: f64,
}

/// Minimum number of runs for the test.
const MIN_RUNS: usize = 8;
/// Minimum number of runs in a mode. Fewer are outliers.
const MIN_MODE_RUNS: usize = 3;
/// Significance level. It is low because modes are reported on every bench without a request.
const ALPHA: f64 = 0.01;
/// Maximum number of runs. More are reduced to this number of quantiles, to bound the time.
const MAX_RUNS: usize = 400;
/// Number of densities tried, from one interval over all values to far above any real density.
const DENSITIES: i32 = 60;
const SIMULATIONS: usize = 1000;

/// The two modes of the runs, if there are two. The simulation is seeded, so the same runs give the same answer.
pub fn modes(values: &[f64]) -> Option<Modes> {
    let all = sorted(values);
    if all.len() < MIN_RUNS || all[0] >= all[all.len() - 1] {
        return None;
    }
    let thinned = thin(&all);
    let best = excess(&thinned)?;
    let border = (thinned[best.first.1] + thinned[best.second.0]) / 2.0;
    let (low, high) = all.split_at(all.partition_point(|&v| v < border));
    if low.len().min(high.len()) < MIN_MODE_RUNS {
        return None;
    }
    let p = p_value(best.gain, thinned.len())?;
    let (low_count, high_count) = (low.len(), high.len());
    Some(Modes { low: median(low), low_count, high: median(high), high_count, border, p })
}

fn thin(sorted: &[f64]) -> Vec<f64> {
    if sorted.len() <= MAX_RUNS {
        return sorted.to_vec();
    }
    (0..MAX_RUNS).map(|i| quantile(sorted, i as f64 / (MAX_RUNS - 1) as f64)).collect()
}

/// Gain in excess of two intervals over one, and the intervals (first and last index of each).
#[derive(Clone, Copy, Debug, PartialEq)]
struct Excess {
    gain: f64,
    first: (usize, usize),
    second: (usize, usize),
}

/// The largest gain of two intervals over one, over all densities. The values must not all be equal.
fn excess(sorted: &[f64]) -> Option<Excess> {
    let n = sorted.len();
    let range = sorted[n - 1] - sorted[0];
    let mut best: Option<Excess> = None;
    for step in 0..DENSITIES {
        // 1 is the density of a uniform distribution over the range.
        let density = 0.25 * 1.15_f64.powi(step) / range;
        let excess = at_density(sorted, density);
        if excess.is_some_and(|e| best.is_none_or(|b| e.gain > b.gain)) {
            best = excess;
        }
    }
    best
}

/// The excess of an interval of sorted values, and its first and last index.
type Piece = (f64, (usize, usize));

/// The best pair of disjoint intervals at one density, with its gain over the best single interval. Linear.
fn at_density(sorted: &[f64], density: f64) -> Option<Excess> {
    let n = sorted.len();
    let share = 1.0 / n as f64;
    let before = best_until(n, share, |i| density * (sorted[i] - sorted[i - 1]));
    // The same from the other end.
    let after = best_until(n, share, |i| density * (sorted[n - i] - sorted[n - 1 - i]));
    let one = before[n - 1].0;
    let (split, two) = (0..n - 1).map(|i| (i, before[i].0 + after[n - 2 - i].0)).max_by(|a, b| a.1.total_cmp(&b.1))?;
    let (from, to) = after[n - 2 - split].1;
    Some(Excess { gain: two - one, first: before[split].1, second: (n - 1 - to, n - 1 - from) })
}

/// For each index, the interval with the greatest excess that ends at or before it (Kadane's algorithm).
fn best_until(n: usize, share: f64, cost_of_gap: impl Fn(usize) -> f64) -> Vec<Piece> {
    let mut best: Piece = (share, (0, 0));
    let mut here = best;
    let mut all = vec![best];
    for i in 1..n {
        let longer = here.0 - cost_of_gap(i);
        here = if longer > 0.0 { (longer + share, (here.1.0, i)) } else { (share, (i, i)) };
        if here.0 > best.0 {
            best = here;
        }
        all.push(best);
    }
    all
}

/// Simulated probability of at least this gain without two modes. Returns `None`, early, if that is above [`ALPHA`].
fn p_value(gain: f64, n: usize) -> Option<f64> {
    let mut random = fastrand::Rng::with_seed(0x6d6f_6465);
    let mut p = 1.0 / (SIMULATIONS + 1) as f64;
    for _ in 0..SIMULATIONS {
        let values: Vec<f64> = (0..n).map(|_| random.f64()).collect();
        if excess(&sorted(&values)).is_some_and(|e| e.gain >= gain) {
            p += 1.0 / (SIMULATIONS + 1) as f64;
        }
        if p > ALPHA {
            return None;
        }
    }
    Some(p)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(random: &mut fastrand::Rng) -> f64 {
        (0..12).map(|_| random.f64()).sum::<f64>() - 6.0
    }

    #[test]
    fn the_best_intervals_agree_with_trying_all() {
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..200 {
            let n = 3 + random.usize(..8);
            let values = sorted(&(0..n).map(|_| random.f64()).collect::<Vec<_>>());
            let density = 0.2 + 6.0 * random.f64();
            let of = |a: usize, b: usize| (b - a + 1) as f64 / n as f64 - density * (values[b] - values[a]);
            let intervals: Vec<_> = (0..n).flat_map(|b| (0..=b).map(move |a| (a, b))).collect();
            let one = intervals.iter().map(|&(a, b)| of(a, b)).fold(f64::MIN, f64::max);
            let pairs =
                intervals.iter().flat_map(|&x| intervals.iter().map(move |&y| (x, y))).filter(|(x, y)| x.1 < y.0);
            let two = pairs.map(|(x, y)| of(x.0, x.1) + of(y.0, y.1)).fold(f64::MIN, f64::max);
            let found = at_density(&values, density).unwrap();
            assert!((found.gain - (two - one)).abs() < 1e-9, "{found:?}, {}", two - one);
            let again = of(found.first.0, found.first.1) + of(found.second.0, found.second.1) - one;
            assert!((found.gain - again).abs() < 1e-9 && found.first.1 < found.second.0);
        }
    }

    #[test]
    fn two_speeds_are_detected_and_described() {
        let mut random = fastrand::Rng::with_seed(6);
        let values: Vec<f64> =
            (0..30).map(|i| if i % 3 == 0 { 1.48 } else { 1.21 } + 0.02 * normal(&mut random)).collect();
        let found = modes(&values).unwrap();
        assert_eq!((found.low_count, found.high_count), (20, 10));
        assert!((found.low - 1.21).abs() < 0.02 && (found.high - 1.48).abs() < 0.02, "{found:?}");
        assert!((1.25..1.44).contains(&found.border));
        assert!(modes(&[vec![1.0; 6], vec![2.0; 6]].concat()).is_some());
    }

    #[test]
    fn a_single_mode_is_not_split() {
        assert!(modes(&[1.0; 20]).is_none());
        assert!(modes(&[1.0, 1.1, 1.2, 9.0, 9.1, 9.2, 1.3]).is_none(), "too few");
        let outlier = [1.0, 1.01, 1.02, 1.03, 1.04, 1.05, 1.06, 1.07, 1.08, 3.0];
        assert!(modes(&outlier).is_none(), "an outlier is no mode");
        let thousands: Vec<f64> = (0..3000).map(f64::from).collect();
        assert!(modes(&thousands).is_none());
    }

    #[test]
    fn skew_is_not_a_second_mode() {
        let mut random = fastrand::Rng::with_seed(7);
        let trials = 1000;
        let called = (0..trials).filter(|_| {
            let values: Vec<f64> = (0..20).map(|_| (0.4 * normal(&mut random)).exp()).collect();
            modes(&values).is_some()
        });
        let called = called.count();
        assert!(called <= 20, "{called} of {trials}");
    }

    #[test]
    fn the_excess_is_the_greatest_over_all_densities() {
        // One interval holds all values or half of them: two intervals gain the density, and at most a half.
        let halves = [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0];
        assert_eq!(excess(&halves).unwrap(), Excess { gain: 0.5, first: (0, 3), second: (4, 7) });
        let found = excess(&[0.0, 0.1, 0.2, 0.3, 0.9, 1.0]).unwrap();
        let densities = (0..DENSITIES).map(|step| 0.25 * 1.15_f64.powi(step));
        let gains = densities.map(|density| at_density(&[0.0, 0.1, 0.2, 0.3, 0.9, 1.0], density).unwrap().gain);
        assert_eq!(found.gain, gains.fold(f64::MIN, f64::max));
    }
}
