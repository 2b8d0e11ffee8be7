//! Summary statistics of one variant's runs.
//!
//! Mean and standard deviation (n − 1) are those that libguestfs' boot-benchmark intends to print. The median with its interval
//! is added, because boot times are skewed and outliers pull the mean.

use super::modes::{Modes, modes};
use super::order::{Order, order};
use super::outliers::outliers;
use super::quantile::{median_interval, quantile};
use super::{Interval, sorted};
use serde::{Deserialize, Serialize};

/// Summary of one variant's runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Description {
    /// Number of runs.
    pub count: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation of the runs, with n − 1. Null for a single run.
    pub sd: Option<f64>,
    /// Median with its interval.
    pub median: Interval,
    /// Minimum.
    pub min: f64,
    /// First quartile.
    pub lower_quartile: f64,
    /// Third quartile.
    pub upper_quartile: f64,
    /// Maximum.
    pub max: f64,
    /// Indices of the outliers among the runs. All figures above include them.
    pub outliers: Vec<usize>,
    /// The two modes, if the runs have two.
    pub modes: Option<Modes>,
    /// Test of the order of the runs. Null for fewer than ten runs.
    pub order: Option<Order>,
}

/// Summarizes runs, which are given in the order in which they ran. Returns `None` if there are no runs.
pub fn describe(values: &[f64]) -> Option<Description> {
    let all = sorted(values);
    let median = median_interval(&all)?;
    let mean = mean(values);
    Some(Description {
        count: values.len(),
        mean,
        sd: sd(values),
        median,
        min: all[0],
        lower_quartile: quantile(&all, 0.25),
        upper_quartile: quantile(&all, 0.75),
        max: all[all.len() - 1],
        outliers: outliers(values),
        modes: modes(values),
        order: order(values),
    })
}

/// Arithmetic mean. NaN for an empty list.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Standard deviation with n − 1, computed in two passes. `None` for fewer than two values.
pub fn sd(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let mean = mean(values);
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hand_made_example() {
        let found = describe(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert_eq!((found.count, found.mean, found.median.estimate), (8, 5.0, 4.5));
        assert!((found.sd.unwrap() - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!((found.min, found.lower_quartile, found.upper_quartile, found.max), (2.0, 4.0, 5.5, 9.0));
        assert!(found.order.is_none() && found.outliers.is_empty());
    }

    #[test]
    fn no_run_and_one_run() {
        assert_eq!(describe(&[]), None);
        let one = describe(&[7.0]).unwrap();
        assert_eq!((one.mean, one.sd, one.median.low, one.median.confidence), (7.0, None, 7.0, 0.0));
    }

    #[test]
    fn a_small_spread_far_from_zero_is_kept() {
        let values = [1e12 + 1.0, 1e12 + 2.0, 1e12 + 3.0];
        assert!((sd(&values).unwrap() - 1.0).abs() < 1e-9);
    }
}
