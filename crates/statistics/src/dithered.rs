//! Compares two variants by deterministic boots, measured in instructions or in guest time.
//!
//! The same input gives the same boot, so repetitions do not show how much a boot depends on irrelevant inputs. One dummy
//! character more on the command line changes the total of a stock Linux boot by up to 0.075 % in guest time and 0.17 % in
//! instructions (another layout, other hash chains). So each variant is booted several times with dummy arguments of different
//! lengths (*dithered*). These boots are as good as random samples and do not drift, so the rank-sum test compares two
//! independent samples ([`super::rank_sum`]). Boots that only repeat are a single sample; only a difference above the floor
//! counts (`analysis::floor`).

use super::quantile::median;
use super::rank_sum::RankSum;
use super::verdict::{Ask, Basis, Change, Comparison, judge};
use super::{CONFIDENCE, Interval, sorted};

/// Compares dithered boots. A difference can only be shown with at least four boots of each variant. Returns `None` if a variant
/// has no boots.
pub fn compare(first: &[f64], second: &[f64], ask: &Ask) -> Option<Comparison> {
    let mut alone = [estimate(first, second)?];
    judge(&mut alone, ask);
    let [comparison] = alone;
    Some(comparison)
}

/// Like [`compare`], but without the verdict, which [`judge`] gives to several comparisons together.
pub fn estimate(first: &[f64], second: &[f64]) -> Option<Comparison> {
    if first.is_empty() || second.is_empty() {
        return None;
    }
    let null = RankSum::new(first.len(), second.len());
    let differences = all(first, second, |a, b| b - a);
    let difference = interval(&differences, &null);
    let ratio = first.iter().all(|&a| a > 0.0).then(|| interval(&all(first, second, |a, b| b / a), &null));
    let negative = differences.partition_point(|&d| d < 0.0);
    let not_positive = differences.partition_point(|&d| d <= 0.0);
    let against = negative.min(differences.len() - not_positive) + (not_positive - negative);
    let unit = median(&sorted(first));
    Some(Comparison {
        basis: Basis::Dithered(first.len(), second.len()),
        difference,
        ratio,
        p: Some(null.p(against)),
        p_corrected: None,
        p_least: null.p(0),
        // A difference of half the interval's width is the smallest whose interval excludes 0.
        shown_from: (unit > 0.0).then(|| difference.half_width() / unit),
        pairs_for_margin: None,
        change: Change::TooFew,
    })
}

/// Compares boots that only repeat. `floor` is the relative difference that layout alone can cause. If the first value is 0,
/// there is no ratio, and any other second value is a difference. Returns `None` if a variant has no boots.
pub fn compare_repeated(first: &[f64], second: &[f64], floor: f64, ask: &Ask) -> Option<Comparison> {
    let (a, b) = (median(&sorted(first)), median(&sorted(second)));
    if !(a >= 0.0 && b.is_finite()) {
        return None;
    }
    let exactly = |estimate: f64, error: f64| Interval {
        estimate,
        low: estimate - error,
        high: estimate + error,
        confidence: 0.0,
    };
    let mut alone = [Comparison {
        basis: Basis::Repeated(floor),
        difference: exactly(b - a, a * floor),
        ratio: (a > 0.0).then(|| exactly(b / a, floor)),
        p: None,
        p_corrected: None,
        p_least: 0.0,
        shown_from: Some(floor),
        pairs_for_margin: None,
        change: Change::TooFew,
    }];
    judge(&mut alone, ask);
    let [comparison] = alone;
    Some(comparison)
}

fn all(first: &[f64], second: &[f64], function: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    let function = &function;
    sorted(&first.iter().flat_map(|&a| second.iter().map(move |&b| function(a, b))).collect::<Vec<_>>())
}

fn interval(sorted: &[f64], null: &RankSum) -> Interval {
    let (cut, confidence) = null.cut(1.0 - CONFIDENCE);
    Interval { estimate: median(sorted), low: sorted[cut], high: sorted[sorted.len() - 1 - cut], confidence }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The effect of layout on a number of instructions, as in `analysis::floor`.
    const FLOOR: f64 = 0.0017;

    /// Differences of a fifth of a per cent matter.
    const SHARP: Ask = Ask { margin: 0.002, power: 0.9, looks: 1 };

    /// Boots of 1.88 G instructions, changed by their layout within the floor.
    fn boots(random: &mut fastrand::Rng, n: usize, factor: f64) -> Vec<f64> {
        (0..n).map(|_| (1.88e9 * factor * (1.0 + FLOOR * (random.f64() - 0.5))).round()).collect()
    }

    #[test]
    fn a_value_that_was_zero_is_a_difference_too() {
        let one = |a, b| compare_repeated(&[a; 3], &[b; 3], FLOOR, &Ask::default()).unwrap();
        let appeared = one(0.0, 20e6);
        assert_eq!((appeared.change, appeared.difference.estimate, appeared.ratio), (Change::More, 20e6, None));
        assert_eq!(one(0.0, 0.0).change, Change::NoDifference);
        assert_eq!(one(20e6, 0.0).change, Change::Less);
        assert!(compare_repeated(&[], &[1.0], 0.0, &Ask::default()).is_none());
    }

    #[test]
    fn half_a_percent_is_found_with_five_boots_each() {
        let mut random = fastrand::Rng::with_seed(10);
        let mut held = 0;
        for _ in 0..500 {
            let (a, b) = (boots(&mut random, 5, 1.0), boots(&mut random, 5, 1.005));
            let found = compare(&a, &b, &SHARP).unwrap();
            assert_eq!(found.change, Change::More, "{found:?}");
            held += usize::from(found.ratio.unwrap().holds(1.005));
        }
        // The stated confidence is 96.8 %.
        assert!((470..=498).contains(&held), "{held}");
    }

    #[test]
    fn false_alarms_are_as_rare_as_stated() {
        let mut random = fastrand::Rng::with_seed(11);
        for n in [4, 5, 10] {
            let trials = 4000;
            let alarms = (0..trials).filter(|_| {
                let (a, b) = (boots(&mut random, n, 1.0), boots(&mut random, n, 1.0));
                compare(&a, &b, &Ask::default()).unwrap().direction().is_some()
            });
            let (rate, stated) = (alarms.count() as f64 / f64::from(trials), 1.0 - RankSum::new(n, n).cut(0.05).1);
            assert!((rate - stated).abs() < 0.012 && stated <= 0.05, "{n}: {rate}, stated {stated}");
        }
    }

    #[test]
    fn three_boots_each_are_too_few() {
        let found = compare(&[1.0, 1.1, 1.2], &[2.0, 2.1, 2.2], &Ask::default()).unwrap();
        assert_eq!(found.change, Change::TooFew);
        assert_eq!(compare(&[], &[1.0], &Ask::default()), None);
    }

    #[test]
    fn repeated_boots_show_no_difference_below_the_floor() {
        let one = |b| compare_repeated(&[1e9; 20], &[b; 20], FLOOR, &SHARP).unwrap().change;
        assert_eq!(one(1.001e9), Change::NoDifference);
        assert_eq!(one(1.005e9), Change::More);
        assert_eq!(one(0.995e9), Change::Less);
        assert_eq!(compare_repeated(&[1.0], &[], 0.1, &Ask::default()), None);
    }
}
