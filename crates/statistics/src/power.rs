//! The minimum detectable difference of a number of pairs, and the number of pairs that would show a given difference.
//!
//! Both are simulated with the observed noise and the test that decides. The simulation draws pairs from the observed
//! differences, less their centre, each with a random sign as in a bench. It computes the difference that would just have been
//! significant. A quantile of these is the answer (bootstrap: Efron and Tibshirani, An Introduction to the Bootstrap, 25.5).
//! The random numbers are seeded, so the same runs give the same answer.

use super::quantile::{median, quantile};
use super::signed_rank::SignedRank;
use super::sorted;
use super::verdict::Ask;

const SIMULATIONS: usize = 1000;
/// Maximum number of pairs that is simulated. With more pairs, the difference shrinks with the square root of their number.
const MAX_SIMULATED: usize = 40;
/// Minimum number of pairs that can show a difference.
const MIN_PAIRS: usize = 6;
/// Maximum number of pairs that is reported as needed. More would not be useful advice.
const MAX_PAIRS: usize = 1_000_000;

/// Relative increase of the spread, to be divided by the number of pairs. A spread that is too small by chance loses more power
/// than one that is too large gains. This increase keeps the stated power on average. It was found by simulation
/// (`crates/benchmark/tests/integration/simulation.rs`, `full_shown`).
const SPREAD_INCREASE: f64 = 2.0;

/// The scatter of pairs: relative distances of their differences from the centre.
#[derive(Clone, Debug, PartialEq)]
pub struct Spread(Vec<f64>);

/// The spread of pairs whose second value is about `ratio` times the first. `None` for fewer than six pairs.
pub fn spread(first: &[f64], second: &[f64], ratio: f64) -> Option<Spread> {
    let n = first.len();
    let unit = median(&sorted(first));
    if n < MIN_PAIRS || unit <= 0.0 || ratio <= 0.0 {
        return None;
    }
    // The centre was fitted to the same pairs, so new pairs lie further from it than these.
    let fitted = (n as f64 / (n as f64 - 1.0)).sqrt() * (1.0 + SPREAD_INCREASE / n as f64);
    Some(Spread((0..n).map(|i| (second[i] / ratio - first[i]).abs() / unit * fitted).collect()))
}

/// The minimum relative difference that `pairs` pairs show at one look, with the requested power. `None` for fewer than six.
pub fn shown_from(spread: &Spread, pairs: usize, ask: &Ask) -> Option<f64> {
    simulated(&spread.0, pairs, ask)
}

/// Estimates half the width of the ratio's interval without looking at which variant was faster.
///
/// This is for stopping early. Runs that favour one side by chance also have a narrower interval. So a bench that stops on
/// its real interval makes false alarms (7 % instead of 5 on a drifting host, simulated). This function uses only the
/// distance between the logarithms of a pair's two times, which does not depend on their order. So the random order stays
/// independent of the decision to stop, and the test stays exact.
///
/// The cost is more pairs if the difference is larger than the noise. The noise is then estimated from the scatter of those
/// distances, times the largest factor that a scatter can lose with its sign. That takes two to three times the necessary
/// pairs. Returns `None` for fewer than six pairs, or if a value is not positive.
pub fn half_width(first: &[f64], second: &[f64]) -> Option<f64> {
    let distances: Vec<f64> = first.iter().zip(second).map(|(a, b)| (b / a).ln().abs()).collect();
    if distances.len() < MIN_PAIRS || distances.iter().any(|d| !d.is_finite()) {
        return None;
    }
    let middle = median(&sorted(&distances));
    let root_mean_square = |around: f64| {
        let squares: f64 = distances.iter().map(|d| (d - around).powi(2)).sum();
        (squares / distances.len() as f64).sqrt()
    };
    let scatter = root_mean_square(0.0).min(root_mean_square(middle) * FOLDED);
    Some(STANDARD_ERRORS * scatter / (distances.len() as f64).sqrt())
}

/// Root mean square of a normal distribution, divided by that of its absolute values around their median.
const FOLDED: f64 = 1.63;
/// Assumed half-width of the interval, in standard errors. With normal noise it is 2.0. A bench stops when the estimate is small
/// enough, which it is first when it is too small by chance. So a little more is needed for the real interval to be as narrow
/// in most cases (by simulation).
const STANDARD_ERRORS: f64 = 2.35;

/// Simulates the difference that `pairs` pairs show with the requested power, with distances drawn from `spread`.
fn simulated(spread: &[f64], pairs: usize, ask: &Ask) -> Option<f64> {
    let simulated = pairs.min(MAX_SIMULATED);
    let cut = SignedRank::new(simulated).critical(ask.alpha())?;
    let mut random = fastrand::Rng::with_seed(0x7077_6572);
    let mut drawn = vec![0.0; simulated];
    let mut means = Vec::new();
    let mut just_shown: Vec<f64> = (0..SIMULATIONS)
        .map(|_| {
            drawn.fill_with(|| spread[random.usize(..spread.len())] * if random.bool() { 1.0 } else { -1.0 });
            -lower_end(&drawn, cut, &mut means)
        })
        .collect();
    just_shown.sort_by(f64::total_cmp);
    Some(quantile(&just_shown, ask.power) * (simulated as f64 / pairs as f64).sqrt())
}

