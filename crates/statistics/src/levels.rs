//! Finds a change of level in a series measured by many machines: with an update, or on a day.
//!
//! A series is a list of [`Cell`]s: the mean of the runs of one day with one update (a kernel). A split is at an update, which
//! puts cells with earlier updates on one side, or at a day. The statistic of a split is Student's t: the difference of the
//! sides' means over its error.
//!
//! The error comes from the scatter of days, not of runs, so it includes noise that is common to all runs of a day (cluster
//! means: Donner and Klar, "Design and Analysis of Cluster Randomization Trials", 2000, ch. 6). The weight of a day is its
//! number of runs, clamped to between half and twice the median of all days: the share of noise that is common to a day is
//! unknown. Days that resemble the days before count as fewer days, both for the error and for its degrees of freedom
//! (Bartlett, Journal of the Royal Statistical Society 98, 1935). The correction uses the first autocorrelation of the
//! residuals, corrected for its bias (Kendall, Biometrika 41, 1954).
//!
//! The clearest split wins. Its p-value is multiplied by twice the number of splits of its kind (Bonferroni). That is
//! conservative, because neighbouring splits are nearly the same.

use crate::order::order;
use crate::quantile::median;
use crate::sorted;
use crate::student_t::two_sided;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Runs of one day with one update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// Number of the day, from an arbitrary first day.
    pub day: u32,
    /// Number of the update, in the order of appearance.
    pub update: u32,
    /// Number of runs.
    pub runs: f64,
    /// Mean of the runs.
    pub mean: f64,
}

/// The place of a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum At {
    /// First update of the later side.
    Update(u32),
    /// First day of the later side.
    Day(u32),
}

impl At {
    /// True if a cell is on the later side.
    pub fn is_after(self, cell: &Cell) -> bool {
        match self {
            At::Update(update) => cell.update >= update,
            At::Day(day) => cell.day >= day,
        }
    }
}

/// A change of level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// Place of the change.
    pub at: At,
    /// Mean of the runs before.
    pub before: f64,
    /// Mean of the runs after.
    pub after: f64,
    /// Standard error of the difference.
    pub error: f64,
    /// Degrees of freedom of the error.
    pub freedom: f64,
    /// Number of runs before.
    pub runs_before: f64,
    /// Number of runs after.
    pub runs_after: f64,
    /// Probability of at least so clear a change at any place by chance.
    pub p: f64,
}

/// Minimum number of days on a side. Two similar days are not a level.
const MIN_DAYS: usize = 3;
/// Number of days in which an update reaches most machines.
const ROLL_OUT_DAYS: u32 = 7;
/// Minimum t of an update as a share of the t of a day in its roll-out, for the update to be preferred.
const UPDATE_NEAR: f64 = 0.75;
/// Factor of the correction: half of the allowed errors is for updates, half for days. So the few updates are not corrected for
/// the many days.
const KINDS: f64 = 2.0;
/// Factor for the t of days when splits are compared. It prefers updates, because one of many days is often clear by chance.
const DAY_FACTOR: f64 = 0.92;

/// Sums over the days of a side.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    days: usize,
    runs: f64,
    weight: f64,
    sum: f64,
    squares: f64,
}

impl Sums {
    fn add(&mut self, day: &Cell, scale: &Scale) {
        let off = day.mean - scale.centre;
        let weight = scale.weight(day.runs);
        self.days += 1;
        self.runs += day.runs;
        self.weight += weight;
        self.sum += weight * off;
        self.squares += weight * off * off;
    }

    fn without(&self, part: &Sums) -> Sums {
        Sums {
            days: self.days - part.days,
            runs: self.runs - part.runs,
            weight: self.weight - part.weight,
            sum: self.sum - part.sum,
            squares: self.squares - part.squares,
        }
    }

    fn mean(&self) -> f64 {
        self.sum / self.weight
    }

    fn squares_about_mean(&self) -> f64 {
        (self.squares - self.sum * self.sum / self.weight).max(0.0)
    }
}

/// Centre of a series, and bounds of a day's weight.
struct Scale {
    centre: f64,
    min_weight: f64,
    max_weight: f64,
}

impl Scale {
    fn of(days: &[Cell]) -> Scale {
        let runs: Vec<f64> = days.iter().map(|day| day.runs).collect();
        let centre = days.iter().map(|day| day.runs * day.mean).sum::<f64>() / runs.iter().sum::<f64>();
        let middle = median(&sorted(&runs));
        Scale { centre, min_weight: middle / MAX_WEIGHT_RATIO, max_weight: middle * MAX_WEIGHT_RATIO }
    }

