//! Statistics of boot times. All functions are pure. Each module's header cites the source of its method.
//!
//! Boot times are special. They are skewed: a disturbance of the host only adds time. Their noise is correlated: what
//! slows one boot slows the next. They drift, and there are few of them. So these functions avoid assuming a normal
//! distribution or independent runs. A comparison of two variants relies only on the random bit that decided which boot of
//! each pair ran first ([`pairs`]).
//!
//! Values are `f64` in any unit. Results are in the same unit unless they are ratios. Callers must refuse values that are not
//! finite; the results for such values are unspecified.

pub mod changes;
pub mod describe;
pub mod dithered;
pub mod false_discoveries;
pub mod holm;
pub mod levels;
pub mod max_t;
pub mod modes;
pub mod order;
pub mod outliers;
pub mod pairs;
pub mod power;
pub mod quantile;
pub mod rank_sum;
pub mod scaling_model;
pub mod signed_rank;
pub mod steps;
pub mod student_t;
pub mod verdict;

pub mod normal;

use serde::{Deserialize, Serialize};

/// Confidence of every interval, unless its documentation says otherwise.
pub const CONFIDENCE: f64 = 0.95;

/// An estimate with its interval. With few values the confidence is lower than 95 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Interval {
    /// The estimated value.
    pub estimate: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Minimum probability that such an interval contains the true value.
    pub confidence: f64,
}

impl Interval {
    /// True if the value lies in the interval, ends included.
    pub fn holds(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// True if the confidence is at least [`CONFIDENCE`], which too few values do not reach.
    pub fn is_sure(&self) -> bool {
        self.confidence >= CONFIDENCE - 1e-9
    }

    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }
}

/// The values in ascending order.
pub fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_reaches_its_half_width_from_the_middle() {
        let interval = Interval { estimate: 7.0, low: 4.0, high: 12.0, confidence: CONFIDENCE };
        assert_eq!(interval.half_width(), 4.0);
        assert_eq!([3.9, 4.0, 12.0, 12.1].map(|value| interval.holds(value)), [false, true, true, false]);
        assert!(interval.is_sure() && !Interval { confidence: 0.9, ..interval }.is_sure());
    }
}
