//! Decides whether boots keep their budgets, with a test of significance.
//!
//! *Over* needs a p-value of at most 5 %, corrected for all budgets of a file ([`holm`]), because users ignore a gate with
//! false alarms. *Within* needs the same evidence for the other side. Without evidence for either, the answer is *cannot
//! tell*. Tests are one-sided, so five boots can suffice.
//!
//! The sign test compares an absolute limit with the median (David and Nagaraja, Order Statistics, 7.1). A relative limit uses
//! pairs of boots ([`pairs`]) if the boots and the baseline are variants of one bench. Else it compares all boots of the two
//! ([`dithered`]). If the baseline has several benches, the slowest one counts, because noise of the host that the baseline
//! already shows is not a regression. Deterministic boots that only repeat are exact, but a difference that layout alone can
//! cause ([`floor::INSTRUCTIONS`]) does not count.

use super::{Budget, Budgets, Kind, Limit, Noise, Observed, What};
use analysis::floor;
use serde::{Deserialize, Serialize};
use statistics::quantile::{half_to_the, median, median_interval};
use statistics::verdict::Comparison;
use statistics::{CONFIDENCE, Interval, dithered, holm, pairs, sorted};
use timeline::{Ns, Unit};

/// The verdict on a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// The budget is kept.
    Within,
    /// The budget is exceeded.
    Over,
    /// These boots do not decide.
    CannotTell,
}

/// A budget with the result of its check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Checked {
    /// Name of the configuration whose boots were checked.
    pub of: String,
    /// The limited quantity.
    #[serde(flatten)]
    pub what: What,
    /// The limit as written in the file.
    pub limit: String,
    /// Line of the budget in the file.
    pub line: usize,
    /// The limit as a number: ns, bytes or instructions. For a relative limit, computed from the baseline's median.
    pub limit_value: f64,
    /// The unit of all amounts: `ns`, `bytes` or `instructions`.
    #[serde(default)]
    pub unit: String,
    /// Median of the boots, with its interval.
    pub median: Interval,
    /// Median of the baseline with its interval, if the limit is relative.
    pub baseline: Option<Interval>,
    /// Number of boots.
    pub boots: usize,
    /// Probability that by chance alone the boots exceed the limit this clearly. Null if chance is not involved.
    pub p_over: Option<f64>,
    /// The same, corrected for all budgets together.
    pub p_over_corrected: Option<f64>,
    /// Probability that by chance alone the boots keep the limit this clearly.
    pub p_within: Option<f64>,
    /// The verdict.
    pub status: Status,
}

/// The boots with which relative limits compare.
#[derive(Clone, Debug)]
pub enum Baseline {
    /// Boots of another variant of the same bench, in the same rounds.
    Rounds(Observed),
    /// Boots of other benches, at other times.
    Apart(Vec<Observed>),
}

/// A budget that cannot be checked.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Unknown {
    /// No quantity of the boots has this name.
    #[error("line {line}: {of} has no {what}{}", nearest(.near))]
    Name {
        /// The budget's line.
        line: usize,
        /// Name of the configuration.
        of: String,
        /// The limited quantity.
        what: What,
        /// The most similar names of the same kind.
        near: Vec<String>,
    },
    /// The limit is a time, and the boots count instructions.
    #[error(
        "line {line}: `{limit}` is time, and {of} has none: its boots are deterministic and count instructions. Write a \
         limit of {what} in instructions, as `{instead}`, or a share, as `+5%`"
    )]
    NoTime {
        /// The budget's line.
        line: usize,
        /// Name of the configuration.
        of: String,
        /// The limited quantity.
        what: What,
        /// The limit as written in the file.
        limit: String,
        /// The same limit, if each nanosecond of guest time is an instruction.
        instead: String,
    },
    /// The boots do not count instructions.
    #[error("line {line}: {of} counts no instructions: its boots were not --deterministic")]
    NotCounted {
        /// The budget's line.
        line: usize,
        /// Name of the configuration.
        of: String,
    },
    /// The limit is relative, but there is no baseline.
    #[error(
        "line {line}: `{limit}` is over a baseline: name one with --baseline, or in the file (baseline = \"history\")"
    )]
    NoBaseline {
        /// The budget's line.
        line: usize,
        /// The limit as written in the file.
        limit: String,
    },
}

