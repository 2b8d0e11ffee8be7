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

use super::{Budget, Budgets, Kind, Limit, Noise, Observed, Undecided, What};
use analysis::floor;
use serde::{Deserialize, Serialize};
use statistics::quantile::{half_to_the, median, median_interval};
use statistics::verdict::{Ask, Comparison};
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
    /// Null if there is no baseline to compute it from.
    pub limit_value: Option<f64>,
    /// The unit of all amounts: `ns`, `bytes` or `instructions`.
    #[serde(default)]
    pub unit: String,
    /// Median of the boots, with its interval. Null if no boot has the quantity.
    pub median: Option<Interval>,
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
    /// The reason why the boots do not decide the budget. Null if they do.
    #[serde(default)]
    pub undecided: Option<Undecided>,
    /// More about that reason: names that differ, similar names.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

impl Checked {
    /// A budget of which nothing is known yet.
    fn new(budget: &Budget, observed: &Observed) -> Checked {
        let limit_value = match budget.limit {
            Limit::AtMost(limit) => Some(limit),
            Limit::Over(_) | Limit::OverShare(_) => None,
        };
        Checked {
            of: observed.name.clone(),
            what: budget.what.clone(),
            limit: budget.text.clone(),
            line: budget.line,
            limit_value,
            unit: unit(budget.what.kind, observed).to_owned(),
            median: None,
            baseline: None,
            boots: 0,
            p_over: None,
            p_over_corrected: None,
            p_within: None,
            status: Status::CannotTell,
            undecided: None,
            detail: String::new(),
        }
    }

    fn undecided(self, why: Undecided, detail: String) -> Checked {
        Checked { undecided: Some(why), detail, p_over: None, p_within: None, ..self }
    }
}

/// The boots with which relative limits compare.
#[derive(Clone, Debug)]
pub enum Baseline {
    /// Boots of another variant of the same bench, in the same rounds.
    Rounds(Box<Observed>),
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
    /// No budget is for the machine of the boots.
    #[error("no budget is for {of}, which is \"{about}\"; those of the file are for {}", .scopes.join(" and "))]
    Machine {
        /// Name of the configuration.
        of: String,
        /// Its hardware.
        about: String,
        /// The machines that have budgets.
        scopes: Vec<String>,
    },
    /// The boots do not show which part of their time is instructions.
    #[error(
        "line {line}: `{limit}`: {of} does not show its timed waits, so nothing tells its instructions; boot it again with \
         this version, or write a share, as `+5%`"
    )]
    WaitsUnknown {
        /// The budget's line.
        line: usize,
        /// Name of the configuration.
        of: String,
        /// The limit as written in the file.
        limit: String,
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
    for (observed, baseline) in all {
        let before = checked.len();
        for budget in budgets.for_boots(&observed.about) {
            checked.push(check_one(budget, budgets.kernel.as_deref(), observed, baseline.as_ref())?);
        }
        if checked.len() == before {
            let (of, about) = (observed.name.clone(), observed.about.hardware());
            return Err(Unknown::Machine { of, about, scopes: budgets.scopes() });
        }
    }
    let p_values: Vec<f64> = checked.iter().filter_map(|c| c.p_over).collect();
    let mut corrected = holm::corrected(&p_values).into_iter();
    for c in checked.iter_mut().filter(|c| c.p_over.is_some()) {
        c.p_over_corrected = corrected.next();
        c.status = match (c.p_over_corrected, c.p_within) {
            (Some(over), _) if over <= ALPHA => Status::Over,
            (_, Some(within)) if within <= ALPHA => Status::Within,
            _ => Status::CannotTell,
        };
        c.undecided = (c.status == Status::CannotTell).then_some(Undecided::Noise);
    }
    Ok(checked)
}

/// The largest p-value that is evidence.
const ALPHA: f64 = 1.0 - CONFIDENCE;

