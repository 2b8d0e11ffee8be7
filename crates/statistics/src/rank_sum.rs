//! The rank-sum test for two independent samples (Wilcoxon, Mann and Whitney), with its exact distribution and its interval.
//!
//! The test is from Mann and Whitney 1947, and the interval from the differences is Moses' (Hollander, Wolfe and Chicken,
//! Nonparametric Statistical Methods, 3rd ed., 4.1 to 4.3). If the samples do not differ, every assignment of the values to the
//! samples is equally likely. The statistic is the number of pairs in which the second sample's value is greater. Equal values
//! count against a difference.

use super::normal;

/// Maximum total size of the samples for which the exact distribution is computed.
const MAX_EXACT: usize = 80;

/// Distribution of the statistic for samples of `m` and `n` values.
pub struct RankSum {
    m: usize,
    n: usize,
    /// Probability of a statistic of at most the index. Empty for large samples.
    cumulative: Vec<f64>,
}

impl RankSum {
    /// The distribution for samples of `m` and `n` values.
    pub fn new(m: usize, n: usize) -> RankSum {
        let exact = m + n <= MAX_EXACT;
        RankSum { m, n, cumulative: if exact { cumulative(m, n) } else { Vec::new() } }
    }

    /// The maximum of the statistic.
    pub fn greatest(&self) -> usize {
        self.m * self.n
    }

    /// Two-sided p-value of `count`, which is the smaller of the statistic and its complement.
    pub fn p(&self, count: usize) -> f64 {
        if count >= self.greatest().div_ceil(2) {
            return 1.0;
        }
        let below = self.cumulative.get(count).copied().unwrap_or_else(|| self.normal(count));
        (2.0 * below).min(1.0)
    }

    fn normal(&self, count: usize) -> f64 {
        let (m, n) = (self.m as f64, self.n as f64);
        normal::below((count as f64 + 0.5 - m * n / 2.0) / (m * n * (m + n + 1.0) / 12.0).sqrt())
    }

    /// Number of the sorted differences (or ratios) to leave out at each end for an interval, and its actual confidence. With too
    /// few values, nothing is left out.
    pub fn cut(&self, alpha: f64) -> (usize, f64) {
        let significant = (0..self.greatest()).take_while(|&count| self.p(count) <= alpha).last();
        let cut = significant.unwrap_or(0);
        (cut, 1.0 - self.p(cut))
    }
}

/// Counts the choices of `m` of the ranks 1..=m+n by their sum, and returns the cumulative probabilities.
fn cumulative(m: usize, n: usize) -> Vec<f64> {
    let greatest = m * n;
    let min_sum = m * (m + 1) / 2;
    let sums = min_sum + greatest + 1;
    let mut choices = vec![vec![0.0; sums]; m + 1];
    choices[0][0] = 1.0;
    for rank in 1..=m + n {
        for taken in (1..=m.min(rank)).rev() {
            for sum in rank..sums {
                let with = choices[taken - 1][sum - rank];
                choices[taken][sum] += with;
            }
        }
    }
    let all: f64 = choices[m].iter().sum();
    let mut below = 0.0;
    let mut add = |count: &f64| {
        below += count / all;
        below
    };
    choices[m][min_sum..].iter().map(&mut add).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distribution_agrees_with_tables() {
        // 2 of the 252 choices of 5 of 10 are as extreme as 0; R: pwilcox(23, 10, 10), pwilcox(2, 4, 6).
        for (m, n, count, below) in [(5, 5, 0, 1.0 / 252.0), (10, 10, 23, 0.021_625), (4, 6, 2, 4.0 / 210.0)] {
            assert!((RankSum::new(m, n).p(count) - 2.0 * below).abs() < 1e-5, "{m} {n}");
        }
        for (m, n, cut) in [(4, 4, 0), (5, 5, 2), (10, 10, 23), (5, 8, 6)] {
            assert_eq!(RankSum::new(m, n).cut(0.05).0, cut, "{m} {n}");
        }
    }

    #[test]
    fn the_approximation_continues_the_exact_distribution() {
        let exact = RankSum::new(40, 40);
        let approximate = RankSum { m: 40, n: 40, cumulative: Vec::new() };
        for count in [450, 550, 600, 700] {
            assert!((exact.p(count) - approximate.p(count)).abs() < 2e-3, "{count}");
        }
        assert!(RankSum::new(100, 100).cut(0.05).0 > 4000);
    }
}
