//! Steps in the series of one machine's boots: with an update, or without one.
//!
//! A boot that waited for a disk check or a network takes several times as long. So an outlier among its neighbours is first moved
//! to the edge of the noise: a running median of five boots, and three standard deviations (Hampel's filter; Davies and Gather,
//! Journal of the American Statistical Association 88, 1993). One or two boots are never a level. Then [`crate::levels`] finds the
//! clearest split, and corrects for the number of splits.
//!
//! The series is searched after each boot, as its owner looks at it, and a step that was found begins a new series. So a step that
//! was once reported stays, and one search of the whole gives what all looks gave.
//!
//! The size of a step is the median of all ratios of a boot after it to a boot before it, with the rank-sum test's interval.

use crate::levels::{At, Cell, clearest_of_runs};
use crate::quantile::median;
use crate::rank_sum::RankSum;
use crate::{CONFIDENCE, Interval, false_discoveries, sorted};
use serde::{Deserialize, Serialize};

/// Significance level of a step. It is low because an owner looks after each boot: in the simulation below, about one machine in a
/// hundred has a false alarm after any of 21 boots.
pub const ALPHA: f64 = 0.0005;
/// Significance level of the parts that moved with a step, corrected for their number.
pub const PARTS_ALPHA: f64 = 0.05;
/// Minimum number of boots on each side of a step.
pub const MIN_BOOTS: usize = 3;
/// Minimum number of boots that are searched. The scatter of fewer is too uncertain.
pub const MIN_SERIES: usize = 10;

/// A change of level in a series of boots.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Step {
    /// Index of the first boot of the new level.
    pub at: usize,
    /// True if the step is at an update.
    pub is_at_update: bool,
    /// Index of the first boot of the level before.
    pub from: usize,
    /// Index after the last boot of the new level.
    pub to: usize,
    /// Median of the boots of the level before.
    pub before: f64,
    /// Median of the boots of the new level.
    pub after: f64,
    /// Ratio of the new level to the one before.
    pub ratio: Interval,
    /// Probability of at least so clear a step, at any place, by chance.
    pub p: f64,
}

/// The steps of a series, in order. `updates` has the number of updates up to each boot; it never decreases. The values must be
/// positive and finite.
pub fn steps(values: &[f64], updates: &[u32]) -> Vec<Step> {
    let mut found: Vec<(usize, bool, f64)> = Vec::new();
    let mut from = 0;
    for look in 1..=values.len().min(updates.len()) {
        if let Some((at, is_at_update, p)) = step(&values[from..look], &updates[from..look]) {
            found.push((from + at, is_at_update, p));
            from += at;
        }
    }
    refine(values, updates, &mut found);
    let ends: Vec<usize> = found.iter().map(|step| step.0).chain([values.len()]).collect();
    let mut from = 0;
    let mut all = Vec::new();
    for (i, (at, is_at_update, p)) in found.into_iter().enumerate() {
        let to = ends[i + 1];
        let (before, after) = (&values[from..at], &values[at..to]);
        let ratio = ratio(before, after);
        let [before, after] = [before, after].map(|side| median(&sorted(side)));
        all.push(Step { at, is_at_update, from, to, before, after, ratio, p });
        from = at;
    }
    all
}

/// Places each step again between its neighbours, with the boots that came after it was found.
fn refine(values: &[f64], updates: &[u32], found: &mut [(usize, bool, f64)]) {
    for i in 0..found.len() {
        let from = if i == 0 { 0 } else { found[i - 1].0 };
        let to = found.get(i + 1).map_or(values.len(), |next| next.0);
        if let Some((at, is_at_update, p)) = step(&values[from..to], &updates[from..to]) {
            found[i] = (from + at, is_at_update, p);
        }
    }
}

/// The clearest step of a part of a series, if it is significant.
fn step(values: &[f64], updates: &[u32]) -> Option<(usize, bool, f64)> {
    if values.len() < MIN_SERIES {
        return None;
    }
    let cells: Vec<Cell> = (0_u32..)
        .zip(without_outliers(values).into_iter().zip(updates))
        .map(|(day, (mean, &update))| Cell { day, update, runs: 1.0, mean })
        .collect();
    let change = clearest_of_runs(&cells).filter(|change| change.p <= ALPHA)?;
    let at = cells.iter().position(|cell| change.at.is_after(cell))?;
    Some((at, matches!(change.at, At::Update(_)), change.p))
}

/// Number of boots in the running median.
const NEIGHBOURS: usize = 5;
/// Number of standard deviations from the running median at which an outlier begins.
const OUTLIER: f64 = 3.0;
/// Ratio of a normal distribution's standard deviation to the median of absolute differences of two values.
const SD_OF_DIFFERENCES: f64 = 1.048_36;

