//! Gives comparisons their verdicts.
//!
//! *Less* and *more* (for a time: faster and slower) need a p-value of at most 5 %, corrected for all comparisons of the family:
//! totals and metrics by [`super::holm`], phases and rows by [`super::max_t`]. *No difference* needs evidence, too: the whole
//! interval of the ratio must lie within the margin that matters to the user (an equivalence test by interval inclusion:
//! Westlake 1972; Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15, 1987). A significant difference of a total or
//! a metric within the margin is *no difference*, too: [`Comparison::direction`] still has it. A phase or a row has no margin,
//! which is one of the whole boot. Otherwise the runs were *too noisy*, and the necessary number is forecast. If no outcome could have been significant with this number of runs,
//! the verdict is *too few*.

use super::{CONFIDENCE, Interval, holm};
use serde::{Deserialize, Serialize};

/// The user's requirements for comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Ask {
    /// The smallest relative difference that matters: 0.05 is 5 %.
    pub margin: f64,
    /// Probability with which a difference of the reported minimum is found.
    pub power: f64,
    /// Number of times at which the verdicts may end the boots. The rate of false alarms is divided among them (Bonferroni), so it
    /// holds whenever the boots end.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub looks: u32,
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes it like this")]
fn is_one(looks: &u32) -> bool {
    *looks == 1
}

impl Default for Ask {
    fn default() -> Self {
        Ask { margin: 0.05, power: 0.9, looks: 1 }
    }
}

impl Ask {
    /// The margin of deterministic boots, which show smaller differences than boots by the clock.
    pub const COUNTED_MARGIN: f64 = 0.01;

    /// The largest p-value that is evidence at one look.
    pub fn alpha(&self) -> f64 {
        ALPHA / self.tests()
    }

    /// The looks as a factor of p-values. A document from elsewhere may have none.
    fn tests(&self) -> f64 {
        f64::from(self.looks.max(1))
    }

    /// The usual requirements for boots that are, or are not, deterministic.
    pub fn of_boots(deterministic: bool) -> Ask {
        if deterministic { Ask { margin: Ask::COUNTED_MARGIN, ..Ask::default() } } else { Ask::default() }
    }
}

/// Kind and number of the compared boots.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// Pairs of boots, one after the other in random order.
    Pairs(usize),
    /// Dithered deterministic boots of each variant: each has a dummy argument of another length.
    Dithered(usize, usize),
    /// Deterministic boots that only repeat. They have one layout each, so only a difference above this relative floor counts.
    Repeated(f64),
}

/// Comparison of a second variant with the first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Comparison {
    /// Kind and number of the boots.
    pub basis: Basis,
    /// Second minus first.
    pub difference: Interval,
    /// Second divided by first. Null if the first has values that are not positive.
    pub ratio: Option<Interval>,
    /// Probability of at least so clear a difference by chance. Null if chance is not involved.
    pub p: Option<f64>,
    /// The same, corrected for all comparisons of the family, and for all looks.
    pub p_corrected: Option<f64>,
    /// The minimum of `p` for this number of runs.
    pub p_least: f64,
    /// Minimum detectable relative difference, with the requested power. Null if it was not requested or if there are too few
    /// runs.
    pub shown_from: Option<f64>,
    /// Number of pairs that would show a difference of the margin. Null if unknown.
    pub pairs_for_margin: Option<usize>,
    /// The verdict. Documents also contain it under its older name.
    #[serde(flatten, with = "both_names")]
    #[cfg_attr(feature = "schemas", schemars(with = "both_names::Written"))]
    pub change: Change,
}

impl Comparison {
    /// [`Change::Less`] or [`Change::More`] if the two differ by more than chance and layout explain, however little.
    pub fn direction(&self) -> Option<Change> {
        let is_less = self.ratio.map_or(self.difference.estimate < 0.0, |r| r.estimate < 1.0);
        let differs = match (self.basis, self.ratio) {
            (Basis::Repeated(floor), Some(ratio)) => (ratio.estimate - 1.0).abs() > floor,
            (Basis::Repeated(_), None) => self.difference.estimate != 0.0,
            _ => self.p_corrected.is_some_and(|p| p <= ALPHA),
        };
        differs.then_some(if is_less { Change::Less } else { Change::More })
    }

    /// True if the whole interval of the ratio lies within a relative margin.
    fn is_within(&self, margin: f64) -> bool {
        match self.ratio {
            Some(ratio) => ratio.high <= 1.0 + margin && ratio.low >= 1.0 / (1.0 + margin),
            None => self.difference.low == 0.0 && self.difference.high == 0.0,
        }
    }
}

