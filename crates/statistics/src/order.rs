//! Tests whether the order of the runs matters: drift, correlated noise of the host, warming up.
//!
//! The test is Bartels' rank version of von Neumann's ratio ("The rank version of von Neumann's ratio test for randomness",
//! Journal of the American Statistical Association 77, 1982). It measures the distance between the ranks of successive runs.
//! Runs in random order give about 2; runs that resemble the one before give less, whether they drift or share noise. The
//! normal approximation is used from ten runs on, where Bartels found it good.

use super::normal;
use serde::{Deserialize, Serialize};

/// Result of the test of order.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Order {
    /// Bartels' ratio: about 2 for independent runs, near 0 for runs that drift.
    pub ratio: f64,
    /// The probability of a ratio this small if the order did not matter.
    pub p: f64,
}

/// Minimum number of runs for the test.
const MIN_RUNS: usize = 10;

/// Tests the order of the runs. Returns `None` for fewer than ten runs, or if all are equal.
pub fn order(values: &[f64]) -> Option<Order> {
    let n = values.len();
    if n < MIN_RUNS {
        return None;
    }
    let ranks = ranks(values);
    let mean = (n as f64 + 1.0) / 2.0;
    let around: f64 = ranks.iter().map(|r| (r - mean).powi(2)).sum();
    if around == 0.0 {
        return None;
    }
    let steps: f64 = ranks.windows(2).map(|w| (w[1] - w[0]).powi(2)).sum();
    let ratio = steps / around;
    let count = n as f64;
    let variance = 4.0 * (count - 2.0) * (5.0 * count * count - 2.0 * count - 9.0)
        / (5.0 * count * (count + 1.0) * (count - 1.0) * (count - 1.0));
    Some(Order { ratio, p: normal::below((ratio - 2.0) / variance.sqrt()) })
}

/// Rank of each value, from 1. Equal values share the mean of their ranks.
pub(super) fn ranks(values: &[f64]) -> Vec<f64> {
    let mut by_value: Vec<usize> = (0..values.len()).collect();
    by_value.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut first = 0;
    while first < by_value.len() {
        let equal = by_value[first..].iter().take_while(|&&i| values[i] == values[by_value[first]]).count();
        let rank = first as f64 + (equal as f64 + 1.0) / 2.0;
        by_value[first..first + equal].iter().for_each(|&i| ranks[i] = rank);
        first += equal;
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_share_their_ranks() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 2.0]), [3.5, 1.0, 3.5, 2.0]);
        assert_eq!(ranks(&[]), [] as [f64; 0]);
    }

    #[test]
    fn drift_is_detected() {
        let rising: Vec<f64> = (0..10).map(f64::from).collect();
        let found = order(&rising).unwrap();
        // Nine steps of one rank; the squares about the mean sum to 82.5.
        assert!((found.ratio - 9.0 / 82.5).abs() < 1e-12);
        assert!(found.p < 0.001, "{found:?}");
        assert!(order(&rising[..9]).is_none());
        assert!(order(&[1.0; 20]).is_none());
    }

    #[test]
    fn independent_runs_are_called_ordered_as_often_as_stated() {
        let mut random = fastrand::Rng::with_seed(2);
        for n in [10, 30] {
            let trials = 4000;
            let called = (0..trials).filter(|_| {
                let values: Vec<f64> = (0..n).map(|_| random.f64()).collect();
                order(&values).unwrap().p < 0.05
            });
            let rate = called.count() as f64 / f64::from(trials);
            assert!((rate - 0.05).abs() < 0.012, "{n}: {rate}");
        }
    }
}