fn nearest(near: &[String]) -> String {
    if near.is_empty() {
        return ", and nothing of that kind".to_owned();
    }
    let quoted: Vec<String> = near.iter().map(|name| format!("{name:?}")).collect();
    format!("; nearest: {}", quoted.join(", "))
}

/// Checks all budgets for several groups of boots, each with its baseline. All checks are one family.
pub fn check(budgets: &Budgets, all: &[(Observed, Option<Baseline>)]) -> Result<Vec<Checked>, Unknown> {
    let mut checked = Vec::new();
    for (observed, baseline) in all.iter().filter(|(observed, _)| observed.boots > 0) {
        for budget in &budgets.all {
            checked.push(check_one(budget, observed, baseline.as_ref())?);
        }
    }
    let p_values: Vec<f64> = checked.iter().filter_map(|c| c.p_over).collect();
    let mut corrected = holm::corrected(&p_values).into_iter();
    let alpha = 1.0 - CONFIDENCE;
    for c in checked.iter_mut().filter(|c| c.p_over.is_some()) {
        c.p_over_corrected = corrected.next();
        c.status = match (c.p_over_corrected, c.p_within) {
            (Some(over), _) if over <= alpha => Status::Over,
            (_, Some(within)) if within <= alpha => Status::Within,
            _ => Status::CannotTell,
        };
    }
    Ok(checked)
}

fn check_one(budget: &Budget, observed: &Observed, baseline: Option<&Baseline>) -> Result<Checked, Unknown> {
    let others: &[Observed] = match baseline {
        Some(Baseline::Rounds(first)) => std::slice::from_ref(first),
        Some(Baseline::Apart(several)) => several,
        None => &[],
    };
    let values = find(budget, observed, others)?;
    same_unit(budget, observed)?;
    let mut checked = Checked {
        of: observed.name.clone(),
        what: budget.what.clone(),
        limit: budget.text.clone(),
        line: budget.line,
        limit_value: f64::NAN,
        unit: unit(budget.what.kind, observed.noise).to_owned(),
        median: interval(&values.iter().map(|v| v.1).collect::<Vec<f64>>()),
        baseline: None,
        boots: values.len(),
        p_over: None,
        p_over_corrected: None,
        p_within: None,
        status: Status::CannotTell,
    };
    match (budget.limit, baseline) {
        (Limit::AtMost(limit), _) => {
            absolute(limit, &values, missing(observed, &budget.what, &values), observed.noise, &mut checked)
        }
        (_, None) => return Err(Unknown::NoBaseline { line: budget.line, limit: budget.text.clone() }),
        (limit, Some(Baseline::Rounds(first))) => {
            let first = find(budget, first, std::slice::from_ref(observed))?;
            relative(limit, &first, &values, observed.noise, true, &mut checked);
        }
        (limit, Some(Baseline::Apart(several))) => {
            let mut slowest: Option<Vec<(u32, f64)>> = None;
            for bench in several.iter().filter(|bench| bench.boots > 0) {
                let values = find(budget, bench, std::slice::from_ref(observed))?;
                let slower = slowest.as_ref().is_none_or(|s| median_of(&values) > median_of(s));
                slowest = if slower { Some(values) } else { slowest };
            }
            let missing = || Unknown::NoBaseline { line: budget.line, limit: budget.text.clone() };
            relative(limit, &slowest.ok_or_else(missing)?, &values, observed.noise, false, &mut checked);
        }
    }
    if budget.limit.is_relative() && missing(observed, &budget.what, &values) > 0 {
        checked.p_within = checked.p_within.map(|_| 1.0);
        checked.status = if checked.status == Status::Within { Status::CannotTell } else { checked.status };
    }
    Ok(checked)
}