/// The largest p-value that is evidence.
const ALPHA: f64 = 1.0 - CONFIDENCE;

/// Verdict on the question "did it help?".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// The second is less; for a time, faster.
    Less,
    /// The second is more; for a time, slower.
    More,
    /// They differ by less than the margin.
    NoDifference,
    /// They may or may not differ by the margin.
    TooNoisy,
    /// There are too few runs for a verdict.
    TooFew,
}

/// Writes a change to documents under two names: `change`, and the older `verdict`, with words for times. The next version of
/// these documents drops the older name.
mod both_names {
    use super::Change;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// The two fields.
    #[derive(Serialize)]
    #[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
    #[cfg_attr(feature = "schemas", schemars(inline))]
    pub struct Written {
        /// The verdict. For a time, less is faster and more is slower.
        change: Change,
        /// The older name of the verdict, also for values that are not times.
        verdict: Older,
    }

    /// The words of the older field.
    #[derive(Clone, Copy, Serialize, Deserialize)]
    #[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
    #[serde(rename_all = "kebab-case")]
    enum Older {
        Faster,
        Slower,
        NoDifference,
        TooNoisy,
        TooFew,
    }

    /// The field that all versions so far have written.
    #[derive(Deserialize)]
    struct Kept {
        verdict: Older,
    }

