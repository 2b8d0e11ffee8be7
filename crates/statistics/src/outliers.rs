//! Finds outliers with hyperfine's method, so that both report the same ones for the same runs. Outliers are never removed.
//!
//! The modified Z-score of Iglewicz and Hoaglin ("How to Detect and Handle Outliers", ASQC, 1993) is the distance from the
//! median in units of the median absolute deviation (MAD), which outliers hardly change. hyperfine calls a run an outlier
//! beyond 14.826 MADs, which is ten standard deviations of a normal distribution.

use super::quantile::median;
use super::sorted;

/// Distance of an outlier, in median absolute deviations.
const LIMIT: f64 = OF_MAD * 10.0;
/// Ratio of the standard deviation to the median absolute deviation of normal values.
pub const OF_MAD: f64 = 1.4826;

/// Indices of the outliers in `values`, ascending.
pub fn outliers(values: &[f64]) -> Vec<usize> {
    let middle = median(&sorted(values));
    let away: Vec<f64> = values.iter().map(|v| (v - middle).abs()).collect();
    let mad = median(&sorted(&away));
    // If more than half of the values are equal, the MAD is 0, and any other value is an outlier.
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
        // The limit is 1.1 - 0.1 × 14.8.
        check(&[1.0, 1.1, 1.2, 1.1, 1.0, 1.2, 2.58], &[]);
        check(&[1.0, 1.1, 1.2, 1.1, 1.0, 1.2, 2.59], &[6]);
    }

    #[test]
    fn if_most_values_are_equal_any_other_is_an_outlier() {
        check(&[10.0, 10.0, 10.0, 10.0, 11.0], &[4]);
        check(&[10.0; 5], &[]);
    }
}
