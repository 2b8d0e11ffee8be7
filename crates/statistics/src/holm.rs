//! Holm's correction for many comparisons.
//!
//! "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6, 1979. If each of `m`
//! comparisons alone is wrong in 5 of 100 cases, at least one of them is wrong far more often. The smallest p-value is
//! multiplied by `m`, the next by `m - 1`, and so on. Then the chance of any false alarm stays at 5 %, however the
//! comparisons depend on each other (phases of one boot depend strongly).

/// Corrects p-values. Keeps their order.
pub fn corrected(p_values: &[f64]) -> Vec<f64> {
    let mut by_p: Vec<usize> = (0..p_values.len()).collect();
    by_p.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut corrected = vec![0.0; p_values.len()];
    let mut corrected_so_far: f64 = 0.0;
    for (before, &i) in by_p.iter().enumerate() {
        let remaining = (p_values.len() - before) as f64;
        corrected_so_far = corrected_so_far.max((p_values[i] * remaining).min(1.0));
        corrected[i] = corrected_so_far;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::corrected;

    #[test]
    fn as_r_does_it() {
        // R: p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm")
        let found = corrected(&[0.01, 0.04, 0.03, 0.005]);
        for (found, expected) in found.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
        assert_eq!(corrected(&[0.7, 0.8]), [1.0, 1.0]);
        assert_eq!(corrected(&[0.2]), [0.2]);
        assert!(corrected(&[]).is_empty());
    }

    #[test]
    fn false_alarms_among_many_are_as_rare_as_in_one() {
        let mut random = fastrand::Rng::with_seed(3);
        let trials = 10_000;
        let alarms = (0..trials).filter(|_| {
            let p_values: Vec<f64> = (0..12).map(|_| random.f64()).collect();
            corrected(&p_values).iter().any(|&p| p <= 0.05)
        });
        let rate = alarms.count() as f64 / f64::from(trials);
        assert!((0.04..=0.056).contains(&rate), "{rate}");
    }
}
