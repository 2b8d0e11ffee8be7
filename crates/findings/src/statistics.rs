//! What detectors reckon with: how likely chance is.

/// How likely at least `least` of `count` happen, each by itself with probability `each`.
pub fn at_least(least: usize, count: usize, each: f64) -> f64 {
    if least == 0 || each >= 1.0 {
        return 1.0;
    }
    if least > count || each <= 0.0 {
        return 0.0;
    }
    // In logarithms: a binomial coefficient of some thousands overflows.
    let (mut log_choose, mut sum) = (0.0_f64, 0.0_f64);
    for i in 0..=count {
        if i >= least {
            sum += (log_choose + i as f64 * each.ln() + (count - i) as f64 * (-each).ln_1p()).exp();
        }
        log_choose += ((count - i) as f64).ln() - ((i + 1) as f64).ln();
    }
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_binomial_tail_is_summed() {
        let close = |a: f64, b: f64| assert!((a - b).abs() <= 1e-12 * b.max(1e-3), "{a} {b}");
        close(at_least(3, 3, 1.0 / 40.0), 1.0 / 64_000.0);
        close(at_least(1, 4, 0.5), 15.0 / 16.0);
        close(at_least(0, 4, 0.5), 1.0);
        close(at_least(5, 4, 0.5), 0.0);
        close(at_least(1, 1, 0.0), 0.0);
        assert!((at_least(5_000, 10_000, 0.5) - 0.503_989).abs() < 1e-5, "{}", at_least(5_000, 10_000, 0.5));
    }
}
