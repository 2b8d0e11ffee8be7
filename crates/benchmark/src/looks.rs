//! The rounds that a verdict needs: the minimum, and the looks of a bench that ends as soon as its verdicts are sure.
//!
//! A look is a round after which the verdicts are computed. A bench that looked after each round would find a difference
//! sooner or later even if nothing changed. So it looks only after few rounds, each half as many again as the last, and the
//! rate of false alarms is divided among the looks (Bonferroni: [`Ask::looks`](statistics::verdict::Ask)). This holds
//! with any noise and any drift, as the test of pairs does. `tests/integration/simulation.rs` has the rates.

use statistics::CONFIDENCE;
use statistics::rank_sum::RankSum;
use statistics::signed_rank::SignedRank;

/// The test by which two variants are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// Pairs of boots ([`statistics::pairs`]).
    Pairs,
    /// Deterministic boots, each with another layout ([`statistics::dithered`]).
    Dithered,
    /// Deterministic boots that only repeat.
    Repeated,
}

/// The minimum number of rounds in which at least one of the comparisons of totals can get a verdict. Fewer are *too few*,
/// whatever they measure. Returns 1 if there are no comparisons, and for boots that only repeat.
///
/// A comparison at each of several looks counts as that many.
pub fn rounds_least(comparisons: usize, test: Test) -> u32 {
    if comparisons == 0 || test == Test::Repeated {
        return 1;
    }
    let min_p = |rounds: u32| {
        let rounds = rounds as usize;
        if test == Test::Dithered { RankSum::new(rounds, rounds).p(0) } else { SignedRank::new(rounds).p(0) }
    };
    (1..).find(|&rounds| min_p(rounds) * comparisons as f64 <= 1.0 - CONFIDENCE).unwrap_or(u32::MAX)
}

/// The rounds of the looks, in ascending order; the last is `rounds`. Empty if that number of rounds can show nothing.
///
/// The first look is the first one at which one of `comparisons` can get a verdict. An earlier one would cost a share of
/// the rate for nothing.
pub fn looks(rounds: u32, comparisons: usize) -> Vec<u32> {
    let from = |first: u32| -> Vec<u32> {
        let next = |at: &u32| (*at < rounds).then(|| at.saturating_add(at.div_ceil(2)).min(rounds));
        std::iter::successors(Some(first), next).collect()
    };
    let can_decide = |looks: &Vec<u32>| rounds_least(comparisons * looks.len(), Test::Pairs) <= looks[0];
    (1..=rounds).map(from).find(can_decide).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_look_can_decide_and_the_last_is_the_last_round() {
        assert_eq!(looks(1000, 1), [10, 15, 23, 35, 53, 80, 120, 180, 270, 405, 608, 912, 1000]);
        assert_eq!(looks(20, 1), [8, 12, 18, 20]);
        assert_eq!(looks(6, 1), [6]);
        assert_eq!(looks(5, 1), [0; 0], "five pairs have a p-value of at least 6 %");
        for (rounds, comparisons) in [(30, 1), (200, 3), (1000, 20)] {
            let looks = looks(rounds, comparisons);
            assert!(rounds_least(comparisons * looks.len(), Test::Pairs) <= looks[0], "{looks:?}");
            assert!(looks.is_sorted_by(|a, b| a < b) && looks.last() == Some(&rounds), "{looks:?}");
        }
    }
}