    fn weight(&self, runs: f64) -> f64 {
        runs.clamp(self.min_weight, self.max_weight)
    }
}

/// Maximum ratio of a day's weight to that of the median day, and of that to a day's weight.
const MAX_WEIGHT_RATIO: f64 = 2.0;

/// The clearest change of level of a series, even if it is not significant. Returns `None` if the series is too short or
/// constant. Ignores cells without runs. The cost is linear in the cells for each update, and O(n log n) for the days.
pub fn clearest(cells: &[Cell]) -> Option<Change> {
    clearest_if(cells, |_| true)
}

/// The same for runs far apart, such as one machine's boots. They count as fewer only if a test shows that they resemble the run
/// before (Bartels, see [`crate::order`]): the estimate for a few runs is so uncertain that it would hide most changes.
pub(crate) fn clearest_of_runs(cells: &[Cell]) -> Option<Change> {
    clearest_if(cells, |residuals| order(residuals).is_some_and(|order| order.p <= ALIKE))
}

/// Maximum p-value of runs that count as alike.
const ALIKE: f64 = 0.05;

fn clearest_if(cells: &[Cell], may_be_alike: impl Fn(&[f64]) -> bool) -> Option<Change> {
    let mut cells: Vec<Cell> = cells.iter().filter(|cell| cell.runs > 0.0).copied().collect();
    cells.sort_by_key(|cell| (cell.day, cell.update));
    let days = merged(cells.iter().copied());
    let scale = Scale::of(&days);
    let mut splits = by_day(&days, &scale);
    splits.extend(by_update(&cells, &scale));
    let clear = |split: &Split| {
        let t = split.t().abs();
        if split.is_at_update() { t } else { t * DAY_FACTOR }
    };
    let mut split = *splits.iter().max_by(|a, b| clear(a).total_cmp(&clear(b)))?;
    if let At::Day(day) = split.at {
        // On the days after an update's release, an increasing share of the runs has it.
        let rolls_out = |other: &&Split| {
            let At::Update(update) = other.at else { return false };
            let came = cells.iter().filter(|cell| cell.update == update).map(|cell| cell.day).min().unwrap_or(u32::MAX);
            (came..=came.saturating_add(ROLL_OUT_DAYS)).contains(&day)
                && other.t().abs() >= UPDATE_NEAR * split.t().abs()
        };
        let near = splits.iter().filter(rolls_out).max_by(|a, b| a.t().abs().total_cmp(&b.t().abs()));
        split = near.copied().unwrap_or(split);
    }
    let Split { at, before, after } = split;
    let difference = after.mean() - before.mean();
    if difference == 0.0 {
        return None;
    }
    let residuals = residuals(&cells, |cell| {
        cell.mean - scale.centre - if at.is_after(cell) { after.mean() } else { before.mean() }
    });
    let correlation = if may_be_alike(&residuals) { autocorrelation(&residuals) } else { 0.0 };
    let effective_share = (1.0 - correlation) / (1.0 + correlation);
    let error = split.error() / effective_share.sqrt();
    let freedom = ((before.days + after.days) as f64 * effective_share - 2.0).max(1.0);
    // If the scatter is only rounding, the change is certain.
    let uncorrected_p = if error < ROUNDING * difference.abs() { 0.0 } else { two_sided(difference / error, freedom) };
    let splits_of_kind = splits.iter().filter(|other| other.is_at_update() == split.is_at_update()).count();
    let p = (uncorrected_p * KINDS * splits_of_kind as f64).min(1.0);
    let (runs_before, runs_after) = (before.runs, after.runs);
    let (before, after) = (scale.centre + before.mean(), scale.centre + after.mean());
    Some(Change { at, before, after, error, freedom, runs_before, runs_after, p })
}

/// Merges the cells of each day into one, because their common noise makes them a single observation.
fn merged(cells: impl Iterator<Item = Cell>) -> Vec<Cell> {
    let mut days: Vec<Cell> = Vec::new();
    for cell in cells {
        match days.last_mut().filter(|last| last.day == cell.day) {
            Some(last) => {
                let runs = last.runs + cell.runs;
                last.mean += (cell.mean - last.mean) * cell.runs / runs;
                last.runs = runs;
            }
            None => days.push(cell),
        }
    }
    days
}

fn sums(days: &[Cell], scale: &Scale) -> Sums {
    let mut sums = Sums::default();
    days.iter().for_each(|day| sums.add(day, scale));
    sums
}

