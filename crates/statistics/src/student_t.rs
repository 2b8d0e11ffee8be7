//! Student's t distribution: p-values and quantiles for means whose scatter is itself estimated.
//!
//! The tail is a regularised incomplete beta function (Abramowitz & Stegun 26.7.1). It is computed by its continued fraction
//! (26.5.8) with Lentz's method ("Generating Bessel functions in Mie scattering calculations", Applied Optics 15, 1976).

use crate::CONFIDENCE;

/// Maximum number of terms of the fraction. It is exact to rounding after a few tens.
const MAX_TERMS: usize = 500;
const ROUNDING: f64 = 1e-15;
/// Replaces a zero in a denominator.
const TINY: f64 = 1e-300;

/// Probability of a value at least as far from 0 as `t`, on either side. 1 if there are no degrees of freedom.
pub fn two_sided(t: f64, freedom: f64) -> f64 {
    if freedom <= 0.0 || t == 0.0 {
        return 1.0;
    }
    beta(freedom / 2.0, 0.5, freedom / (freedom + t * t))
}

/// Half the width of a 95 % interval, in standard errors. Infinite if there are no degrees of freedom.
pub fn half_width(freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1e4);
    if two_sided(high, freedom) > 1.0 - CONFIDENCE {
        return f64::INFINITY;
    }
    while high - low > 1e-9 {
        let middle = (low + high) / 2.0;
        if two_sided(middle, freedom) > 1.0 - CONFIDENCE {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// Regularised incomplete beta function of `x`. Values of `x` outside 0 to 1 are clamped.
fn beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    // The fraction converges quickly below the mean. Above it, use the symmetry of the function.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - beta(b, a, 1.0 - x);
    }
    let front = libm::lgamma(a + b) - libm::lgamma(a) - libm::lgamma(b) + a * x.ln() + b * libm::log1p(-x) - a.ln();
    (front.exp() * fraction(a, b, x)).min(1.0)
}

fn fraction(a: f64, b: f64, x: f64) -> f64 {
    let not_zero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / not_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut value = d;
    for term in 1..MAX_TERMS {
        let m = term as f64;
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut step = 1.0;
        for part in [even, odd] {
            d = 1.0 / not_zero(1.0 + part * d);
            c = not_zero(1.0 + part / c);
            step = d * c;
            value *= step;
        }
        if (step - 1.0).abs() < ROUNDING {
            break;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_agrees_with_the_integrated_density() {
        // The density integrated from t on in 400 000 steps; the first two values are also in every table.
        let known = [
            (2.228_138_852, 10.0, 0.05),
            (12.706_204_74, 1.0, 0.05),
            (1.0, 5.0, 0.363_217_468),
            (6.0, 88.0, 4.291_484_58e-8),
            (0.1, 3.0, 0.926_652_349),
        ];
        for (t, freedom, p) in known {
            let found = two_sided(t, freedom);
            assert!((found / p - 1.0).abs() < 1e-6, "{t} {freedom}: {found}");
            assert_eq!(found, two_sided(-t, freedom));
        }
        assert_eq!(two_sided(0.0, 4.0), 1.0);
        assert_eq!(two_sided(3.0, 0.0), 1.0);
    }

    #[test]
    fn half_widths_agree_with_tables() {
        for (freedom, t) in [(1.0, 12.706), (10.0, 2.228), (30.0, 2.042), (1e6, 1.960)] {
            assert!((half_width(freedom) - t).abs() < 5e-4, "{freedom}");
        }
        assert_eq!(half_width(0.0), f64::INFINITY);
    }

    #[test]
    fn with_many_degrees_of_freedom_it_is_normal() {
        for z in [0.5, 2.0, 5.0] {
            let normal = 2.0 * crate::normal::below(-z);
            assert!((two_sided(z, 1e7) / normal - 1.0).abs() < 1e-4, "{z}");
        }
    }

    #[test]
    fn small_values_agree_with_the_closed_form() {
        // With four degrees of freedom the probability has a closed form.
        for t in [0.0001_f64, 0.001, 0.01, 0.1, 1.0, 10.0] {
            let part = t * t / 4.0 / (1.0 + t * t / 4.0);
            let p = 1.0 - 1.5 * part.sqrt() * (1.0 - part / 3.0);
            let found = two_sided(t, 4.0);
            assert!((found - p).abs() < 1e-12, "{t}: {found}, {p}");
        }
        // Close to 0 the density is as good as level: its height there, 0.3979461869 with 100 degrees of freedom.
        let p = 1.0 - 2.0 * 0.397_946_186_9 * 0.001;
        assert!((two_sided(0.001, 100.0) - p).abs() < 1e-9);
    }
}
