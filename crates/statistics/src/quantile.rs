//! Quantiles, and the median with an interval that assumes no distribution.
//!
//! Quantiles follow Hyndman and Fan's definition 7 ("Sample quantiles in statistical packages", The American Statistician
//! 50, 1996), as in R, NumPy and spreadsheets. The median's interval runs from one order statistic to another. Each
//! value lies below the true median with probability 1/2, so the number of those below is binomial (the sign test's interval,
//! David and Nagaraja, Order Statistics, 3rd ed., 7.1). The interval is exact for independent runs of any distribution. It is
//! too narrow for dependent runs, which [`super::order`] detects.

use super::{CONFIDENCE, Interval, normal};

/// The quantile `p` (0 to 1) of sorted values. NaN for an empty list.
pub fn quantile(sorted: &[f64], p: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let at = p.clamp(0.0, 1.0) * last as f64;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is whole, and within the list")]
    let below = at.floor() as usize;
    let above = (below + 1).min(last);
    let share = at - at.floor();
    if share == 0.0 { sorted[below] } else { sorted[below] + share * (sorted[above] - sorted[below]) }
}

/// The middle one of sorted values, or the mean of the two middle ones. NaN for an empty list.
pub fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[middle],
        _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
    }
}

/// The median with its interval. Fewer than six values allow no interval of 95 %; then it runs from the minimum to the maximum,
/// with its actual confidence. `None` for an empty list.
pub fn median_interval(sorted: &[f64]) -> Option<Interval> {
    let last = sorted.len().checked_sub(1)?;
    let (cut, confidence) = cut(sorted.len());
    Some(Interval { estimate: median(sorted), low: sorted[cut], high: sorted[last - cut], confidence })
}

/// Maximum `n` for the exact method. For larger ones, 1/2 to the power of `n` underflows, and the normal approximation is as good.
const MAX_EXACT: usize = 1000;

/// 1/2 to the power of `n`.
pub fn half_to_the(n: usize) -> f64 {
    0.5_f64.powi(i32::try_from(n).unwrap_or(i32::MAX))
}

/// Number of `n` sorted values to leave out at each end so that the rest spans the median with at least 95 % confidence, and
/// the actual confidence.
pub fn cut(n: usize) -> (usize, f64) {
    if n > MAX_EXACT {
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
    let mut widest_cut = (0, 1.0 - 2.0 * outside);
    for cut in 1..n / 2 {
        tail *= (n - cut + 1) as f64 / cut as f64;
        outside += tail;
        let confidence = 1.0 - 2.0 * outside;
        if confidence < CONFIDENCE {
            break;
        }
        widest_cut = (cut, confidence);
    }
    widest_cut
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sorted;

    #[test]
    fn quantiles_agree_with_r() {
        // R: quantile(c(1, 2, 4, 8, 16), c(0, .1, .25, .5, .9, 1))
        let values = [1.0, 2.0, 4.0, 8.0, 16.0];
        for (p, expected) in [(0.0, 1.0), (0.1, 1.4), (0.25, 2.0), (0.5, 4.0), (0.9, 12.8), (1.0, 16.0)] {
            assert!((quantile(&values, p) - expected).abs() < 1e-12, "{p}");
        }
        assert!(quantile(&[], 0.5).is_nan());
    }

    #[test]
    fn the_cut_agrees_with_the_sign_test() {
        // From tables of the binomial distribution.
        for (n, left_out, confidence) in
            [(1, 0, 0.0), (5, 0, 0.9375), (6, 0, 0.96875), (10, 1, 0.978516), (20, 5, 0.958611)]
        {
            let found = cut(n);
            assert_eq!(found.0, left_out, "{n}");
            assert!((found.1 - confidence).abs() < 1e-5, "{n}: {found:?}");
        }
        // At the border between the two methods.
        assert!(cut(1000).0.abs_diff(cut(1001).0) <= 1);
    }

    #[test]
    fn the_interval_contains_the_median_as_often_as_stated() {
        // The exponential distribution is skewed; its median is ln 2.
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