fn check_one(
    budget: &Budget,
    kernel: Option<&str>,
    observed: &Observed,
    baseline: Option<&Baseline>,
) -> Result<Checked, Unknown> {
    let others: &[Observed] = match baseline {
        Some(Baseline::Rounds(first)) => std::slice::from_ref(&**first),
        Some(Baseline::Apart(several)) => several,
        None => &[],
    };
    same_unit(budget, observed)?;
    let mut checked = Checked::new(budget, observed);
    if let Some((why, detail)) = cannot_compare(budget, kernel, observed, baseline) {
        return Ok(checked.undecided(why, detail));
    }
    let values = find(budget, observed, others)?;
    checked.median = median_interval(&sorted(&values.iter().map(|v| v.1).collect::<Vec<f64>>()));
    checked.boots = values.len();
    let missing = missing(observed, &budget.what, &values);
    if values.is_empty() && missing == 0 {
        return Ok(checked.undecided(Undecided::NoEvidence, nearest(&observed.nearest(&budget.what))));
    }
    // The least p-value that this number of boots can have, whatever they measure.
    let p_least = match (budget.limit, baseline) {
        (Limit::AtMost(limit), _) => absolute(limit, &values, missing, observed.noise, &mut checked),
        (_, None) => return Err(Unknown::NoBaseline { line: budget.line, limit: budget.text.clone() }),
        (limit, Some(Baseline::Rounds(first))) => {
            let first = find(budget, first, std::slice::from_ref(observed))?;
            relative(limit, &first, &values, observed.noise, true, &mut checked)
        }
        (limit, Some(Baseline::Apart(several))) => {
            let mut slowest: Vec<(u32, f64)> = Vec::new();
            for bench in several.iter().filter(|bench| bench.boots > 0) {
                let values = find(budget, bench, std::slice::from_ref(observed))?;
                let slower = slowest.is_empty() || median_of(&values) > median_of(&slowest);
                slowest = if slower { values } else { slowest };
            }
            relative(limit, &slowest, &values, observed.noise, false, &mut checked)
        }
    };
    if budget.limit.is_relative() && checked.baseline.is_none() {
        return Ok(checked.undecided(Undecided::NoEvidence, "; nor has the baseline".to_owned()));
    }
    if p_least > ALPHA {
        return Ok(checked.undecided(Undecided::TooFew, String::new()));
    }
    if budget.limit.is_relative() && missing > 0 {
        checked.p_within = checked.p_within.map(|_| 1.0);
        checked.status = if checked.status == Status::Within { Status::CannotTell } else { checked.status };
    }
    if checked.p_over.is_none() && checked.status == Status::CannotTell {
        checked.undecided = Some(Undecided::Layout);
    }
    Ok(checked)
}

/// The reason why boots say nothing about a budget, whatever they measured: no boot reached its end mark, or they are of
/// another kernel or other hardware. With more about it.
fn cannot_compare(
    budget: &Budget,
    kernel: Option<&str>,
    observed: &Observed,
    baseline: Option<&Baseline>,
) -> Option<(Undecided, String)> {
    if observed.boots == 0 {
        return Some((Undecided::NoBoots, String::new()));
    }
    if let Some(kernel) = kernel.filter(|kernel| !observed.about.is_of_kernel(kernel)) {
        let booted = if observed.about.kernel.is_empty() { "an unknown one" } else { &observed.about.kernel };
        return Some((Undecided::OtherKernel, format!("{kernel}, and not {booted}")));
    }
    let Some(Baseline::Apart(others)) = baseline.filter(|_| budget.limit.is_relative()) else { return None };
    let here = observed.about.hardware();
    let differs = |other: &&Observed| {
        let there = other.about.hardware();
        other.boots > 0 && !there.is_empty() && !here.is_empty() && there != here
    };
    let other = others.iter().find(differs)?;
    Some((Undecided::OtherSetup, format!("{}, and not {here}", other.about.hardware())))
}

/// Refuses a limit in another unit than that of the boots.
fn same_unit(budget: &Budget, observed: &Observed) -> Result<(), Unknown> {
    let (line, of, what, limit) = (budget.line, observed.name.clone(), budget.what.clone(), budget.text.clone());
    match (budget.unit, observed.noise) {
        // A metric has its own unit: timed waits are time.
        _ if budget.what.kind == Kind::Metric => Ok(()),
        (Some(Unit::Nanoseconds), _) if observed.is_priced => Ok(()),
        (Some(Unit::Instructions), _) if observed.is_priced => Err(Unknown::NotCounted { line, of }),
        (Some(Unit::Nanoseconds), Noise::Dithered | Noise::Repeats) => {
            let instructions = |ns: f64| Unit::Instructions.show(Ns::rounded(ns));
            let instead = match budget.limit {
                Limit::AtMost(ns) => instructions(ns),
                Limit::Over(ns) => format!("+{}", instructions(ns)),
                Limit::OverShare(_) => limit.clone(),
            };
            Err(Unknown::NoTime { line, of, what, limit, instead })
        }
        (Some(Unit::Instructions), Noise::Dithered | Noise::Repeats) if observed.has_unknown_waits => {
            Err(Unknown::WaitsUnknown { line, of, limit })
        }
        (Some(Unit::Instructions), Noise::Clock) => Err(Unknown::NotCounted { line, of }),
        _ => Ok(()),
    }
}

