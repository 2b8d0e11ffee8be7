//! Chooses and fits the scaling model of a time: `constant`, `n`, `n log n` or `n²`.
//!
//! Each model is a line in a function of the size, fitted by ordinary least squares to all runs. Cross-validation chooses the
//! model (Stone, Journal of the Royal Statistical Society B 36, 1974): each size in turn is left out and predicted from the
//! others, and the model with the smallest prediction errors wins. So a model with too much curvature loses, though it always
//! fits at least as well. A slope within its error counts as 0. Models that predict as well, within the standard error of the
//! difference, are reported too: three sizes rarely distinguish `n` from `n log n`.
//!
//! Errors are half the 95 % interval of Student's distribution, from the scatter about the model (Draper & Smith, Applied
//! Regression Analysis, 1.4). The band of a prediction contains one more run with that confidence, if the model holds there.

use crate::student_t::half_width;
use serde::{Deserialize, Serialize};

/// Growth of a time with a size `n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub enum ScalingModel {
    /// No growth.
    #[serde(rename = "constant")]
    Constant,
    /// Growth with `n`.
    #[serde(rename = "n")]
    Linear,
    /// Growth with `n log₂ n`.
    #[serde(rename = "n log n")]
    NLogN,
    /// Growth with `n²`.
    #[serde(rename = "n²")]
    Quadratic,
}

impl ScalingModel {
    /// All models, simplest first.
    pub const ALL: [ScalingModel; 4] =
        [ScalingModel::Constant, ScalingModel::Linear, ScalingModel::NLogN, ScalingModel::Quadratic];

    /// The function of the size in which the time is linear.
    pub fn of(self, size: f64) -> f64 {
        match self {
            ScalingModel::Constant => 0.0,
            ScalingModel::Linear => size,
            ScalingModel::NLogN => size * size.log2(),
            ScalingModel::Quadratic => size * size,
        }
    }

    /// Formula for tables and documents.
    pub fn name(self) -> &'static str {
        match self {
            ScalingModel::Constant => "constant",
            ScalingModel::Linear => "n",
            ScalingModel::NLogN => "n log n",
            ScalingModel::Quadratic => "n²",
        }
    }
}

/// A scaling model with its coefficients, in the unit of the times.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// The chosen model.
    pub model: ScalingModel,
    /// The part that does not grow.
    pub base: f64,
    /// Increase per unit of `n`, `n log₂ n` or `n²`. 0 for a constant.
    pub slope: f64,
    /// Half the interval of the slope. `None` if there are too few runs to measure scatter, and for a constant.
    pub slope_error: Option<f64>,
    /// Other models that predict as well. Empty if there are too few sizes for cross-validation.
    pub alike: Vec<ScalingModel>,
    freedom: usize,
    points: f64,
    middle: f64,
    spread: f64,
    /// Standard deviation about the model.
    scatter: f64,
}

impl Fitted {
    /// Value of the model at a size.
    pub fn at(&self, size: f64) -> f64 {
        self.base + self.slope * self.model.of(size)
    }

    /// Half the interval of the model's value at a size. `None` if there are too few runs to measure scatter.
    pub fn error_at(&self, size: f64) -> Option<f64> {
        self.half(size, 0.0)
    }

    /// Largest distance of one more run at this size from the model, if the model holds there. `None` if there are too few runs to
    /// measure scatter.
    pub fn band_at(&self, size: f64) -> Option<f64> {
        self.half(size, 1.0)
    }

    /// Half an interval at a size. `run` is 1 to include the scatter of one more run, else 0.
    fn half(&self, size: f64, run: f64) -> Option<f64> {
        let away = (self.model.of(size) - self.middle).powi(2);
        let far = if self.spread > 0.0 { away / self.spread } else { 0.0 };
        (self.freedom > 0)
            .then(|| half_width(self.freedom as f64) * self.scatter * (run + 1.0 / self.points + far).sqrt())
    }
}

