//! Compares two variants by pairs of boots in random order.
//!
//! Two boots of a pair run one after the other, and a random bit decides which variant is first. If the change has no effect,
//! that bit alone decided which variant got which of the two times. So every difference was equally likely to have the other
//! sign, with any distribution, drift or noise of the host (randomisation inference: Fisher, The Design of Experiments, 1935,
//! III; Edgington and Onghena, Randomization Tests, 4th ed.). A test of signs therefore keeps its stated rate without
//! assumptions about noise.
//!
//! The test is Wilcoxon's signed-rank test ([`super::signed_rank`]), exact and without random numbers. A simulation led to this
//! choice (`crates/benchmark/tests/integration/choice.rs`). With ten pairs it has the power of the paired t test. If the host
//! drifts, it finds a change of 10 % twice as often as tests without pairs. Those find more only if the boot itself is the
//! only source of noise.
//!
//! The intervals come from the same test, so they exclude "no difference" exactly when the test is significant. The interval
//! of the difference is cut from the means of two differences, `((b_i - a_i) + (b_j - a_j)) / 2`. For the ratio `r`, the test
//! of `b - r a` changes sign at `r = (b_i + b_j) / (a_i + a_j)` (Walsh averages, in Fieller's way). The estimates are the
//! medians of these values (Hodges and Lehmann 1963).

use super::power;
use super::quantile::median;
use super::signed_rank::SignedRank;
use super::verdict::{Ask, Basis, Change, Comparison, judge};
use super::{Interval, sorted};

/// Compares the second variant with the first; `first[i]` and `second[i]` are a pair. Returns `None` if there are no pairs.
///
/// The cost is quadratic in the number of pairs. [`forecast`] adds the minimum detectable difference.
pub fn compare(first: &[f64], second: &[f64], ask: &Ask) -> Option<Comparison> {
    let mut alone = [estimate(first, second, ask)?];
    judge(&mut alone, ask);
    let [comparison] = alone;
    Some(comparison)
}

/// Adds the minimum detectable difference of these pairs, and the number of pairs that would show the margin. Takes about
/// 50 ms.
pub fn forecast(comparison: &mut Comparison, first: &[f64], second: &[f64], ask: &Ask) {
    let spread = comparison.ratio.and_then(|ratio| power::spread(first, second, ratio.estimate));
    let Some(spread) = spread else { return };
    comparison.shown_from = power::shown_from(&spread, first.len(), ask);
    comparison.pairs_for_margin = power::pairs_needed(&spread, ask.margin, ask);
}

/// Like [`compare`], but without the verdict, which [`judge`] gives to several comparisons together.
pub fn estimate(first: &[f64], second: &[f64], ask: &Ask) -> Option<Comparison> {
    let n = first.len().min(second.len());
    if n == 0 {
        return None;
    }
    let (first, second) = (&first[..n], &second[..n]);
    let null = SignedRank::new(n);
    let differences = walsh(n, |i, j| ((second[i] - first[i]) + (second[j] - first[j])) / 2.0);
    let ratio = first.iter().all(|&a| a > 0.0).then(|| {
        let ratios = walsh(n, |i, j| (second[i] + second[j]) / (first[i] + first[j]));
        interval(&ratios, &null, ask)
    });
    Some(Comparison {
        basis: Basis::Pairs(n),
        difference: interval(&differences, &null, ask),
        ratio,
        p: Some(null.p(against(&differences))),
        p_corrected: None,
        p_least: null.p(0),
        shown_from: None,
        pairs_for_margin: None,
        change: Change::TooFew,
    })
}

/// The values of `function` for all pairs of indices with `j <= i`, sorted.
fn walsh(n: usize, function: impl Fn(usize, usize) -> f64) -> Vec<f64> {
    let mut all = Vec::with_capacity(n * (n + 1) / 2);
    for i in 0..n {
        all.extend((0..=i).map(|j| function(i, j)));
    }
    sorted(&all)
}

fn interval(sorted: &[f64], null: &SignedRank, ask: &Ask) -> Interval {
    let (cut, confidence) = null.cut(ask.alpha());
    Interval { estimate: median(sorted), low: sorted[cut], high: sorted[sorted.len() - 1 - cut], confidence }
}

/// Number of the sorted means that have the rarer sign or are 0.
fn against(sorted: &[f64]) -> usize {
    let negative = sorted.partition_point(|&d| d < 0.0);
    let not_positive = sorted.partition_point(|&d| d <= 0.0);
    let positive = sorted.len() - not_positive;
    negative.min(positive) + (not_positive - negative)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R: wilcox.test(second, first, paired = TRUE, conf.int = TRUE) on Hollander and Wolfe's depression scores (3.1).
    #[test]
    #[allow(clippy::approx_constant)] // a score of 3.14
    fn as_r_does_it() {
        let first = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30];
        let second = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29];
        let found = compare(&first, &second, &Ask::default()).unwrap();
        // V = 5, p = 0.03906, pseudomedian -0.46, interval -0.786 to -0.010.
        assert!((found.p.unwrap() - 0.039_062_5).abs() < 1e-9, "{found:?}");
        assert!((found.difference.estimate + 0.46).abs() < 1e-9);
        assert!((found.difference.low + 0.786).abs() < 1e-9 && (found.difference.high + 0.010).abs() < 1e-9);
        assert_eq!(found.change, Change::Less);
        assert!(found.ratio.unwrap().high < 1.0);
    }

    #[test]
    fn interval_and_verdict_never_contradict_each_other() {
        let mut random = fastrand::Rng::with_seed(8);
        for _ in 0..2000 {
            let n = 1 + random.usize(..15);
            // Coarse values, so that there are ties.
            let mut draw = || (0..n).map(|_| 1.0 + (random.f64() * 8.0).floor() / 4.0).collect::<Vec<f64>>();
            let (first, second) = (draw(), draw());
            let found = compare(&first, &second, &Ask::default()).unwrap();
            let ratio = found.ratio.unwrap();
            let significant = found.p.unwrap() <= 0.05;
            assert_eq!(significant, n >= 6 && !found.difference.holds(0.0), "{found:?}");
            assert_eq!(significant, n >= 6 && !ratio.holds(1.0), "{found:?}");
            assert_eq!(found.change == Change::TooFew, n < 6);
        }
    }

    #[test]
    fn fewer_than_six_pairs_are_always_too_few() {
        for pairs in 1..6 {
            let found = compare(&[1.0; 5][..pairs], &[100.0; 5][..pairs], &Ask::default()).unwrap();
            assert_eq!(found.change, Change::TooFew);
        }
        let found = compare(&[1.0; 6], &[1.1, 1.2, 1.3, 1.4, 1.5, 1.6], &Ask::default()).unwrap();
        assert_eq!(found.change, Change::More);
        assert_eq!(compare(&[], &[], &Ask::default()), None);
    }

    #[test]
    fn equal_runs_are_no_difference() {
        let found = compare(&[2.0; 8], &[2.0; 8], &Ask::default()).unwrap();
        assert_eq!((found.change, found.p), (Change::NoDifference, Some(1.0)));
        let without_ratio = compare(&[0.0; 8], &[0.0; 8], &Ask::default()).unwrap();
        assert_eq!((without_ratio.change, without_ratio.ratio), (Change::NoDifference, None));
    }
}
