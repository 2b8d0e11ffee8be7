//! One variant's runs in numbers.
//!
//! Mean and standard deviation (n − 1), as libguestfs' boot-benchmark means to print them; the median with its interval
//! beside them, because boot times are skewed and the mean follows its outliers.

use super::modes::{Modes, modes};
use super::order::{Order, order};
use super::outliers::outliers;
use super::quantile::{median_interval, quantile};
use super::{Interval, sorted};
use serde::{Deserialize, Serialize};

/// What the runs of one variant say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Description {
    /// How many.
    pub count: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation of the runs, with n − 1; none of a single run.
    pub sd: Option<f64>,
    /// The median and its interval.
    pub median: Interval,
    /// The least.
    pub min: f64,
    /// First quartile.
    pub lower_quartile: f64,
    /// Third quartile.
    pub upper_quartile: f64,
    /// The greatest.
    pub max: f64,
    /// Places of the outliers among the runs. They are counted in everything above.
    pub outliers: Vec<usize>,
    /// Two kinds of runs, if so.
    pub modes: Option<Modes>,
    /// Whether the order of the runs matters; with ten runs or more.
    pub order: Option<Order>,
}

/// Describes runs, in the order in which they ran. `None` without any.
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

/// The arithmetic mean. Not a number if there are none.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The standard deviation with n − 1, in two passes; `None` under two values.
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
    fn none_and_one() {
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
