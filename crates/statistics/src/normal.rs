//! The normal distribution, for samples that are too large for exact distributions.

/// Probability of a standard normal value of at most `z`.
pub fn below(z: f64) -> f64 {
    0.5 * libm::erfc(-z / std::f64::consts::SQRT_2)
}

/// The value that a standard normal variable does not exceed with probability `p`. Found by bisection, exact to 1e-12; callers do
/// not need speed.
pub fn quantile(p: f64) -> f64 {
    let (mut low, mut high) = (-40.0, 40.0);
    while high - low > 1e-12 {
        let middle = (low + high) / 2.0;
        if below(middle) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_in_the_tables() {
        for (p, z) in [(0.5, 0.0), (0.975, 1.959_963_985), (0.9, 1.281_551_566), (0.005, -2.575_829_304)] {
            assert!((quantile(p) - z).abs() < 1e-8, "{p}");
            assert!((below(z) - p).abs() < 1e-9, "{z}");
        }
    }
}
