//! What a comparison says, in words one can act on.
//!
//! *Faster* and *slower* need a difference that chance makes at most 5 times of 100, over all comparisons of its family:
//! totals and metrics ([`super::holm`]), phases and rows ([`super::max_t`]). *No difference* is a claim too, and needs evidence: the whole interval of the ratio lies
//! within the margin that the user says matters (an equivalence test by interval inclusion: Westlake 1972; Schuirmann,
//! Journal of Pharmacokinetics and Biopharmaceutics 15, 1987). In between, the runs were *too noisy*, and how many would
//! do is forecast. With so few runs that no outcome could have been significant, it is *too few*, whatever they show.

use super::{CONFIDENCE, Interval, holm};
use serde::{Deserialize, Serialize};

/// What is asked of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Ask {
    /// The smallest relative difference that matters: 0.05 is 5 %.
    pub margin: f64,
    /// How surely a difference is to be found where this crate says that it would have been.
    pub power: f64,
}

impl Default for Ask {
    fn default() -> Self {
        Ask { margin: 0.05, power: 0.9 }
    }
}

/// What the comparison rests on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// Pairs of boots, one after the other in random order.
    Pairs(usize),
    /// Deterministic boots of each variant, dithered: each with a dummy argument of another length.
    Dithered(usize, usize),
    /// Deterministic boots that only repeat: one layout each, so only a difference above this relative floor counts.
    Repeated(f64),
}

/// The second variant against the first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Comparison {
    /// What it rests on.
    pub basis: Basis,
    /// Second less first.
    pub difference: Interval,
    /// Second divided by first; none where the first has values that are not positive.
    pub ratio: Option<Interval>,
    /// How likely chance alone makes a difference at least as clear; none where no chance is involved.
    pub p: Option<f64>,
    /// The same, corrected for all comparisons that were made together.
    pub p_corrected: Option<f64>,
    /// The least p that so many runs can give.
    pub p_least: f64,
    /// The smallest relative difference that these runs would have shown, with the power that was asked for; none where
    /// it was not asked for or there are too few runs to tell.
    pub shown_from: Option<f64>,
    /// Pairs that would show a difference of the margin; none where that cannot be said.
    pub pairs_for_margin: Option<usize>,
    /// The answer.
    pub verdict: Verdict,
}

/// The answer to "did it help?".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The second is faster (smaller).
    Faster,
    /// The second is slower (greater).
    Slower,
    /// They differ by less than matters.
    NoDifference,
    /// They may or may not differ by as much as matters.
    TooNoisy,
    /// So few runs cannot show anything.
    TooFew,
}

/// Corrects for many comparisons, and gives each its verdict. They are one family: all that is looked at together.
pub fn judge(family: &mut [Comparison], ask: &Ask) {
    let p_values: Vec<f64> = family.iter().filter_map(|c| c.p).collect();
    let mut corrected = holm::corrected(&p_values).into_iter();
    for comparison in family.iter_mut().filter(|c| c.p.is_some()) {
        comparison.p_corrected = corrected.next();
    }
    for comparison in family.iter_mut() {
        comparison.verdict = verdict(comparison, p_values.len(), ask);
    }
}

/// The same where the corrected p-values are known ([`super::max_t`]) but for `families` that are looked at together.
pub fn judge_corrected(family: &mut [&mut Comparison], p_values: &[f64], families: usize, ask: &Ask) {
    for (comparison, p) in family.iter_mut().zip(p_values) {
        comparison.p_corrected = Some((p * families as f64).min(1.0));
        comparison.verdict = verdict(comparison, families, ask);
    }
}

fn verdict(c: &Comparison, family: usize, ask: &Ask) -> Verdict {
    let alpha = 1.0 - CONFIDENCE;
    let faster = c.ratio.map_or(c.difference.estimate < 0.0, |r| r.estimate < 1.0);
    let direction = if faster { Verdict::Faster } else { Verdict::Slower };
    match (c.basis, c.ratio) {
        (Basis::Repeated(floor), Some(ratio)) if (ratio.estimate - 1.0).abs() > floor => return direction,
        (Basis::Repeated(floor), Some(_)) if floor <= ask.margin => return Verdict::NoDifference,
        (Basis::Repeated(_), Some(_)) => return Verdict::TooNoisy,
        (Basis::Repeated(_), None) if c.difference.estimate != 0.0 => return direction,
        (Basis::Repeated(_), None) => return Verdict::NoDifference,
        _ => {}
    }
    if c.p_least * family as f64 > alpha {
        return Verdict::TooFew;
    }
    if c.p_corrected.is_some_and(|p| p <= alpha) {
        return direction;
    }
    let within = match c.ratio {
        Some(ratio) => ratio.high <= 1.0 + ask.margin && ratio.low >= 1.0 / (1.0 + ask.margin),
        None => c.difference.low == 0.0 && c.difference.high == 0.0,
    };
    if within { Verdict::NoDifference } else { Verdict::TooNoisy }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(low: f64, estimate: f64, high: f64) -> Interval {
        Interval { estimate, low, high, confidence: CONFIDENCE }
    }

    fn comparison(basis: Basis, ratio: Interval, p: f64, p_least: f64) -> Comparison {
        Comparison {
            basis,
            difference: interval(ratio.low - 1.0, ratio.estimate - 1.0, ratio.high - 1.0),
            ratio: Some(ratio),
            p: Some(p),
            p_corrected: None,
            p_least,
            shown_from: None,
            pairs_for_margin: None,
            verdict: Verdict::TooFew,
        }
    }

    #[track_caller]
    fn check(ratio: (f64, f64, f64), p: f64, p_least: f64, together: usize, expected: Verdict) {
        let one = comparison(Basis::Pairs(10), interval(ratio.0, ratio.1, ratio.2), p, p_least);
        let mut family = vec![one; together];
        family[1..].iter_mut().for_each(|other| other.p = Some(1.0));
        judge(&mut family, &Ask::default());
        assert_eq!(family[0].verdict, expected);
    }

    #[test]
    fn verdicts() {
        check((0.80, 0.85, 0.90), 0.002, 0.002, 1, Verdict::Faster);
        check((1.01, 1.02, 1.03), 0.01, 0.002, 1, Verdict::Slower);
        check((0.98, 1.01, 1.04), 0.4, 0.002, 1, Verdict::NoDifference);
        check((0.90, 1.01, 1.10), 0.4, 0.002, 1, Verdict::TooNoisy);
        check((0.80, 0.85, 0.90), 0.0625, 0.0625, 1, Verdict::TooFew);
    }

    #[test]
    fn one_of_many_must_be_clearer() {
        check((0.80, 0.85, 0.90), 0.01, 0.002, 5, Verdict::Faster);
        check((0.80, 0.85, 0.90), 0.01, 0.002, 6, Verdict::TooNoisy);
        check((0.80, 0.85, 0.90), 0.03125, 0.03125, 2, Verdict::TooFew);
    }

    #[test]
    fn boots_that_only_repeat_need_more_than_the_floor() {
        for (estimate, floor, expected) in [
            (0.995, 0.0017, Verdict::Faster),
            (1.002, 0.0017, Verdict::Slower),
            (1.001, 0.0017, Verdict::NoDifference),
            (1.001, 0.2, Verdict::TooNoisy),
        ] {
            let ratio = interval(estimate, estimate, estimate);
            let mut family = [Comparison { p: None, ..comparison(Basis::Repeated(floor), ratio, 0.0, 0.0) }];
            judge(&mut family, &Ask::default());
            assert_eq!(family[0].verdict, expected, "{estimate} {floor}");
        }
    }
}
