//! Statistics of boot times: pure functions, each module names the source of its method in its header.
//!
//! Boot times are special. They are skewed: a disturbance of the host only ever adds time. Their noise is correlated: what
//! slows one boot slows the next. They drift, and there are few of them. So these functions avoid to assume a normal
//! distribution or independent runs. A comparison of two variants rests on the one thing that the program controls: a random
//! bit decided which boot of each pair ran first ([`pairs`]).
//!
//! Values are `f64` in any unit. Results are in the same unit unless they are ratios. Callers refuse values that are not
//! finite; for such values the functions here promise nothing.

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
pub mod student_t;
pub mod verdict;

pub mod normal;

use serde::{Deserialize, Serialize};

/// The confidence of every interval that is not said to have another.
pub const CONFIDENCE: f64 = 0.95;

/// An estimate and where the true value lies, with the confidence that was really reached: few values allow few.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Interval {
    /// The estimate.
    pub estimate: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// How often such an interval holds the true value, at least.
    pub confidence: f64,
}

impl Interval {
    /// Whether the value lies in it, ends included.
    pub fn holds(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// Whether it is as sure as is promised; that of too few values is not.
    pub fn is_sure(&self) -> bool {
        self.confidence >= CONFIDENCE - 1e-9
    }

    /// Half its width.
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