/// All splits at a day.
fn by_day(days: &[Cell], scale: &Scale) -> Vec<Split> {
    let all = sums(days, scale);
    let mut before = Sums::default();
    let mut splits = Vec::new();
    for day in days {
        if before.days >= MIN_DAYS && all.days - before.days >= MIN_DAYS {
            splits.push(Split { at: At::Day(day.day), before, after: all.without(&before) });
        }
        before.add(day, scale);
    }
    splits
}

/// All splits at an update. The cells must be in the order of days.
fn by_update(cells: &[Cell], scale: &Scale) -> Vec<Split> {
    let updates: BTreeSet<u32> = cells.iter().map(|cell| cell.update).collect();
    let split = |&update: &u32| {
        let at = At::Update(update);
        let side = |is_after| {
            let side = cells.iter().filter(|cell| at.is_after(cell) == is_after).copied();
            sums(&merged(side), scale)
        };
        Split { at, before: side(false), after: side(true) }
    };
    let all = updates.iter().skip(1).map(split);
    all.filter(|split| split.before.days >= MIN_DAYS && split.after.days >= MIN_DAYS).collect()
}

/// A split of a series.
#[derive(Clone, Copy, Debug)]
struct Split {
    at: At,
    before: Sums,
    after: Sums,
}

impl Split {
    fn is_at_update(&self) -> bool {
        matches!(self.at, At::Update(_))
    }

    fn error(&self) -> f64 {
        let (before, after) = (&self.before, &self.after);
        let freedom = (before.days + after.days - 2) as f64;
        ((before.squares_about_mean() + after.squares_about_mean()) / freedom
            * (1.0 / before.weight + 1.0 / after.weight))
            .sqrt()
    }

    fn t(&self) -> f64 {
        let difference = self.after.mean() - self.before.mean();
        let error = self.error();
        if error == 0.0 && difference != 0.0 { f64::MAX } else { difference / error.max(f64::MIN_POSITIVE) }
    }
}

/// The residual of each day. The cells must be in the order of days.
fn residuals(cells: &[Cell], residual: impl Fn(&Cell) -> f64) -> Vec<f64> {
    merged(cells.iter().map(|cell| Cell { mean: residual(cell), ..*cell })).iter().map(|day| day.mean).collect()
}

/// Estimated correlation of the residuals of successive days, from 0 to [`MAX_CORRELATION`].
fn autocorrelation(off: &[f64]) -> f64 {
    let squares: f64 = off.iter().map(|off| off * off).sum();
    let follow: f64 = off.windows(2).map(|pair| pair[0] * pair[1]).sum();
    if squares <= 0.0 {
        return 0.0;
    }
    let biased = follow / squares;
    // With few days the estimate itself is uncertain, so add to it.
    let n = off.len() as f64;
    (biased + (1.0 + 4.0 * biased.max(0.0)) / n + FEW_DAYS / (n * n)).clamp(0.0, MAX_CORRELATION)
}

/// Addition to the estimated correlation, to be divided by the square of the number of days. Found by the simulation in the tests.
const FEW_DAYS: f64 = 50.0;
/// Relative rounding error that remains when squares are subtracted.
const ROUNDING: f64 = 1e-6;
/// Maximum estimated correlation. Days that are more correlated are no longer separate observations.
const MAX_CORRELATION: f64 = 0.95;

#[cfg(test)]
mod tests {
    use super::*;