/// The logarithms of the values, with outliers among their neighbours moved to the edge of the noise. The noise is that of
/// successive boots, which no step changes much.
fn without_outliers(values: &[f64]) -> Vec<f64> {
    let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    let differences: Vec<f64> = logs.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect();
    let edge = OUTLIER * SD_OF_DIFFERENCES * median(&sorted(&differences));
    let moved = |(i, &log): (usize, &f64)| {
        let from = i.saturating_sub(NEIGHBOURS / 2).min(logs.len().saturating_sub(NEIGHBOURS));
        let middle = median(&sorted(&logs[from..(from + NEIGHBOURS).min(logs.len())]));
        log.clamp(middle - edge, middle + edge)
    };
    logs.iter().enumerate().map(moved).collect()
}

/// The ratio of the second sample to the first: the median of all pairs, and the rank-sum test's interval.
fn ratio(before: &[f64], after: &[f64]) -> Interval {
    let pairs = before.iter().flat_map(|before| after.iter().map(move |after| after / before));
    let ratios = sorted(&pairs.collect::<Vec<f64>>());
    let (cut, confidence) = RankSum::new(before.len(), after.len()).cut(1.0 - CONFIDENCE);
    Interval { estimate: median(&ratios), low: ratios[cut], high: ratios[ratios.len() - 1 - cut], confidence }
}

