//! Which law a time follows as something grows: none, `n`, `n log n` or `n²`.
//!
//! Each law is a line in a function of the size, fitted by ordinary least squares to all runs. Which it is, cross-validation
//! decides (Stone, Journal of the Royal Statistical Society B 36, 1974): one size after the other is left out, and is
//! predicted from the rest; the law whose predictions miss least has it. So a law that bends more than the points do
//! loses, though it always fits at least as well. A slope that is not more than its error is none, and what else would
//! predict as well, within the standard error of the difference, is told with it: three sizes seldom tell `n` from
//! `n log n`.
//!
//! Errors are half the 95 % interval of Student's distribution, from the scatter about the law (Draper & Smith, Applied
//! Regression Analysis, 1.4); the band of a prediction holds one more run with that confidence, if the law holds there.

use crate::fit::student;

/// How a time grows with a size `n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// Not at all.
    Constant,
    /// With `n`.
    Linear,
    /// With `n log₂ n`.
    NLogN,
    /// With `n²`.
    Quadratic,
}

/// All laws, the simplest first.
pub const LAWS: [Law; 4] = [Law::Constant, Law::Linear, Law::NLogN, Law::Quadratic];

impl Law {
    /// What the time is a line in.
    pub fn of(self, size: f64) -> f64 {
        match self {
            Law::Constant => 0.0,
            Law::Linear => size,
            Law::NLogN => size * size.log2(),
            Law::Quadratic => size * size,
        }
    }

    /// As one writes it.
    pub fn name(self) -> &'static str {
        match self {
            Law::Constant => "constant",
            Law::Linear => "n",
            Law::NLogN => "n log n",
            Law::Quadratic => "n²",
        }
    }
}

/// A law and its coefficients, in the unit of the times.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// Which.
    pub law: Law,
    /// What does not grow.
    pub base: f64,
    /// What it adds per unit of `n`, `n log₂ n` or `n²`; nothing of a constant.
    pub slope: f64,
    /// Half the interval of the slope; none where there is no scatter to tell it from.
    pub slope_error: Option<f64>,
    /// Laws that would predict as well. Empty where there are too few sizes to try.
    pub alike: Vec<Law>,
    freedom: usize,
    points: f64,
    middle: f64,
    spread: f64,
    /// Standard deviation about the law.
    scatter: f64,
}

impl Fitted {
    /// The law's value at a size.
    pub fn at(&self, size: f64) -> f64 {
        self.base + self.slope * self.law.of(size)
    }

    /// Half the interval of the law's value at a size; none where there is no scatter.
    pub fn error_at(&self, size: f64) -> Option<f64> {
        self.half(size, 0.0)
    }

    /// How far from the law one more run at that size may lie, should it hold there; none where there is no scatter.
    pub fn band_at(&self, size: f64) -> Option<f64> {
        self.half(size, 1.0)
    }

    fn half(&self, size: f64, own: f64) -> Option<f64> {
        let away = (self.law.of(size) - self.middle).powi(2);
        let far = if self.spread > 0.0 { away / self.spread } else { 0.0 };
        (self.freedom > 0).then(|| student(self.freedom) * self.scatter * (own + 1.0 / self.points + far).sqrt())
    }
}

/// The law that these runs follow, each a size (from 1 on) and a time. `None` without two different sizes.
pub fn law(runs: &[(f64, f64)]) -> Option<Fitted> {
    let sizes = sizes(runs);
    if sizes.len() < 2 {
        return None;
    }
    let constant = || through(Law::Constant, runs);
    let misses: Vec<(Law, Vec<f64>)> =
        LAWS.iter().filter_map(|&law| Some((law, left_out(law, runs, &sizes)?))).collect();
    let best = misses.iter().min_by(|a, b| mean(&a.1).total_cmp(&mean(&b.1)));
    // Two sizes are a line through anything.
    let (mut law, mut alike) = (Law::Linear, Vec::new());
    if let Some((chosen, errors)) = best {
        law = *chosen;
        alike = misses.iter().filter(|(other, all)| other != chosen && as_good(all, errors)).map(|m| m.0).collect();
    }
    let mut found = through(law, runs)?;
    if found.slope_error.is_some_and(|error| found.slope.abs() <= error) {
        found = constant()?;
        alike.retain(|&other| other != Law::Constant);
    }
    found.alike = alike;
    Some(found)
}