    /// Days of 50 runs with noise. There is an update every 15 days; a third of the runs gets it three days later.
    fn series(random: &mut fastrand::Rng, day_noise: f64, level: impl Fn(u32, u32) -> f64) -> Vec<Cell> {
        let mut normal = || (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
        let mut cells = Vec::new();
        for day in 0..90_u32 {
            let of_day = 1.0 + day_noise * normal();
            for (late, runs) in [(0, 33.0), (3, 17.0)] {
                let update = day.saturating_sub(late) / 15;
                let mean = level(day, update) * of_day * (1.0 + 0.1 * normal() / f64::sqrt(runs));
                cells.push(Cell { day, update, runs, mean });
            }
        }
        cells
    }

    #[test]
    fn the_responsible_update_is_named_with_its_size() {
        let mut random = fastrand::Rng::with_seed(1);
        let (mut right, mut squares) = (0, 0.0);
        for _ in 0..200 {
            let cells = series(&mut random, 0.01, |_, update| if update >= 3 { 105.0 } else { 100.0 });
            let change = clearest(&cells).unwrap();
            right += usize::from(change.at == At::Update(3) && change.p < 1e-6);
            let off = (change.after - change.before - 5.0) / change.error;
            squares += off * off;
        }
        // The stated error is right, as far as 200 trials can show.
        let scatter = f64::sqrt(squares / 200.0);
        assert!((0.85..1.2).contains(&scatter), "{scatter}");
        assert!(right >= 198, "{right} of 200");
    }

    #[test]
    fn a_change_without_an_update_has_a_day() {
        let mut random = fastrand::Rng::with_seed(2);
        for _ in 0..100 {
            let cells = series(&mut random, 0.005, |day, _| if day >= 38 { 110.0 } else { 100.0 });
            assert_eq!(clearest(&cells).unwrap().at, At::Day(38));
        }
    }

    /// The rate of false alarms at 5 %, with noise of the day, and with correlated days.
    #[test]
    fn without_a_change_p_is_rarely_small() {
        let mut random = fastrand::Rng::with_seed(3);
        let alarms = (0..1000).filter(|_| clearest(&series(&mut random, 0.02, |_, _| 100.0)).unwrap().p <= 0.05);
        let rate = alarms.count() as f64 / 1000.0;
        assert!(rate <= 0.06, "{rate}");
        let alarms = (0..1000).filter(|_| {
            let mut drift = 0.0;
            let drifts: Vec<f64> = (0..90)
                .map(|_| {
                    drift = 0.5 * drift + random.f64() - 0.5;
                    drift
                })
                .collect();
            let cells = series(&mut random, 0.0, |day, _| 100.0 + 3.0 * drifts[day as usize]);
            clearest(&cells).unwrap().p <= 0.05
        });
        let rate = alarms.count() as f64 / 1000.0;
        assert!(rate <= 0.08, "with drift {rate}");
    }

    /// Share of `trials` series without a change for which a change is reported with a p-value of at most `p`.
    fn alarms(trials: usize, p: f64, mut series: impl FnMut() -> Vec<Cell>) -> f64 {
        let alarms = (0..trials).filter(|_| clearest(&series()).is_some_and(|change| change.p <= p));
        alarms.count() as f64 / trials as f64
    }

    /// Tests a day's noise that does not decrease with its number of runs.
    #[test]
    fn the_weight_of_a_day_with_many_runs_is_limited() {
        let mut random = fastrand::Rng::with_seed(4);
        for many in [1.0, 40.0, 200.0, 3000.0] {
            let rate = alarms(4000, 1e-4, || {
                let mut normal = || (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
                let cell = |day: u32| {
                    let runs: f64 = if day % 12 == 5 { many } else { 5.0 };
                    let mean = 100.0 * (1.0 + 0.02 * normal()) * (1.0 + 0.1 * normal() / runs.sqrt());
                    Cell { day, update: 0, runs, mean }
                };
                (0..90).map(cell).collect()
            });
            println!("{many} runs: {rate}");
            assert!(rate <= 1e-3, "{many}: {rate}");
        }
    }

    /// Tests the tail of small p-values, which matters if many series are tested.
    #[test]
    fn correlated_days_count_as_fewer() {
        let mut random = fastrand::Rng::with_seed(5);
        for (days, alike) in [(20, 0.5), (10, 0.5), (90, 0.5), (90, 0.8)] {
            let rate = alarms(4000, 1e-4, || {
                let mut normal = || (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
                let mut drift = normal();
                let cell = |day: u32| {
                    drift = alike * drift + f64::sqrt(1.0 - alike * alike) * normal();
                    Cell { day, update: 0, runs: 50.0, mean: 100.0 + 3.0 * drift + 0.5 * normal() }
                };
                (0..days).map(cell).collect()
            });
            println!("{days} days, {alike}: {rate}");
            assert!(rate <= 3e-3, "{days} days, {alike}: {rate}");
        }
    }

    #[test]
    fn a_series_that_cannot_be_split_has_no_change() {
        let cell = |day, mean| Cell { day, update: 0, runs: 1.0, mean };
        assert_eq!(clearest(&[]), None);
        assert_eq!(clearest(&[cell(0, 1.0), cell(1, 1.0), cell(2, 5.0)]), None);
        let same: Vec<Cell> = (0..20).map(|day| cell(day, 7.0)).collect();
        assert_eq!(clearest(&same), None);
        let empty: Vec<Cell> = (0..20).map(|day| Cell { runs: 0.0, ..cell(day, f64::from(day)) }).collect();
        assert_eq!(clearest(&empty), None);
        // A constant level, then another constant level.
        let steps: Vec<Cell> = (0..20).map(|day| cell(day, if day < 8 { 1.0 } else { 2.0 })).collect();
        let change = clearest(&steps).unwrap();
        assert_eq!(change.at, At::Day(8));
        assert!(
            change.p < 1e-12 && (change.before - 1.0).abs() < 1e-9 && (change.after - 2.0).abs() < 1e-9,
            "{change:?}"
        );
    }
}