/// Refuses a limit in another unit than that of the boots.
fn same_unit(budget: &Budget, observed: &Observed) -> Result<(), Unknown> {
    let (line, of, what, limit) = (budget.line, observed.name.clone(), budget.what.clone(), budget.text.clone());
    match (budget.unit, observed.noise) {
        (Some(Unit::Nanoseconds), Noise::Dithered | Noise::Repeats) => {
            let instructions = |ns: f64| Unit::Instructions.show(Ns::rounded(ns));
            let instead = match budget.limit {
                Limit::AtMost(ns) => instructions(ns),
                Limit::Over(ns) => format!("+{}", instructions(ns)),
                Limit::OverShare(_) => limit.clone(),
            };
            Err(Unknown::NoTime { line, of, what, limit, instead })
        }
        (Some(Unit::Instructions), Noise::Clock) => Err(Unknown::NotCounted { line, of }),
        _ => Ok(()),
    }
}

/// The name of the unit of a quantity's amounts.
fn unit(kind: Kind, noise: Noise) -> &'static str {
    match (kind, noise) {
        (Kind::Memory, _) => "bytes",
        (Kind::Metric, _) | (Kind::Total | Kind::Phase | Kind::Function | Kind::Milestone, Noise::Clock) => {
            Unit::Nanoseconds.name()
        }
        _ => Unit::Instructions.name(),
    }
}

/// The boots' values of the limited quantity, by round. A phase, row or function that only the others have counts as 0.
fn find(budget: &Budget, observed: &Observed, others: &[Observed]) -> Result<Vec<(u32, f64)>, Unknown> {
    let what = &budget.what;
    let only_others_have_it = || {
        others.iter().any(|other| other.of(what).is_some())
            && !matches!(what.kind, Kind::Milestone | Kind::Memory | Kind::Metric)
    };
    if let Some(values) = observed.of(what).or_else(|| only_others_have_it().then(|| observed.nothing())) {
        return Ok(values.into_iter().collect());
    }
    let (line, of) = (budget.line, observed.name.clone());
    if budget.what.kind == Kind::Instructions && observed.noise == Noise::Clock {
        return Err(Unknown::NotCounted { line, of });
    }
    let near = observed.nearest(&budget.what);
    Err(Unknown::Name { line, of, what: budget.what.clone(), near })
}

fn interval(values: &[f64]) -> Interval {
    let unknown = Interval { estimate: f64::NAN, low: f64::NAN, high: f64::NAN, confidence: 0.0 };
    median_interval(&sorted(values)).unwrap_or(unknown)
}

fn median_of(values: &[(u32, f64)]) -> f64 {
    median(&sorted(&values.iter().map(|v| v.1).collect::<Vec<f64>>()))
}

/// Number of boots that never passed the milestone although they reached their end mark. They count as exceeding the limit.
fn missing(observed: &Observed, what: &What, values: &[(u32, f64)]) -> usize {
    if what.kind == Kind::Milestone { observed.boots.saturating_sub(values.len()) } else { 0 }
}

/// Checks an absolute limit.
fn absolute(limit: f64, values: &[(u32, f64)], missing: usize, noise: Noise, checked: &mut Checked) {
    checked.limit_value = limit;
    if noise == Noise::Repeats {
        checked.status = if checked.median.estimate > limit || missing > 0 { Status::Over } else { Status::Within };
        return;
    }
    let within = values.iter().filter(|v| v.1 <= limit).count();
    let all = values.len() + missing;
    checked.p_over = Some(at_least(all - within, all));
    checked.p_within = Some(at_least(within, all));
}

