//! Outliers, as hyperfine finds them, so that both say the same of the same runs. They are reported, never removed.
//!
//! The modified Z-score of Iglewicz and Hoaglin ("How to Detect and Handle Outliers", ASQC, 1993): the distance from the
//! median in units of the median absolute deviation (MAD), which outliers do not move. hyperfine calls a run an outlier
//! beyond 14.826 MADs, ten standard deviations of a normal distribution.

use super::quantile::median;
use super::sorted;

/// Beyond so many median absolute deviations.
const LIMIT: f64 = OF_MAD * 10.0;
/// Of normal values, the standard deviation is so many times the median distance from their middle.
pub const OF_MAD: f64 = 1.4826;

/// The places of the outliers in `values`, ascending.
pub fn outliers(values: &[f64]) -> Vec<usize> {
    let middle = median(&sorted(values));
    let away: Vec<f64> = values.iter().map(|v| (v - middle).abs()).collect();
    let mad = median(&sorted(&away));
    // With more than half of the values equal, any other is an outlier.
    let unit = if mad > 0.0 { mad } else { f64::EPSILON };
    (0..values.len()).filter(|&i| away[i] / unit > LIMIT).collect()
}

#[cfg(test)]
mod tests {
    use super::outliers;

    fn check(values: &[f64], expected: &[usize]) {
        assert_eq!(outliers(values), expected, "{values:?}");
    }

    #[test]
    fn far_from_the_median_in_units_of_the_usual_distance() {
        check(&[], &[]);
        check(&[50.0], &[]);
        check(&[1.0, 1000.0], &[]);
        check(&[1.0, 1.1, 0.9, 1.2, 9.0], &[4]);
        check(&[-50.0, 1.0, 1.1, 0.9, 1.2, 1.3, 9.0], &[0, 6]);
        // 1.1 - 0.1 × 14.8 is the limit.
        check(&[1.0, 1.1, 1.2, 1.1, 1.0, 1.2, 2.58], &[]);
        check(&[1.0, 1.1, 1.2, 1.1, 1.0, 1.2, 2.59], &[6]);
    }

    #[test]
    fn where_most_are_equal_any_other_is_one() {
        check(&[10.0, 10.0, 10.0, 10.0, 11.0], &[4]);
        check(&[10.0; 5], &[]);
    }
}