/// Chooses and fits the model of these runs, each a size (from 1 on) and a time. Returns `None` for fewer than two different
/// sizes.
pub fn scaling_model(runs: &[(f64, f64)]) -> Option<Fitted> {
    let sizes = sizes(runs);
    if sizes.len() < 2 {
        return None;
    }
    let constant = || fit(ScalingModel::Constant, runs);
    let misses: Vec<(ScalingModel, Vec<f64>)> =
        ScalingModel::ALL.iter().filter_map(|&model| Some((model, prediction_errors(model, runs, &sizes)?))).collect();
    let best = misses.iter().min_by(|a, b| mean(&a.1).total_cmp(&mean(&b.1)));
    // A line fits any two sizes, so there is nothing to choose.
    let (mut model, mut alike) = (ScalingModel::Linear, Vec::new());
    if let Some((chosen, errors)) = best {
        model = *chosen;
        alike = misses.iter().filter(|(other, all)| other != chosen && as_good(all, errors)).map(|m| m.0).collect();
    }
    let mut fitted = fit(model, runs)?;
    if fitted.slope_error.is_some_and(|error| fitted.slope.abs() <= error) {
        fitted = constant()?;
        alike.retain(|&other| other != ScalingModel::Constant);
    }
    fitted.alike = alike;
    Some(fitted)
}

/// Minimum of twice the logarithm of the likelihood ratio at which a part gets another model than the whole. By chance it is
/// exceeded in 1 of 100 cases if the other model has one coefficient more (Wilks, Annals of Mathematical Statistics 9, 1938).
/// Here both have the same number, so it is exceeded less often.
const MIN_LOG_RATIO: f64 = 6.63;

/// Fits a part of a total whose model is `whole`: with the same model, unless the runs are evidence against it. Models of one
/// kind add up. Parts with slightly too much curvature by chance would sum to more than the total far outside the sizes.
pub fn scaling_model_of_part(runs: &[(f64, f64)], whole: ScalingModel) -> Option<Fitted> {
    let best = scaling_model(runs)?;
    if whole == ScalingModel::Constant || best.model == ScalingModel::Constant || best.model == whole {
        return Some(best);
    }
    let mut same = fit(whole, runs)?;
    let has_no_slope = same.slope_error.is_some_and(|error| same.slope.abs() <= error);
    if has_no_slope || best.points * 2.0 * (same.scatter / best.scatter).ln() >= MIN_LOG_RATIO {
        return Some(best);
    }
    same.alike = std::iter::once(best.model).chain(best.alike.into_iter().filter(|&other| other != whole)).collect();
    Some(same)
}

/// The different sizes, in order.
fn sizes(runs: &[(f64, f64)]) -> Vec<f64> {
    let mut sizes: Vec<f64> = runs.iter().map(|run| run.0).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    sizes
}

/// Mean square error of the prediction of each size by a model that is fitted to the other sizes. `None` if the other sizes do
/// not determine the model.
fn prediction_errors(model: ScalingModel, runs: &[(f64, f64)], sizes: &[f64]) -> Option<Vec<f64>> {
    if sizes.len() < 3 {
        return None;
    }
    let miss = |size: f64| {
        let (held, rest): (Vec<_>, Vec<_>) = runs.iter().copied().partition(|run| run.0 == size);
        let fitted = fit(model, &rest)?;
        Some(mean(&held.iter().map(|run| (run.1 - fitted.at(size)).powi(2)).collect::<Vec<f64>>()))
    };
    sizes.iter().map(|&size| miss(size)).collect()
}

/// True if a model predicts as well as the best one, within the standard error of the difference over the sizes.
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