/// Number of pairs that show a relative difference with the requested power. `None` if a million would not.
pub fn pairs_needed(spread: &Spread, difference: f64, ask: &Ask) -> Option<usize> {
    let enough = |pairs| shown_from(spread, pairs, ask).is_some_and(|d| d <= difference);
    if !enough(MAX_SIMULATED) {
        let ratio = shown_from(spread, MAX_SIMULATED, ask)? / difference;
        let pairs = (MAX_SIMULATED as f64 * ratio * ratio).ceil();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is whole, not negative, and not above MAX_PAIRS"
        )]
        return (pairs <= MAX_PAIRS as f64).then_some(pairs as usize);
    }
    let (mut low, mut high) = (MIN_PAIRS, MAX_SIMULATED);
    while low < high {
        let middle = (low + high) / 2;
        if enough(middle) { high = middle } else { low = middle + 1 }
    }
    Some(low)
}

/// Lower end of the interval of the centre, computed as in [`super::pairs`].
fn lower_end(values: &[f64], cut: usize, means: &mut Vec<f64>) -> f64 {
    means.clear();
    for i in 0..values.len() {
        means.extend((0..=i).map(|j| (values[i] + values[j]) / 2.0));
    }
    *means.select_nth_unstable_by(cut, f64::total_cmp).1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(n: usize, sd: f64) -> Spread {
        let mut random = fastrand::Rng::with_seed(9);
        Spread((0..n).map(|_| ((0..12).map(|_| random.f64()).sum::<f64>() - 6.0).abs() * sd).collect())
    }

    #[test]
    fn close_to_the_formula_for_normal_noise() {
        // (1.960 + 1.282) sd / √n, and a little more because ranks lose 4.5 % of the power.
        let formula = (1.96 + 1.2816) * 0.1 / 100.0_f64.sqrt();
        let found = shown_from(&of(2000, 0.1), 100, &Ask::default()).unwrap();
        assert!((found / formula - 1.0).abs() < 0.07, "{found}, formula {formula}");
    }

    #[test]
    fn difference_and_pairs_are_inverse() {
        let spread = of(40, 0.1);
        for pairs in [8, 20, 39, 100] {
            let difference = shown_from(&spread, pairs, &Ask::default()).unwrap();
            assert!(
                pairs_needed(&spread, difference, &Ask::default()).unwrap().abs_diff(pairs) <= 1 + pairs / 8,
                "{pairs}"
            );
        }
        let far = pairs_needed(&spread, 0.001, &Ask::default()).unwrap();
        assert!((50_000..200_000).contains(&far), "{far}");
        assert_eq!(pairs_needed(&spread, 1e-6, &Ask::default()), None);
    }

    #[test]
    fn the_width_does_not_depend_on_which_was_faster() {
        let (first, second) = ([1.0, 1.1, 1.2, 1.0, 0.9, 1.3, 1.1], [1.1, 1.0, 1.3, 1.3, 1.0, 1.1, 1.2]);
        let (mut one, mut other) = (first, second);
        (one[2], other[2]) = (second[2], first[2]);
        let width = half_width(&first, &second).unwrap();
        assert!((half_width(&one, &other).unwrap() - width).abs() < 1e-12);
        // A difference that is the same in every pair is not noise.
        let times = |factor: f64| half_width(&first, &second.map(|b| factor * b)).unwrap();
        assert!((times(10.0) - times(1000.0)).abs() < 1e-9 && times(10.0) < 3.0 * width);
        assert_eq!(half_width(&first[..5], &second[..5]), None);
        assert_eq!(half_width(&[0.0; 6], &[1.0; 6]), None);
    }

    #[test]
    fn too_few_pairs_have_no_spread() {
        assert_eq!(spread(&[1.0; 5], &[1.0; 5], 1.0), None);
        assert_eq!(shown_from(&of(10, 0.1), 5, &Ask::default()), None);
        assert_eq!(shown_from(&spread(&[1.0; 6], &[1.0; 6], 1.0).unwrap(), 6, &Ask::default()), Some(0.0));
    }

    #[test]
    fn a_spread_is_relative_and_allows_for_the_fitted_centre() {
        // After the ratio of 2 each pair is off by a tenth of the first time. The two factors are for six pairs.
        let second = [22.0, 18.0, 22.0, 18.0, 22.0, 18.0];
        let Spread(distances) = spread(&[10.0; 6], &second, 2.0).unwrap();
        let expected = 0.1 * (6.0_f64 / 5.0).sqrt() * (1.0 + 2.0 / 6.0);
        assert!(distances.iter().all(|distance| (distance - expected).abs() < 1e-12), "{distances:?}, {expected}");
    }
}
