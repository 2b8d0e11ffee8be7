//! Wilcoxon's signed-rank test, with its exact distribution and its interval.
//!
//! The test is from Wilcoxon 1945, and the interval from Walsh averages is Tukey's (Hollander, Wolfe and Chicken, Nonparametric
//! Statistical Methods, 3rd ed., 3.1 to 3.3). If values are positive as often as negative, the sum of the positive ones' ranks
//! is distributed as the sum of a random subset of 1..=n. That sum is also the number of positive means of two values
//! (each with itself, too). So the same table gives the interval: leave out the `k` smallest and largest of those means.
//! Means of exactly zero (ties) count against a difference, so ties only make the test more conservative.

use super::normal;

/// Maximum `n` for the exact distribution. For larger ones, the normal approximation with continuity correction is as good.
const MAX_EXACT: usize = 300;

/// Distribution of the rank sum for `n` values.
pub struct SignedRank {
    n: usize,
    /// Probability of a sum of at most the index, up to half of the maximum sum. Empty for large `n`.
    cumulative: Vec<f64>,
}

impl SignedRank {
    /// The distribution for `n` values. The cost is cubic in `n` up to 300, and constant beyond.
    pub fn new(n: usize) -> SignedRank {
        let mut cumulative = Vec::new();
        if n <= MAX_EXACT {
            let greatest = n * (n + 1) / 2;
            let mut probability = vec![0.0; greatest + 1];
            probability[0] = 1.0;
            for rank in 1..=n {
                for sum in (0..=greatest).rev() {
                    let without = if sum >= rank { probability[sum - rank] } else { 0.0 };
                    probability[sum] = (probability[sum] + without) / 2.0;
                }
            }
            let mut below = 0.0;
            cumulative.extend(probability[..=greatest / 2].iter().map(|p| {
                below += p;
                below
            }));
        }
        SignedRank { n, cumulative }
    }

    /// The maximum of the rank sum.
    pub fn greatest(&self) -> usize {
        self.n * (self.n + 1) / 2
    }

    /// Two-sided p-value of `sum`, which is the smaller of the two rank sums.
    pub fn p(&self, sum: usize) -> f64 {
        if sum >= self.greatest().div_ceil(2) {
            return 1.0;
        }
        let below = self.cumulative.get(sum).copied().unwrap_or_else(|| self.normal(sum));
        (2.0 * below).min(1.0)
    }

    fn normal(&self, sum: usize) -> f64 {
        let n = self.n as f64;
        let sd = (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
        normal::below((sum as f64 + 0.5 - n * (n + 1.0) / 4.0) / sd)
    }

    /// The largest sum that is significant at `alpha` (two-sided). `None` if there are too few values for any.
    pub fn critical(&self, alpha: f64) -> Option<usize> {
        let (mut low, mut high) = (0, self.greatest().div_ceil(2));
        while low < high {
            let middle = (low + high) / 2;
            if self.p(middle) <= alpha { low = middle + 1 } else { high = middle }
        }
        low.checked_sub(1)
    }

    /// Number of the sorted Walsh means (or ratios) to leave out at each end for an interval of confidence `1 - alpha`, and its
    /// actual confidence. With too few values, nothing is left out.
    pub fn cut(&self, alpha: f64) -> (usize, f64) {
        match self.critical(alpha) {
            Some(sum) => (sum, 1.0 - self.p(sum)),
            None => (0, 1.0 - self.p(0)),
        }
    }
}

/// The smaller of the rank sums of the positive and the negative values, ranked by distance from zero. All distances must
/// differ: this is for simulations, while comparisons count Walsh means. Quasi-linear.
pub fn lesser_sum(values: &[f64]) -> usize {
    let mut by_distance: Vec<f64> = values.to_vec();
    by_distance.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    let positive: usize = (1..).zip(&by_distance).filter(|(_, v)| **v > 0.0).map(|(rank, _)| rank).sum();
    positive.min(values.len() * (values.len() + 1) / 2 - positive)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distribution_agrees_with_tables() {
        // R: psignrank(8, 10), psignrank(52, 20), psignrank(0, 6); critical values of any printed table.
        for (n, sum, below) in [(10, 8, 0.024_414_062_5), (20, 52, 0.024_220_467), (6, 0, 0.015_625)] {
            assert!((SignedRank::new(n).p(sum) - 2.0 * below).abs() < 1e-7, "{n}");
        }
        for (n, critical) in [(5, None), (6, Some(0)), (8, Some(3)), (10, Some(8)), (20, Some(52)), (25, Some(89))] {
            assert_eq!(SignedRank::new(n).critical(0.05), critical, "{n}");
        }
    }

    #[test]
    fn the_approximation_continues_the_exact_distribution() {
        let exact = SignedRank::new(MAX_EXACT);
        let approximate = SignedRank { n: MAX_EXACT, cumulative: Vec::new() };
        for sum in [15_000, 19_500, 21_000, 22_500] {
            assert!((exact.p(sum) - approximate.p(sum)).abs() < 5e-4, "{sum}");
        }
        assert!(SignedRank::new(5000).critical(0.05).is_some());
    }

    #[test]
    fn the_lesser_sum_is_the_count_of_walsh_means() {
        let mut random = fastrand::Rng::with_seed(4);
        for n in 1..20 {
            let values: Vec<f64> = (0..n).map(|_| random.f64() - 0.4).collect();
            let means = (0..n).flat_map(|i| (0..=i).map(move |j| (i, j)));
            let positive = means.filter(|&(i, j)| values[i] + values[j] > 0.0).count();
            assert_eq!(lesser_sum(&values), positive.min(n * (n + 1) / 2 - positive));
        }
    }
}
