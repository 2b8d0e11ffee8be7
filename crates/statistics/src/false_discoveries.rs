//! Benjamini and Hochberg's correction for many comparisons of which several are expected to differ.
//!
//! "Controlling the false discovery rate: a practical and powerful approach to multiple testing", Journal of the Royal Statistical
//! Society B 57, 1995. At 5 %, on average at most 5 of 100 reported comparisons are false. If nothing differs, 5 % is the chance
//! of any false alarm, as with [`crate::holm`]. If many comparisons differ, each needs less evidence than with Holm's
//! correction. This holds for comparisons that are independent or positively dependent (Benjamini and Yekutieli, Annals of
//! Statistics 29, 2001); the tests simulate dependent ones.

/// Corrects p-values; report those of at most 0.05. Keeps their order. O(n log n).
pub fn corrected(p_values: &[f64]) -> Vec<f64> {
    let mut by_p: Vec<usize> = (0..p_values.len()).collect();
    by_p.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut corrected = vec![0.0; p_values.len()];
    let mut corrected_so_far: f64 = 1.0;
    for (before, &i) in by_p.iter().enumerate().rev() {
        corrected_so_far = corrected_so_far.min(p_values[i] * p_values.len() as f64 / (before + 1) as f64);
        corrected[i] = corrected_so_far;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::corrected;
    use crate::normal::below;

    #[test]
    fn as_r_does_it() {
        // R: p.adjust(c(0.01, 0.04, 0.03, 0.005), "BH")
        let found = corrected(&[0.01, 0.04, 0.03, 0.005]);
        for (found, expected) in found.iter().zip([0.02, 0.04, 0.04, 0.02]) {
            assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
        assert_eq!(corrected(&[0.7, 0.8]), [0.8, 0.8]);
        assert_eq!(corrected(&[0.2]), [0.2]);
        assert!(corrected(&[]).is_empty());
    }

    /// The mean share of false ones among the reported comparisons, and the mean share of real differences that are reported.
    /// `real` of 200 comparisons differ by 4 standard deviations, and all share the part `common` of their noise.
    fn shares(real: usize, common: f64) -> (f64, f64) {
        let mut random = fastrand::Rng::with_seed(3);
        // Box and Muller, 1958: exact in the tail, which matters here.
        let mut normal = || (-2.0 * (1.0 - random.f64()).ln()).sqrt() * (std::f64::consts::TAU * random.f64()).cos();
        let (mut false_share, mut power, trials) = (0.0, 0.0, 2000);
        for _ in 0..trials {
            let shared = common.sqrt() * normal();
            let z = |i: usize, own: f64| shared + (1.0 - common).sqrt() * own + if i < real { 4.0 } else { 0.0 };
            let p_values: Vec<f64> = (0..200).map(|i| below(-z(i, normal()))).collect();
            let kept: Vec<usize> =
                (0..200).zip(corrected(&p_values)).filter(|(_, p)| *p <= 0.05).map(|(i, _)| i).collect();
            let wrong = kept.iter().filter(|&&i| i >= real).count();
            false_share += wrong as f64 / kept.len().max(1) as f64;
            power += (kept.len() - wrong) as f64 / real.max(1) as f64;
        }
        (false_share / f64::from(trials), power / f64::from(trials))
    }

    #[test]
    fn at_most_one_in_twenty_reported_ones_is_false() {
        for common in [0.0, 0.5] {
            for real in [0, 5, 50] {
                let (false_share, power) = shares(real, common);
                assert!(false_share <= 0.056, "{real} {common}: {false_share}");
                assert!(real < 50 || power > 0.9, "{real} {common}: {power}");
            }
        }
    }
}