/// Checks a limit relative to a baseline.
fn relative(
    limit: Limit,
    baseline: &[(u32, f64)],
    values: &[(u32, f64)],
    noise: Noise,
    same_rounds: bool,
    checked: &mut Checked,
) {
    let allowed = |base: f64| match limit {
        Limit::AtMost(most) => most,
        Limit::Over(more) => base + more,
        Limit::OverShare(share) => base * (1.0 + share),
    };
    let before = interval(&baseline.iter().map(|v| v.1).collect::<Vec<f64>>());
    checked.baseline = Some(before);
    checked.limit_value = allowed(before.estimate);
    if noise == Noise::Repeats {
        let floor = 1.0 + floor::INSTRUCTIONS;
        checked.status = match checked.median.estimate {
            value if value <= checked.limit_value => Status::Within,
            value if value > checked.limit_value * floor => Status::Over,
            _ => Status::CannotTell,
        };
        return;
    }
    let comparison = if same_rounds && noise == Noise::Clock {
        let second: std::collections::BTreeMap<u32, f64> = values.iter().copied().collect();
        let both = baseline.iter().filter_map(|(round, a)| Some((allowed(*a), *second.get(round)?)));
        let (first, second): (Vec<f64>, Vec<f64>) = both.unzip();
        pairs::estimate(&first, &second)
    } else {
        let first: Vec<f64> = baseline.iter().map(|v| allowed(v.1)).collect();
        dithered::estimate(&first, &values.iter().map(|v| v.1).collect::<Vec<f64>>())
    };
    let (over, within) = comparison.map_or((1.0, 1.0), |comparison| one_sided(&comparison));
    (checked.p_over, checked.p_within) = (Some(over), Some(within));
}

/// One-sided p-values of a two-sided test: for greater, and for less.
fn one_sided(comparison: &Comparison) -> (f64, f64) {
    let half = comparison.p.unwrap_or(1.0) / 2.0;
    match comparison.difference.estimate {
        d if d > 0.0 => (half, 1.0 - half),
        d if d < 0.0 => (1.0 - half, half),
        // Exactly the limit is allowed, but it is evidence for neither side unless all values are equal.
        _ => (1.0, if comparison.difference.low == 0.0 && comparison.difference.high == 0.0 { 0.0 } else { 1.0 }),
    }
}