/// A law is as good as another for a part while the logarithm of how much likelier the other makes the runs, twice, is
/// less than this: chance exceeds it in 1 of 100, had the better one a coefficient more (Wilks, Annals of Mathematical
/// Statistics 9, 1938), and it has not.
const LIKELIER: f64 = 6.63;

/// The law of a part, where the whole follows `whole`: that one too, unless the runs speak against it. Laws of one kind add
/// up, and parts that each bend a little more than the whole, by chance, lead beyond it.
pub fn law_of_part(runs: &[(f64, f64)], whole: Law) -> Option<Fitted> {
    let own = law(runs)?;
    if whole == Law::Constant || own.law == Law::Constant || own.law == whole {
        return Some(own);
    }
    let mut same = through(whole, runs)?;
    let none = same.slope_error.is_some_and(|error| same.slope.abs() <= error);
    if none || own.points * 2.0 * (same.scatter / own.scatter).ln() >= LIKELIER {
        return Some(own);
    }
    same.alike = std::iter::once(own.law).chain(own.alike.into_iter().filter(|&other| other != whole)).collect();
    Some(same)
}

/// The different sizes, in order.
fn sizes(runs: &[(f64, f64)]) -> Vec<f64> {
    let mut sizes: Vec<f64> = runs.iter().map(|run| run.0).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    sizes
}

/// How far a law's predictions miss each size that it was not told: the mean of the squares. None where what is left
/// cannot be fitted.
fn left_out(law: Law, runs: &[(f64, f64)], sizes: &[f64]) -> Option<Vec<f64>> {
    if sizes.len() < 3 {
        return None;
    }
    let miss = |size: f64| {
        let (held, rest): (Vec<_>, Vec<_>) = runs.iter().copied().partition(|run| run.0 == size);
        let fitted = through(law, &rest)?;
        Some(mean(&held.iter().map(|run| (run.1 - fitted.at(size)).powi(2)).collect::<Vec<f64>>()))
    };
    sizes.iter().map(|&size| miss(size)).collect()
}