    pub fn serialize<S: Serializer>(change: &Change, to: S) -> Result<S::Ok, S::Error> {
        let verdict = match change {
            Change::Less => Older::Faster,
            Change::More => Older::Slower,
            Change::NoDifference => Older::NoDifference,
            Change::TooNoisy => Older::TooNoisy,
            Change::TooFew => Older::TooFew,
        };
        Written { change: *change, verdict }.serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Change, D::Error> {
        Ok(match Kept::deserialize(from)?.verdict {
            Older::Faster => Change::Less,
            Older::Slower => Change::More,
            Older::NoDifference => Change::NoDifference,
            Older::TooNoisy => Change::TooNoisy,
            Older::TooFew => Change::TooFew,
        })
    }
}

/// Corrects p-values for the family and for the looks, and sets the verdicts. The comparisons are one family: everything that the user reads together.
pub fn judge(family: &mut [Comparison], ask: &Ask) {
    let p_values: Vec<f64> = family.iter().filter_map(|c| c.p).collect();
    let mut corrected = holm::corrected(&p_values).into_iter();
    for comparison in family.iter_mut().filter(|c| c.p.is_some()) {
        comparison.p_corrected = corrected.next().map(|p| (p * ask.tests()).min(1.0));
    }
    for comparison in family.iter_mut() {
        comparison.change = match change(comparison, p_values.len(), ask) {
            Change::Less | Change::More if comparison.is_within(ask.margin) => Change::NoDifference,
            change => change,
        };
    }
}

/// Sets the verdicts from p-values that are corrected within the family ([`super::max_t`]). Corrects them for the number of
/// `families` that the user reads together, and for the looks.
pub fn judge_corrected(family: &mut [&mut Comparison], p_values: &[f64], families: usize, ask: &Ask) {
    for (comparison, p) in family.iter_mut().zip(p_values) {
        comparison.p_corrected = Some((p * families as f64 * ask.tests()).min(1.0));
        comparison.change = change(comparison, families, ask);
    }
}

/// Sets the verdicts on parts of boots that only repeat: they have no p-values, and no margin.
pub fn judge_parts(family: &mut [&mut Comparison], ask: &Ask) {
    let families = family.len();
    for comparison in family.iter_mut() {
        comparison.change = change(comparison, families, ask);
    }
}

fn change(c: &Comparison, family: usize, ask: &Ask) -> Change {
    let is_repeated = matches!(c.basis, Basis::Repeated(_));
    if !is_repeated && c.p_least * family as f64 > ask.alpha() {
        return Change::TooFew;
    }
    match (c.direction(), c.basis) {
        (Some(direction), _) => direction,
        (None, Basis::Repeated(floor)) if c.ratio.is_some() && floor > ask.margin => Change::TooNoisy,
        (None, Basis::Repeated(_)) => Change::NoDifference,
        (None, _) if c.is_within(ask.margin) => Change::NoDifference,
        (None, _) => Change::TooNoisy,
    }
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
            change: Change::TooFew,
        }
    }

    #[track_caller]
    fn check(ratio: (f64, f64, f64), p: f64, p_least: f64, together: usize, expected: Change) {
        let one = comparison(Basis::Pairs(10), interval(ratio.0, ratio.1, ratio.2), p, p_least);
        let mut family = vec![one; together];
        family[1..].iter_mut().for_each(|other| other.p = Some(1.0));
        judge(&mut family, &Ask::default());
        assert_eq!(family[0].change, expected);
    }

    #[test]
    fn verdicts() {
        check((0.80, 0.85, 0.90), 0.002, 0.002, 1, Change::Less);
        check((1.01, 1.02, 1.06), 0.01, 0.002, 1, Change::More);
        check((1.01, 1.02, 1.03), 0.01, 0.002, 1, Change::NoDifference);
        check((0.98, 1.01, 1.04), 0.4, 0.002, 1, Change::NoDifference);
        check((0.90, 1.01, 1.10), 0.4, 0.002, 1, Change::TooNoisy);
        check((0.80, 0.85, 0.90), 0.0625, 0.0625, 1, Change::TooFew);
    }

    #[test]
    fn a_significant_difference_within_the_margin_does_not_matter_but_is_kept() {
        let mut family = [comparison(Basis::Dithered(5, 5), interval(1.0042, 1.0046, 1.005), 0.008, 0.008)];
        judge(&mut family, &Ask::of_boots(true));
        assert_eq!((family[0].change, family[0].direction()), (Change::NoDifference, Some(Change::More)));
        judge(&mut family, &Ask { margin: 0.002, ..Ask::default() });
        assert_eq!(family[0].change, Change::More, "a smaller margin");
        let mut row = family[0].clone();
        judge_corrected(&mut [&mut row], &[0.008], 1, &Ask::default());
        assert_eq!(row.change, Change::More, "a row has no margin");
    }

    #[test]
    fn documents_have_both_names() {
        let mut of_bytes = comparison(Basis::Pairs(10), interval(1.01, 1.02, 1.03), 0.01, 0.002);
        for (change, new, older) in [
            (Change::More, "more", "slower"),
            (Change::Less, "less", "faster"),
            (Change::NoDifference, "no-difference", "no-difference"),
        ] {
            of_bytes.change = change;
            let mut document = serde_json::to_value(&of_bytes).unwrap();
            assert_eq!((&document["change"], &document["verdict"]), (&new.into(), &older.into()));
            assert_eq!(serde_json::from_value::<Comparison>(document.clone()).unwrap(), of_bytes);
            document.as_object_mut().unwrap().remove("change");
            assert_eq!(serde_json::from_value::<Comparison>(document).unwrap(), of_bytes, "an older document");
        }
    }

    #[test]
    fn a_verdict_at_one_of_several_looks_must_be_clearer() {
        let ratio = interval(0.80, 0.85, 0.90);
        for (looks, p, expected) in [
            (0, 0.04, Change::Less), // of a forged document
            (1, 0.04, Change::Less),
            (5, 0.01, Change::Less),
            (6, 0.01, Change::TooNoisy),
            (26, 0.002, Change::TooFew),
        ] {
            let mut family = [comparison(Basis::Pairs(10), ratio, p, 0.002)];
            judge(&mut family, &Ask { looks, ..Ask::default() });
            assert_eq!(family[0].change, expected, "{looks} {p}");
        }
    }

    #[test]
    fn one_of_many_must_be_clearer() {
        check((0.80, 0.85, 0.90), 0.01, 0.002, 5, Change::Less);
        check((0.80, 0.85, 0.90), 0.01, 0.002, 6, Change::TooNoisy);
        check((0.80, 0.85, 0.90), 0.03125, 0.03125, 2, Change::TooFew);
    }

    #[test]
    fn boots_that_only_repeat_need_more_than_the_floor() {
        for (estimate, floor, expected) in [
            (0.94, 0.0017, Change::Less),
            (1.06, 0.0017, Change::More),
            (1.002, 0.0017, Change::NoDifference),
            (1.001, 0.0017, Change::NoDifference),
            (1.001, 0.2, Change::TooNoisy),
        ] {
            let ratio = interval(estimate, estimate, estimate);
            let mut family = [Comparison { p: None, ..comparison(Basis::Repeated(floor), ratio, 0.0, 0.0) }];
            judge(&mut family, &Ask::default());
            assert_eq!(family[0].change, expected, "{estimate} {floor}");
        }
    }
}