/// Probability of at least `heads` heads in `n` throws of a coin.
fn at_least(heads: usize, n: usize) -> f64 {
    // For larger `n`, 1/2 to the power of `n` underflows. The same share of 1000 throws is evidence enough.
    const MAX_EXACT: usize = 1000;
    if n > MAX_EXACT {
        return at_least(heads * MAX_EXACT / n, MAX_EXACT);
    }
    let mut term = half_to_the(n);
    let mut sum = 0.0;
    for k in 0..=n {
        if k >= heads {
            sum += term;
        }
        term *= (n - k) as f64 / (k + 1) as f64;
    }
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(noise: Noise, values: &[f64]) -> Observed {
        let mut observed = Observed::new("boots", noise);
        for (round, value) in (0..).zip(values) {
            observed
                .add(round, [(What::total(), *value), (What::new(Kind::Function, "initcall acpi_init"), *value / 2.0)]);
        }
        observed
    }

    fn budgets(text: &str) -> Budgets {
        Budgets::parse(text).unwrap()
    }

    #[track_caller]
    fn status(text: &str, boots: &Observed, baseline: Option<Baseline>) -> Status {
        let checked = check(&budgets(text), &[(boots.clone(), baseline)]).unwrap();
        assert_eq!(checked.len(), 1);
        checked[0].status
    }

    const MS: f64 = 1e6;

    fn around(random: &mut fastrand::Rng, ms: f64, n: usize) -> Vec<f64> {
        (0..n).map(|_| ms * MS * (1.0 + 0.1 * -(1.0 - random.f64()).ln())).collect()
    }

    #[test]
    fn an_absolute_limit() {
        let boots = |values: &[f64]| observed(Noise::Clock, &values.iter().map(|v| v * MS).collect::<Vec<_>>());
        let clear = boots(&[101.0, 102.0, 104.0, 103.0, 150.0]);
        assert_eq!(status("total = \"100ms\"", &clear, None), Status::Over);
        assert_eq!(status("total = \"150ms\"", &clear, None), Status::Within);
        assert_eq!(status("total = \"102ms\"", &clear, None), Status::CannotTell);
        assert_eq!(status("total = \"1ms\"", &boots(&[100.0; 4]), None), Status::CannotTell, "four are too few");
        let one = observed(Noise::Repeats, &[100.0 * MS]);
        let limit = |text| status(text, &one, None);
        assert_eq!(limit("total = \"99.9M instr\""), Status::Over, "one that repeats exactly is enough");
        assert_eq!(limit("total = \"100M instr\""), Status::Within);
    }

    #[test]
    fn a_milestone_that_is_never_passed_keeps_no_budget() {
        let ssh = || What::new(Kind::Milestone, "unit:ssh.service");
        let boots = |missing: u32| {
            let mut boots = Observed::new("boots", Noise::Clock);
            for round in 0..12 {
                let passed = (round >= missing).then(|| (ssh(), 90.0 * MS));
                boots.add(round, std::iter::once((What::total(), 100.0 * MS)).chain(passed));
            }
            boots
        };
        let budget = "[milestone]\n\"unit:ssh.service\" = \"95ms\"";
        let of = |missing| status(budget, &boots(missing), None);
        assert_eq!([of(0), of(6), of(11)], [Status::Within, Status::CannotTell, Status::Over]);
        let relative = "[milestone]\n\"unit:ssh.service\" = \"+50%\"";
        let apart = || Some(Baseline::Apart(vec![boots(0)]));
        assert_eq!(status(relative, &boots(0), apart()), Status::Within);
        assert_eq!(status(relative, &boots(3), apart()), Status::CannotTell);
        let unknown = check(&budgets("[milestone]\nsshd = \"1s\""), &[(boots(0), None)]).unwrap_err();
        assert!(unknown.to_string().contains("unit:ssh.service"), "{unknown}");
    }

    #[test]
    fn a_relative_limit() {
        let boots = |ms: f64| observed(Noise::Clock, &(0..10).map(|i| (ms + f64::from(i)) * MS).collect::<Vec<_>>());
        for (ms, expected) in [(130.0, Status::Over), (100.0, Status::Within), (105.5, Status::CannotTell)] {
            let apart = Baseline::Apart(vec![boots(100.0)]);
            assert_eq!(status("total = \"+5%\"", &boots(ms), Some(apart)), expected, "{ms}");
        }
        // In the same rounds, the host's drift of 1 ms a round affects both.
        assert_eq!(status("total = \"+5%\"", &boots(106.0), Some(Baseline::Rounds(boots(100.0)))), Status::Over);
        let noisy = Baseline::Apart(vec![boots(100.0), boots(125.0), boots(101.0)]);
        assert_eq!(
            status("total = \"+5%\"", &boots(130.0), Some(noisy)),
            Status::CannotTell,
            "it was nearly as slow before"
        );
    }

    #[test]
    fn deterministic_boots_and_their_floor() {
        let boots = |value: f64| observed(Noise::Repeats, &[value]);
        for (value, expected) in [(1.0e9, Status::Within), (1.001e9, Status::CannotTell), (1.003e9, Status::Over)] {
            let apart = Baseline::Apart(vec![boots(1e9)]);
            assert_eq!(status("total = \"+0%\"", &boots(value), Some(apart)), expected, "{value}");
        }
    }

    #[test]
    fn time_is_no_limit_of_instructions_nor_they_of_time() {
        let refused = |text: &str, noise| check(&budgets(text), &[(observed(noise, &[1e9; 6]), None)]).unwrap_err();
        for noise in [Noise::Repeats, Noise::Dithered] {
            for (text, instead) in [
                ("total = \"1.2s\"", "`1.20 G instr`"),
                ("[function]\n\"initcall acpi_init\" = \"+2ms\"", "`+2.00 M instr`"),
            ] {
                let error = refused(text, noise).to_string();
                assert!(error.contains("is time") && error.contains(instead) && error.contains("+5%"), "{error}");
            }
        }
        let error = refused("total = \"1G instr\"", Noise::Clock).to_string();
        assert!(error.contains("--deterministic"), "{error}");
        let unit =
            |text: &str, noise| check(&budgets(text), &[(observed(noise, &[1.0; 6]), None)]).unwrap().remove(0).unit;
        assert_eq!(unit("total = \"1G instr\"", Noise::Dithered), "instructions");
        assert_eq!(unit("total = \"1s\"", Noise::Clock), "ns");
    }

    #[test]
    fn false_alarms_are_rare() {
        let mut random = fastrand::Rng::with_seed(30);
        // Budgets that are just kept: the limit is the median.
        let text = "total = [\"106.9315ms\", \"106.9315ms\", \"106.9315ms\", \"106.9315ms\", \"106.9315ms\"]";
        let trials = 2000;
        let alarms = (0..trials).filter(|_| {
            let boots = observed(Noise::Clock, &around(&mut random, 100.0, 12));
            check(&budgets(text), &[(boots, None)]).unwrap().iter().any(|c| c.status == Status::Over)
        });
        let rate = alarms.count() as f64 / f64::from(trials);
        assert!(rate <= 0.06, "{rate}");
    }

    #[test]
    fn a_regression_is_found() {
        let mut random = fastrand::Rng::with_seed(31);
        let found = (0..300).filter(|_| {
            let (before, now) = (around(&mut random, 100.0, 12), around(&mut random, 125.0, 12));
            let apart = Baseline::Apart(vec![observed(Noise::Clock, &before)]);
            status("total = \"+5%\"", &observed(Noise::Clock, &now), Some(apart)) == Status::Over
        });
        let found = found.count();
        assert!(found >= 270, "{found} of 300");
    }

    #[test]
    fn an_unknown_name_is_reported_with_similar_ones() {
        let boots = observed(Noise::Clock, &[1.0; 8]);
        let refused = |text: &str| check(&budgets(text), &[(boots.clone(), None)]).unwrap_err().to_string();
        let error = refused("\n[function]\nacpi_innit = \"1ms\"");
        assert!(error.contains("line 3") && error.contains("initcall acpi_init"), "{error}");
        assert!(refused("[phase]\nkernel = \"1ms\"").contains("nothing of that kind"));
        assert!(refused("[instructions]\ntotal = \"1G\"").contains("--deterministic"));
        assert!(refused("total = \"+5%\"").contains("--baseline"));
    }

    #[test]
    fn a_new_or_missing_row_counts_as_zero() {
        let with = observed(Noise::Clock, &[10.0 * MS; 6]);
        let mut without = Observed::new("before", Noise::Clock);
        (0..6).for_each(|round| without.add(round, [(What::total(), 1.0)]));
        let text = "[function]\n\"initcall acpi_init\" = \"+2ms\"";
        assert_eq!(status(text, &with, Some(Baseline::Apart(vec![without.clone()]))), Status::Over);
        assert_eq!(status(text, &without, Some(Baseline::Rounds(with))), Status::Within);
    }

    #[test]
    fn heads_of_coins() {
        for (heads, n, p) in [(0, 5, 1.0), (5, 5, 1.0 / 32.0), (4, 5, 6.0 / 32.0), (8, 10, 56.0 / 1024.0)] {
            assert!((at_least(heads, n) - p).abs() < 1e-12, "{heads} of {n}");
        }
        assert!(at_least(3000, 4000) < 1e-12 && at_least(2000, 4000) > 0.4);
    }
}
