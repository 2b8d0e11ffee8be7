//! Quantiles, and the median with an interval that no distribution is assumed for.
//!
//! Quantiles are Hyndman and Fan's definition 7 ("Sample quantiles in statistical packages", The American Statistician
//! 50, 1996), the one of R, NumPy and spreadsheets. The median's interval runs from one order statistic to another: each
//! value lies below the true median with probability 1/2, so how many do is binomial (the sign test's interval, David
//! and Nagaraja, Order Statistics, 3rd ed., 7.1). It is exact for independent runs of any distribution. Runs that are
//! not independent make it too narrow; [`super::order`] tells.

use super::{CONFIDENCE, Interval, normal};

/// The quantile `p` (0 to 1) of sorted values. Not a number if there are none.
pub fn quantile(sorted: &[f64], p: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let at = p.clamp(0.0, 1.0) * last as f64;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is whole, and within the list")]
    let below = at.floor() as usize;
    let above = (below + 1).min(last);
    let share = at - at.floor();
    if share == 0.0 { sorted[below] } else { sorted[below] + share * (sorted[above] - sorted[below]) }
}

/// The middle of sorted values, or the mean of the two middle ones.
pub fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[middle],
        _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
    }
}

/// The median and its interval. Under six values there is no interval of 95 %: it is then from the least to the greatest,
/// with the confidence that this has. `None` without values.
pub fn median_interval(sorted: &[f64]) -> Option<Interval> {
    let last = sorted.len().checked_sub(1)?;
    let (cut, confidence) = cut(sorted.len());
    Some(Interval { estimate: median(sorted), low: sorted[cut], high: sorted[last - cut], confidence })
}

/// From here on 1/2 to the power of `n` is no number any more, and the normal distribution is as good.
const EXACT_MOST: usize = 1000;

/// 1/2 to the power of `n`.
pub fn half_to_the(n: usize) -> f64 {
    0.5_f64.powi(i32::try_from(n).unwrap_or(i32::MAX))
}

/// How many of `n` sorted values to leave out at each end so that the rest spans the median with at least 95 %
/// confidence, and what that confidence is.
pub fn cut(n: usize) -> (usize, f64) {
    if n > EXACT_MOST {
        let half = n as f64 / 2.0;
        let cut =
            (half - normal::quantile(0.5 + CONFIDENCE / 2.0) * half.sqrt() / std::f64::consts::SQRT_2 - 0.5).floor();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is whole, not negative, and less than half of n"
        )]
        return (cut as usize, CONFIDENCE);
    }
    let mut tail = half_to_the(n);
    let mut outside = tail;
    let mut found = (0, 1.0 - 2.0 * outside);
    for cut in 1..n / 2 {
        tail *= (n - cut + 1) as f64 / cut as f64;
        outside += tail;
        let confidence = 1.0 - 2.0 * outside;
        if confidence < CONFIDENCE {
            break;
        }
        found = (cut, confidence);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sorted;

    #[test]
    fn quantiles_are_those_of_r() {
        // R: quantile(c(1, 2, 4, 8, 16), c(0, .1, .25, .5, .9, 1))
        let values = [1.0, 2.0, 4.0, 8.0, 16.0];
        for (p, expected) in [(0.0, 1.0), (0.1, 1.4), (0.25, 2.0), (0.5, 4.0), (0.9, 12.8), (1.0, 16.0)] {
            assert!((quantile(&values, p) - expected).abs() < 1e-12, "{p}");
        }
        assert!(quantile(&[], 0.5).is_nan());
    }

    #[test]
    fn the_cut_is_that_of_the_sign_test() {
        // From tables of the binomial distribution.
        for (n, left_out, confidence) in
            [(1, 0, 0.0), (5, 0, 0.9375), (6, 0, 0.96875), (10, 1, 0.978516), (20, 5, 0.958611)]
        {
            let found = cut(n);
            assert_eq!(found.0, left_out, "{n}");
            assert!((found.1 - confidence).abs() < 1e-5, "{n}: {found:?}");
        }
        // Where the one method gives way to the other.
        assert!(cut(1000).0.abs_diff(cut(1001).0) <= 1);
    }

    #[test]
    fn the_interval_holds_the_median_as_often_as_it_says() {
        // Skewed: the exponential distribution, whose median is ln 2.
        let mut random = fastrand::Rng::with_seed(1);
        for n in [6, 10, 21] {
            let trials = 4000;
            let held = (0..trials).filter(|_| {
                let values: Vec<f64> = (0..n).map(|_| -(1.0 - random.f64()).ln()).collect();
                median_interval(&sorted(&values)).unwrap().holds(std::f64::consts::LN_2)
            });
            let (rate, stated) = (held.count() as f64 / f64::from(trials), cut(n).1);
            // Three standard errors.
            assert!((rate - stated).abs() < 0.011, "{n}: {rate}, stated {stated}");
        }
    }
}