/// p-values of parts of the boots, each with its values before and after a step, corrected for their number
/// (Benjamini and Hochberg). A part whose p-value is at most [`PARTS_ALPHA`] moved.
pub fn moved(parts: &[(Vec<f64>, Vec<f64>)]) -> Vec<f64> {
    let mut sizes = (0, 0);
    let mut test = RankSum::new(0, 0);
    let mut p_values = Vec::new();
    for (before, after) in parts {
        if sizes != (before.len(), after.len()) {
            sizes = (before.len(), after.len());
            test = RankSum::new(sizes.0, sizes.1);
        }
        let pairs = || before.iter().flat_map(|before| after.iter().map(move |after| (before, after)));
        let above = pairs().filter(|(before, after)| after > before).count();
        let below = pairs().filter(|(before, after)| after < before).count();
        // Equal values count against a difference.
        p_values.push(test.p(test.greatest() - above.max(below)));
    }
    false_discoveries::corrected(&p_values)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lengths of successive boots of one kernel, in ms; the file says how they were measured.
    const MEASURED: &str = include_str!("steps/boots.txt");

    /// Noise with the shape and the order that was measured, scaled to a given scatter. It is drawn in stretches of `together`
    /// successive boots, so that what lasted for several boots stays together.
    struct Noise {
        ratios: Vec<f64>,
        random: fastrand::Rng,
        together: usize,
    }

    impl Noise {
        fn new(seed: u64, together: usize, scatter: f64) -> Noise {
            let lines = MEASURED.lines().filter(|line| !line.starts_with('#'));
            let logs: Vec<f64> = lines.map(|line| line.parse::<f64>().unwrap().ln()).collect();
            let mean = logs.iter().sum::<f64>() / logs.len() as f64;
            let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
            let scale = scatter / (squares / (logs.len() - 1) as f64).sqrt();
            let ratios = logs.iter().map(|log| ((log - mean) * scale).exp()).collect();
            Noise { ratios, random: fastrand::Rng::with_seed(seed), together }
        }

        fn boots(&mut self, count: usize) -> Vec<f64> {
            let mut boots = Vec::new();
            while boots.len() < count {
                let from = self.random.usize(..self.ratios.len());
                boots.extend((from..from + self.together).map(|i| 12e9 * self.ratios[i % self.ratios.len()]));
            }
            boots.truncate(count);
            boots
        }
    }

    const BOOTS: usize = 30;

    /// Updates at these boots: a kernel each ten boots or so, as a distribution releases them.
    fn updates(random: &mut fastrand::Rng, planted: Option<usize>) -> Vec<u32> {
        let others = std::iter::repeat_with(|| random.usize(1..BOOTS));
        let others = others.filter(|other| planted.is_none_or(|planted| planted.abs_diff(*other) > MIN_BOOTS));
        let at: Vec<usize> = others.take(2).chain(planted).collect();
        (0..BOOTS).map(|boot| u32::try_from(at.iter().filter(|&&at| at <= boot).count()).unwrap()).collect()
    }

    /// The shares of machines whose planted step of 5 % is found within 5 boots, at its update within 5 boots, and within 10.
    fn found(machines: usize, noise: &mut Noise) -> [f64; 3] {
        let mut counts = [0, 0, 0];
        for _ in 0..machines {
            let planted = noise.random.usize(15..=BOOTS - 10);
            let mut values = noise.boots(BOOTS);
            values[planted..].iter_mut().for_each(|value| *value *= 1.05);
            let updates = updates(&mut noise.random, Some(planted));
            let is_it = |step: &Step| step.at.abs_diff(planted) <= MIN_BOOTS && step.ratio.estimate > 1.0;
            let after = |boots: usize| {
                let looks = planted + MIN_BOOTS..=planted + boots;
                looks.clone().find_map(|n| steps(&values[..n], &updates[..n]).into_iter().find(is_it))
            };
            let (five, ten) = (after(5), after(10));
            let is_at_update = five.is_some_and(|step| step.at == planted && step.is_at_update);
            [five.is_some(), is_at_update, ten.is_some()]
                .iter()
                .zip(&mut counts)
                .for_each(|(is, n)| *n += i32::from(*is));
        }
        counts.map(|count| f64::from(count) / machines as f64)
    }

    /// The share of machines without a step for which one is reported after any of their boots.
    fn alarms(machines: usize, noise: &mut Noise) -> f64 {
        let mut alarm = |_: &usize| {
            let values = noise.boots(BOOTS);
            !steps(&values, &updates(&mut noise.random, None)).is_empty()
        };
        (0..machines).filter(&mut alarm).count() as f64 / machines as f64
    }

    #[test]
    fn a_step_of_five_per_cent_is_found_within_five_boots() {
        for together in [1, 4] {
            for scatter in [0.01, 0.015, 0.02, 0.03, 0.05] {
                let mut noise = Noise::new(7, together, scatter);
                let of_ten = found(10, &mut noise)[0];
                let [five, at_update, ten] = found(300, &mut noise);
                let percent = [scatter, five, at_update, ten].map(|share| format!("{:.1} %", 100.0 * share));
                println!(
                    "scatter {}, stretches of {together}: within 5 boots {:.0} of 10 machines; of 300 machines {}, at the right \
                     update {}; within 10 boots {}",
                    percent[0],
                    10.0 * of_ten,
                    percent[1],
                    percent[2],
                    percent[3]
                );
                let is_asked = together == 1 && scatter <= 0.015;
                assert!(!is_asked || (of_ten >= 0.9 && five >= 0.9 && at_update >= 0.9), "{of_ten} {five} {at_update}");
            }
        }
    }

    #[test]
    fn a_machine_without_a_step_gets_no_alarm() {
        for together in [1, 4] {
            let rate = alarms(1000, &mut Noise::new(8, together, 0.02));
            println!(
                "stretches of {together}: false alarms after any of {BOOTS} boots: {:.1} % of 1000 machines",
                100.0 * rate
            );
            // Boots that resemble the boot before are harder: that rate is printed, and bounded.
            let bound = if together == 1 { 0.02 } else { 0.07 };
            assert!(rate <= bound, "{together}: {rate}");
        }
    }

    #[test]
    fn several_steps_have_their_levels_and_sizes() {
        let mut random = fastrand::Rng::with_seed(9);
        let values: Vec<f64> = [100.0, 110.0, 104.5]
            .iter()
            .flat_map(|&level| (0..12).map(|_| level * (1.0 + 0.01 * random.f64())).collect::<Vec<f64>>())
            .collect();
        let updates: Vec<u32> = (0..36).map(|boot| u32::from(boot >= 12)).collect();
        let found = steps(&values, &updates);
        let places: Vec<(usize, bool, usize, usize)> =
            found.iter().map(|step| (step.from, step.is_at_update, step.at, step.to)).collect();
        assert_eq!(places, [(0, true, 12, 24), (12, false, 24, 36)]);
        assert!(found[0].ratio.holds(1.1) && found[1].ratio.holds(0.95), "{found:?}");
        assert!(found.iter().all(|step| step.p <= ALPHA));
    }

    #[test]
    fn outliers_and_few_or_equal_boots_are_no_step() {
        let mut random = fastrand::Rng::with_seed(10);
        let mut values: Vec<f64> = (0..30).map(|_| 100.0 + random.f64()).collect();
        values[25..27].fill(400.0);
        let none = vec![0; 30];
        assert_eq!(steps(&values, &none), []);
        assert_eq!(steps(&[5.0; 30], &none), []);
        assert_eq!(steps(&[1.0, 1.0, 2.0, 2.0, 2.0], &[0, 0, 1, 1, 1]), []);
        assert_eq!(steps(&[], &[]), []);
        // Two outliers do not hide a step.
        values[20..].iter_mut().for_each(|value| *value += 5.0);
        assert_eq!(steps(&values, &none).iter().map(|step| step.at).collect::<Vec<_>>(), [20]);
    }

    #[test]
    fn parts_that_moved_are_told_from_those_that_did_not() {
        let mut random = fastrand::Rng::with_seed(11);
        let mut side = |count: usize, level: f64| (0..count).map(|_| level + random.f64()).collect::<Vec<f64>>();
        let mut parts: Vec<(Vec<f64>, Vec<f64>)> = (0..40).map(|_| (side(20, 10.0), side(5, 10.0))).collect();
        parts[3].1 = side(5, 12.0);
        parts[4].1 = side(5, 8.0);
        let p_values = moved(&parts);
        assert_eq!((0..40).filter(|&i| p_values[i] <= PARTS_ALPHA).collect::<Vec<_>>(), [3, 4]);
        // A part that no boot has, and one that only the later boots have.
        let p_values = moved(&[(vec![0.0; 20], vec![0.0; 5]), (vec![0.0; 20], side(5, 1.0))]);
        assert!(p_values[0] == 1.0 && p_values[1] < 0.001, "{p_values:?}");
    }
}