/// The name of the unit of a quantity's amounts.
fn unit(kind: Kind, observed: &Observed) -> &'static str {
    match (kind, observed.noise) {
        (Kind::Memory, _) => "bytes",
        (Kind::Metric, _) | (Kind::Total | Kind::Phase | Kind::Function | Kind::Milestone, Noise::Clock) => {
            Unit::Nanoseconds.name()
        }
        _ if observed.is_priced => Unit::Priced.name(),
        _ if observed.has_unknown_waits => Unit::GuestTime.name(),
        _ => Unit::Instructions.name(),
    }
}

/// The boots' values of the limited quantity, by round. None have evidence of it if the list is empty.
fn find(budget: &Budget, observed: &Observed, others: &[Observed]) -> Result<Vec<(u32, f64)>, Unknown> {
    let what = &budget.what;
    if let Some(values) = observed.of(what, others) {
        return Ok(values.into_iter().collect());
    }
    let (line, of) = (budget.line, observed.name.clone());
    if what.kind == Kind::Instructions && observed.noise == Noise::Clock {
        return Err(Unknown::NotCounted { line, of });
    }
    // A metric's name is known to be right. A row's may be right if the trace that would show it is lost.
    let may_be_lost = match what.kind {
        Kind::Memory | Kind::Metric => true,
        Kind::Phase | Kind::Function | Kind::Instructions => observed.lacks_a_trace(),
        Kind::Total | Kind::Milestone => false,
    };
    match may_be_lost {
        true => Ok(Vec::new()),
        false => Err(Unknown::Name { line, of, what: what.clone(), near: observed.nearest(what) }),
    }
}

fn median_of(values: &[(u32, f64)]) -> f64 {
    median(&sorted(&values.iter().map(|v| v.1).collect::<Vec<f64>>()))
}

/// Number of boots that never passed the milestone although they reached their end mark. They count as exceeding the limit.
fn missing(observed: &Observed, what: &What, values: &[(u32, f64)]) -> usize {
    if what.kind == Kind::Milestone { observed.boots.saturating_sub(values.len()) } else { 0 }
}

/// Checks an absolute limit. Returns the least p-value that this number of boots can have.
fn absolute(limit: f64, values: &[(u32, f64)], missing: usize, noise: Noise, checked: &mut Checked) -> f64 {
    if noise == Noise::Repeats {
        let is_over = missing > 0 || checked.median.is_some_and(|median| median.estimate > limit);
        checked.status = if is_over { Status::Over } else { Status::Within };
        return 0.0;
    }
    let within = values.iter().filter(|v| v.1 <= limit).count();
    let all = values.len() + missing;
    checked.p_over = Some(at_least(all - within, all));
    checked.p_within = Some(at_least(within, all));
    half_to_the(all)
}

/// Checks a limit relative to a baseline. Returns the least p-value that this number of boots can have.
fn relative(
    limit: Limit,
    baseline: &[(u32, f64)],
    values: &[(u32, f64)],
    noise: Noise,
    same_rounds: bool,
    checked: &mut Checked,
) -> f64 {
    let allowed = |base: f64| match limit {
        Limit::AtMost(most) => most,
        Limit::Over(more) => base + more,
        Limit::OverShare(share) => base * (1.0 + share),
    };
    checked.baseline = median_interval(&sorted(&baseline.iter().map(|v| v.1).collect::<Vec<f64>>()));
    let (Some(before), Some(median)) = (checked.baseline, checked.median) else { return 1.0 };
    let limit_value = allowed(before.estimate);
    checked.limit_value = Some(limit_value);
    if noise == Noise::Repeats {
        let floor = 1.0 + floor::INSTRUCTIONS;
        checked.status = match median.estimate {
            value if value <= limit_value => Status::Within,
            value if value > limit_value * floor => Status::Over,
            _ => Status::CannotTell,
        };
        return 0.0;
    }
    let comparison = if same_rounds && noise == Noise::Clock {
        let second: std::collections::BTreeMap<u32, f64> = values.iter().copied().collect();
        let both = baseline.iter().filter_map(|(round, a)| Some((allowed(*a), *second.get(round)?)));
        let (first, second): (Vec<f64>, Vec<f64>) = both.unzip();
        pairs::estimate(&first, &second, &Ask::default())
    } else {
        let first: Vec<f64> = baseline.iter().map(|v| allowed(v.1)).collect();
        dithered::estimate(&first, &values.iter().map(|v| v.1).collect::<Vec<f64>>())
    };
    let (over, within) = comparison.as_ref().map_or((1.0, 1.0), one_sided);
    (checked.p_over, checked.p_within) = (Some(over), Some(within));
    // A test is two-sided, and a budget asks for one side.
    comparison.map_or(1.0, |comparison| comparison.p_least / 2.0)
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
mod tests;