/// Whether a law misses no more than the best one does, within the standard error of the difference over the sizes.
fn as_good(misses: &[f64], best: &[f64]) -> bool {
    let more: Vec<f64> = misses.iter().zip(best).map(|(m, b)| m - b).collect();
    let count = more.len() as f64;
    let mean = mean(&more);
    let squares: f64 = more.iter().map(|m| (m - mean).powi(2)).sum();
    mean <= (squares / (count - 1.0).max(1.0) / count).sqrt()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// A law fitted to runs; none if they do not tell its slope.
fn through(law: Law, runs: &[(f64, f64)]) -> Option<Fitted> {
    let points = runs.len() as f64;
    let middle = runs.iter().map(|run| law.of(run.0)).sum::<f64>() / points;
    let height = runs.iter().map(|run| run.1).sum::<f64>() / points;
    let spread: f64 = runs.iter().map(|run| (law.of(run.0) - middle).powi(2)).sum();
    let grows = law != Law::Constant;
    if runs.is_empty() || !spread.is_finite() || (grows && spread <= 0.0) {
        return None;
    }
    let rise: f64 = runs.iter().map(|run| (law.of(run.0) - middle) * (run.1 - height)).sum();
    let slope = if grows { rise / spread } else { 0.0 };
    let base = height - slope * middle;
    let off: f64 = runs.iter().map(|run| (run.1 - base - slope * law.of(run.0)).powi(2)).sum();
    let freedom = runs.len().saturating_sub(if grows { 2 } else { 1 });
    let scatter = (off / freedom.max(1) as f64).sqrt();
    let slope_error = (freedom > 0 && grows).then(|| student(freedom) * scatter / spread.sqrt());
    Some(Fitted { law, base, slope, slope_error, alike: Vec::new(), freedom, points, middle, spread, scatter })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [f64; 5] = [1.0, 2.0, 4.0, 8.0, 16.0];

    /// Noise without a random number: some hundred steps of a well-known generator, summed to look normal.
    struct Noise(u64);

    impl Noise {
        fn next(&mut self) -> f64 {
            let mut uniform = || {
                self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (self.0 >> 11) as f64 / (1_u64 << 53) as f64
            };
            (0..12).map(|_| uniform()).sum::<f64>() - 6.0
        }
    }

    /// Five runs of each size.
    fn runs(noise: &mut Noise, sd: f64, of: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        SIZES.iter().flat_map(|&n| [n; 5]).map(|n| (n, of(n))).map(|(n, t)| (n, t + sd * noise.next())).collect()
    }

    #[test]
    fn each_law_is_found_in_its_own_points() {
        type Truth = (Law, fn(f64) -> f64);
        let truths: [Truth; 4] = [
            (Law::Constant, |_| 500.0),
            (Law::Linear, |n| 100.0 + 41.0 * (n - 1.0)),
            (Law::NLogN, |n| 100.0 + 10.0 * n * n.log2()),
            (Law::Quadratic, |n| 100.0 + 3.0 * n * n),
        ];
        for (truth, of) in truths {
            let mut noise = Noise(1);
            let trials = 200;
            let right = (0..trials).filter(|_| {
                let found = law(&runs(&mut noise, 5.0, of)).unwrap();
                found.law == truth || found.alike.contains(&truth)
            });
            let right = right.count();
            // A constant's slope is seen where there is none in 5 of 100.
            assert!(right * 100 >= 93 * trials, "{truth:?}: {right} of {trials}");
            let exact = law(&SIZES.map(|n| (n, of(n)))).unwrap();
            assert_eq!((exact.law, exact.at(3.0).round()), (truth, of(3.0).round()));
        }
    }

    #[test]
    fn slope_and_band_hold_the_truth_as_often_as_they_say() {
        let mut noise = Noise(2);
        let trials = 1000;
        let (mut slopes, mut runs_held) = (0, 0);
        for _ in 0..trials {
            let found = through(Law::Linear, &runs(&mut noise, 8.0, |n| 60.0 + 41.0 * n)).unwrap();
            slopes += usize::from((found.slope - 41.0).abs() <= found.slope_error.unwrap());
            let one_more = 60.0 + 41.0 * 32.0 + 8.0 * noise.next();
            runs_held += usize::from((found.at(32.0) - one_more).abs() <= found.band_at(32.0).unwrap());
        }
        for held in [slopes, runs_held] {
            // 95 %, three standard errors.
            assert!((930..=970).contains(&held), "{slopes} {runs_held}");
        }
    }

    #[test]
    fn a_part_follows_the_whole_where_it_could_as_well() {
        let mut noise = Noise(3);
        let (mut bent, mut still) = (0, 0);
        let bends = |found: &Fitted| matches!(found.law, Law::NLogN | Law::Quadratic);
        for _ in 0..100 {
            let part = runs(&mut noise, 60.0, |n| 100.0 + 20.0 * n);
            let (own, as_whole) = (law(&part).unwrap(), law_of_part(&part, Law::Linear).unwrap());
            bent += usize::from(bends(&own));
            still += usize::from(bends(&as_whole));
            if own.law != as_whole.law {
                assert!(as_whole.law == Law::Linear && as_whole.alike.contains(&own.law), "{own:?} {as_whole:?}");
            }
        }
        assert!(bent > 20 && still * 3 < bent, "{bent}, then {still}");
        // What is no line stays none.
        let curved = runs(&mut noise, 1.0, |n| 3.0 * n * n);
        assert_eq!(law_of_part(&curved, Law::Linear).unwrap().law, Law::Quadratic);
    }

    #[test]
    fn few_sizes_say_little() {
        assert_eq!(law(&[(2.0, 5.0), (2.0, 6.0)]), None);
        assert_eq!(law(&[]), None);
        let two = law(&[(1.0, 5.0), (2.0, 7.0)]).unwrap();
        assert_eq!((two.law, two.slope, two.slope_error, two.band_at(4.0)), (Law::Linear, 2.0, None, None));
        let level = law(&[(1.0, 5.0), (1.0, 7.0), (2.0, 5.5), (2.0, 6.5)]).unwrap();
        assert_eq!((level.law, level.base), (Law::Constant, 6.0));
    }
}
