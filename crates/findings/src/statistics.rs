//! Statistics for detectors: quantiles, line fits and probabilities.

/// The value below which this share of the values lies; a share of a half gives the median. `None` if there are no values.
pub fn quantile<T: Copy + Ord>(values: impl IntoIterator<Item = T>, share: f64) -> Option<T> {
    let mut sorted: Vec<T> = values.into_iter().collect();
    sorted.sort_unstable();
    let at = usize::try_from(timeline::truncated(sorted.len() as f64 * share)).unwrap_or(0);
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied()
}

/// Fits a line through points by least squares. Returns its slope, and the part of the scatter that it explains.
pub fn line_fit(xs: &[f64], ys: &[f64]) -> (f64, f64) {
    let Moments { both, square_x, square_y } = Moments::new(xs, ys);
    if square_x > 0.0 && square_y > 0.0 { (both / square_x, both * both / (square_x * square_y)) } else { (0.0, 0.0) }
}

/// Sums of products of differences from the means.
struct Moments {
    both: f64,
    square_x: f64,
    square_y: f64,
}

impl Moments {
    fn new(xs: &[f64], ys: &[f64]) -> Moments {
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
        let (mean_x, mean_y) = (mean(xs), mean(ys));
        let mut moments = Moments { both: 0.0, square_x: 0.0, square_y: 0.0 };
        for (x, y) in xs.iter().zip(ys) {
            moments.both += (x - mean_x) * (y - mean_y);
            moments.square_x += (x - mean_x).powi(2);
            moments.square_y += (y - mean_y).powi(2);
        }
        moments
    }
}

/// The probability that at least `least` of `count` independent events happen, each of which has probability `each`.
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

/// The rank correlation of two quantities (Spearman): 1 if their orders are the same, -1 if they are opposite. Equal values share a rank.
pub fn rank_correlation(xs: &[f64], ys: &[f64]) -> f64 {
    let Moments { both, square_x, square_y } = Moments::new(&ranks(xs), &ranks(ys));
    if square_x > 0.0 && square_y > 0.0 { both / (square_x * square_y).sqrt() } else { 0.0 }
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut from = 0;
    for equal in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let shared = from as f64 + (equal.len() - 1) as f64 / 2.0;
        equal.iter().for_each(|&i| ranks[i] = shared);
        from += equal.len();
    }
    ranks
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

    #[test]
    fn orders_are_compared_and_not_sizes() {
        let numbers: Vec<f64> = (0..100).map(f64::from).collect();
        let powers: Vec<f64> = numbers.iter().map(|n| n.powi(3)).collect();
        let falling: Vec<f64> = numbers.iter().map(|n| -n).collect();
        assert!((rank_correlation(&numbers, &powers) - 1.0).abs() < 1e-12);
        assert!((rank_correlation(&numbers, &falling) + 1.0).abs() < 1e-12);
        assert_eq!(rank_correlation(&numbers, &[1.0; 100]), 0.0);
        assert_eq!(rank_correlation(&[], &[]), 0.0);
        assert_eq!(
            (quantile([3, 1, 2], 0.5), quantile([3, 1, 2], 1.0), quantile(Vec::<u8>::new(), 0.5)),
            (Some(2), Some(3), None)
        );
        let (slope, explained) = line_fit(&[0.0, 1.0, 2.0, 3.0], &[1.0, 3.0, 5.0, 7.0]);
        assert!((slope - 2.0).abs() < 1e-12 && (explained - 1.0).abs() < 1e-12);
        assert_eq!(line_fit(&[1.0, 1.0], &[1.0, 2.0]), (0.0, 0.0));
    }
}