/// Fits a model to runs. `None` if they do not determine its slope.
fn fit(model: ScalingModel, runs: &[(f64, f64)]) -> Option<Fitted> {
    let points = runs.len() as f64;
    let middle = runs.iter().map(|run| model.of(run.0)).sum::<f64>() / points;
    let height = runs.iter().map(|run| run.1).sum::<f64>() / points;
    let spread: f64 = runs.iter().map(|run| (model.of(run.0) - middle).powi(2)).sum();
    let grows = model != ScalingModel::Constant;
    if runs.is_empty() || !spread.is_finite() || (grows && spread <= 0.0) {
        return None;
    }
    let rise: f64 = runs.iter().map(|run| (model.of(run.0) - middle) * (run.1 - height)).sum();
    let slope = if grows { rise / spread } else { 0.0 };
    let base = height - slope * middle;
    let off: f64 = runs.iter().map(|run| (run.1 - base - slope * model.of(run.0)).powi(2)).sum();
    let freedom = runs.len().saturating_sub(if grows { 2 } else { 1 });
    let scatter = (off / freedom.max(1) as f64).sqrt();
    let slope_error = (freedom > 0 && grows).then(|| half_width(freedom as f64) * scatter / spread.sqrt());
    Some(Fitted { model, base, slope, slope_error, alike: Vec::new(), freedom, points, middle, spread, scatter })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [f64; 5] = [1.0, 2.0, 4.0, 8.0, 16.0];

    /// Noise from a simple deterministic generator, summed to look normal.
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
    fn each_model_is_found_in_its_points() {
        type Truth = (ScalingModel, fn(f64) -> f64);
        let truths: [Truth; 4] = [
            (ScalingModel::Constant, |_| 500.0),
            (ScalingModel::Linear, |n| 100.0 + 41.0 * (n - 1.0)),
            (ScalingModel::NLogN, |n| 100.0 + 10.0 * n * n.log2()),
            (ScalingModel::Quadratic, |n| 100.0 + 3.0 * n * n),
        ];
        for (truth, of) in truths {
            let mut noise = Noise(1);
            let trials = 200;
            let right = (0..trials).filter(|_| {
                let found = scaling_model(&runs(&mut noise, 5.0, of)).unwrap();
                found.model == truth || found.alike.contains(&truth)
            });
            let right = right.count();
            // In 5 of 100 cases, a constant seems to have a slope.
            assert!(right * 100 >= 93 * trials, "{truth:?}: {right} of {trials}");
            let exact = scaling_model(&SIZES.map(|n| (n, of(n)))).unwrap();
            assert_eq!((exact.model, exact.at(3.0).round()), (truth, of(3.0).round()));
        }
    }

    #[test]
    fn slope_and_band_contain_the_truth_as_often_as_stated() {
        let mut noise = Noise(2);
        let trials = 1000;
        let (mut slopes, mut runs_held) = (0, 0);
        for _ in 0..trials {
            let found = fit(ScalingModel::Linear, &runs(&mut noise, 8.0, |n| 60.0 + 41.0 * n)).unwrap();
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
    fn a_part_follows_the_whole_if_that_fits_as_well() {
        let mut noise = Noise(3);
        let (mut bent, mut still) = (0, 0);
        let bends = |found: &Fitted| matches!(found.model, ScalingModel::NLogN | ScalingModel::Quadratic);
        for _ in 0..100 {
            let part = runs(&mut noise, 60.0, |n| 100.0 + 20.0 * n);
            let (own, as_whole) =
                (scaling_model(&part).unwrap(), scaling_model_of_part(&part, ScalingModel::Linear).unwrap());
            bent += usize::from(bends(&own));
            still += usize::from(bends(&as_whole));
            if own.model != as_whole.model {
                assert!(
                    as_whole.model == ScalingModel::Linear && as_whole.alike.contains(&own.model),
                    "{own:?} {as_whole:?}"
                );
            }
        }
        assert!(bent > 20 && still * 3 < bent, "{bent}, then {still}");
        // A part that is not linear does not become linear.
        let curved = runs(&mut noise, 1.0, |n| 3.0 * n * n);
        assert_eq!(scaling_model_of_part(&curved, ScalingModel::Linear).unwrap().model, ScalingModel::Quadratic);
    }

    #[test]
    fn few_sizes_give_little_information() {
        assert_eq!(scaling_model(&[(2.0, 5.0), (2.0, 6.0)]), None);
        assert_eq!(scaling_model(&[]), None);
        let two = scaling_model(&[(1.0, 5.0), (2.0, 7.0)]).unwrap();
        assert_eq!((two.model, two.slope, two.slope_error, two.band_at(4.0)), (ScalingModel::Linear, 2.0, None, None));
        let level = scaling_model(&[(1.0, 5.0), (1.0, 7.0), (2.0, 5.5), (2.0, 6.5)]).unwrap();
        assert_eq!((level.model, level.base), (ScalingModel::Constant, 6.0));
    }

    #[test]
    fn a_model_is_as_good_if_it_misses_more_by_no_more_than_the_standard_error() {
        let best = [1.0; 3];
        assert!(!as_good(&[1.1, 1.1, 1.1], &best), "more at each size, and the error is 0");
        // 0.5 more on average. The standard error is 0.5 for differences of 1.5, 0 and 0, and 0.29 for 1, 0.5 and 0.
        assert!(as_good(&[2.5, 1.0, 1.0], &best));
        assert!(!as_good(&[2.0, 1.5, 1.0], &best));
    }
}
