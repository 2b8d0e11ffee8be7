//! Tries: benches whose variants are remedies. Compares the measured saving with the claimed one and gives a verdict on each.
//!
//! The *measured* saving is the difference of the boots without and with the remedy, with the interval of the bench's
//! comparison. The *claimed* saving is the interval of the finding's price, widened to ±10 % of the likely price. Then:
//!
//! * *confirmed*: the boot is faster (corrected for all remedies of the try), and the measured estimate lies in the claimed
//!   interval;
//! * *refuted*: the measured interval and the claimed one do not overlap; or the boot is not faster, and the upper end of the
//!   measured interval is less than the price. The latter also refutes a claim whose interval begins at 0;
//! * *breaks the boot*: every boot with the remedy failed and every boot without it succeeded; or significantly more failed
//!   than without it (5 %, Fisher's exact test, one-sided, over all remedies). A boot that the VMM or the user ended is not
//!   the guest's failure, nor is one whose patch was not written. If the boot without the remedy never reaches its end mark,
//!   there is no verdict;
//! * *too noisy*: all other cases. The number of rounds that would decide is extrapolated from the width of the interval,
//!   which shrinks with the square root of their number.
//!
//! Boots that only repeat have a single layout of the code. Another layout changes some kernels' boots by up to
//! [`floor::LAYOUT_MOST`], so the measured interval is widened to that. Rounds with several layouts give a narrower interval.
//!
//! A remedy without a claim is confirmed if the boot is faster; if boots only repeat, by more than that bound. It is refuted
//! if the boot is slower, or if the whole interval of the ratio lies within the margin that matters.

pub use crate::remedies::{Cause, Remedy, Saved, Trial, Untried};

use crate::Document;
use crate::looks::{Test, rounds_least};
use crate::{Boot, Head};
use analysis::floor;
use recording::OutcomeKind;
use serde::{Deserialize, Serialize};
use statistics::CONFIDENCE;
use statistics::verdict::{Basis, Change, Comparison};

/// The verdict on a remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Proof {
    /// The remedy saves what was claimed.
    Confirmed,
    /// The remedy does not save what was claimed.
    Refuted,
    /// The boots do not decide.
    TooNoisy,
    /// The boot no longer reaches its end mark.
    BreaksTheBoot,
}

/// A remedy that was tried.
#[derive(Clone, Debug, PartialEq)]
pub struct Tried {
    /// The measured saving. `None` if no two boots can be compared.
    pub measured: Option<Saved>,
    /// The verdict. `None` if an interrupted try has too few boots for one.
    pub proof: Option<Proof>,
    /// Approximate number of rounds that would decide, if these do not. `None` if unknown.
    pub rounds_needed: Option<u32>,
    /// Basis of the comparison. `None` if no two boots can be compared.
    pub basis: Option<Basis>,
    /// Options of the remedy whose effect these boots cannot show, because they count instructions. There is no verdict then.
    pub uncountable: Vec<String>,
    /// Number of counted boots with the remedy.
    pub boots: usize,
    /// Number of these that did not reach the end mark.
    pub failed: usize,
    /// The first of these failed boots.
    pub failure: Option<Failure>,
    /// Number of counted boots without the remedy, and number of these that did not reach the end mark.
    pub base: (usize, usize),
}

/// A boot that did not reach its end mark.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Failure {
    /// Number of the boot, under which its recording is kept.
    pub boot: u32,
    /// The outcome as one word.
    pub outcome: String,
    /// The line that shows the failure.
    pub detail: String,
}

/// Outcomes that are not the remedy's fault: the host ended the boot, or the guest ran without the patch.
const NOT_THE_REMEDYS_FAULT: [OutcomeKind; 3] =
    [OutcomeKind::VmmFailed, OutcomeKind::Interrupted, OutcomeKind::Unpatched];
/// Minimum number of rounds proposed for dithered boots.
const MIN_DITHERED_ROUNDS: u32 = 5;
/// Allowed error of a price, as a share of it.
const TOLERANCE: f64 = 0.1;
/// Maximum number of rounds proposed. Users do not wait for more.
const MAX_ROUNDS: f64 = 10_000.0;

/// Each remedy of a try, with the verdict on it. Empty if the bench is not a try.
pub fn tried(document: &Document) -> Vec<(&Remedy, Tried)> {
    let remedies = document.head.trial.iter().flat_map(|trial| &trial.remedies);
    (1..).zip(remedies).map(|(variant, remedy)| (remedy, of_variant(document, variant, remedy.claimed))).collect()
}

fn of_variant(document: &Document, variant: usize, claimed: Option<Saved>) -> Tried {
    let counted = |variant: usize| document.boots.iter().filter(move |b| b.variant == variant && b.round.is_some());
    let failed = |variant: usize| counted(variant).filter(|b| b.measured.total_ns.is_none());
    let failure = failed(variant).next().map(|boot| Failure {
        boot: boot.number,
        outcome: boot.measured.outcome.clone(),
        detail: boot.measured.detail.clone(),
    });
    let comparison = document.results.comparisons.iter().find(|c| c.variant == variant).and_then(|c| c.total.as_ref());
    let base = document.results.variants.first().and_then(|variant| variant.total.as_ref());
    let base_ns = base.map_or(0.0, |total| total.median.estimate);
    let judged = comparison.map(|c| judge(c, claimed, base_ns, &MinRounds::of(&document.head)));
    let uncountable = document.head.uncountable(variant);
    let (proof, rounds_needed) = match judged {
        _ if breaks(document, variant) => (Some(Proof::BreaksTheBoot), None),
        _ if !uncountable.is_empty() => (None, None),
        Some((proof, rounds)) => (Some(proof), rounds),
        None => (None, None),
    };
    Tried {
        measured: comparison.map(|c| measured(c, base_ns)),
        proof,
        rounds_needed,
        basis: comparison.map(|c| c.basis),
        uncountable,
        boots: counted(variant).count(),
        failed: failed(variant).count(),
        failure,
        base: (counted(0).count(), failed(0).count()),
    }
}

/// Minimum number of rounds that could give a verdict.
struct MinRounds {
    /// For boots like those of this bench.
    same_test: u32,
    /// For dithered boots.
    dithered: u32,
}

impl MinRounds {
    fn of(head: &Head) -> MinRounds {
        let rounds = |test| rounds_least(head.variants.len().saturating_sub(1), test);
        MinRounds { same_test: rounds(Test::of(head)), dithered: rounds(Test::Dithered).max(MIN_DITHERED_ROUNDS) }
    }
}

/// True if the remedy keeps boots from their end mark. A single failure among many may be chance and is not evidence.
fn breaks(document: &Document, variant: usize) -> bool {
    let counts_as_evidence =
        |boot: &&Boot| !NOT_THE_REMEDYS_FAULT.iter().any(|kind: &OutcomeKind| kind.as_str() == boot.measured.outcome);
    let counts = |variant: usize| {
        let of_guest =
            document.boots.iter().filter(|b| b.variant == variant && b.round.is_some()).filter(counts_as_evidence);
        (of_guest.clone().count(), of_guest.filter(|b| b.measured.total_ns.is_none()).count())
    };
    let ((base, base_failed), (with, failed)) = (counts(0), counts(variant));
    if base_failed == base || failed == 0 {
        return false;
    }
    let remedies = document.head.variants.len().saturating_sub(1);
    let by_chance = chance_of_failures(base, base_failed, with, failed) * remedies as f64;
    (failed == with && base_failed == 0) || by_chance <= 1.0 - CONFIDENCE
}

/// Probability that at least `failed` of all failures fall to the boots with the remedy if the remedy has no effect: Fisher's
/// exact test, one-sided. Logarithms keep the hypergeometric terms finite.
fn chance_of_failures(base: usize, base_failed: usize, with: usize, failed: usize) -> f64 {
    let (all, failures) = (base + with, base_failed + failed);
    let term =
        |of_with: usize| choose_ln(with, of_with) + choose_ln(base, failures - of_with) - choose_ln(all, failures);
    (failed..=failures.min(with)).map(|of_with| term(of_with).exp()).sum()
}

/// Logarithm of the number of ways to choose `k` of `n`. `k` must be at most `n`.
fn choose_ln(n: usize, k: usize) -> f64 {
    (1..=k).map(|i| ((n - k + i) as f64 / i as f64).ln()).sum()
}

/// The measured saving. A comparison has the difference second minus first, so the saving is its negative. For boots of a
/// single layout, the interval is widened to the possible effect of the layout.
fn measured(c: &Comparison, base_ns: f64) -> Saved {
    let saving = Saved { low_ns: -c.difference.high, likely_ns: -c.difference.estimate, high_ns: -c.difference.low };
    let layout = if matches!(c.basis, Basis::Repeated(_)) { floor::LAYOUT_MOST * base_ns } else { 0.0 };
    Saved {
        low_ns: saving.low_ns.min(saving.likely_ns - layout),
        high_ns: saving.high_ns.max(saving.likely_ns + layout),
        ..saving
    }
}

/// The verdict, and the number of rounds that would decide if it is *too noisy*. The boot takes `base_ns` without the remedy.
fn judge(c: &Comparison, claimed: Option<Saved>, base_ns: f64, min_rounds: &MinRounds) -> (Proof, Option<u32>) {
    let saving = measured(c, base_ns);
    let too_noisy = |distance: f64| (Proof::TooNoisy, rounds_needed(c, &saving, distance, min_rounds));
    if c.change == Change::TooFew {
        return (Proof::TooNoisy, Some(min_rounds.same_test));
    }
    // A claim may be smaller than the margin that matters, so what counts here is evidence.
    let is_faster = c.direction() == Some(Change::Less);
    // A single layout may be the cause of a small saving.
    let is_sure = !matches!(c.basis, Basis::Repeated(_)) || saving.low_ns > 0.0;
    let Some(claimed) = claimed else {
        return match c.change {
            Change::Less if !is_sure => too_noisy(saving.likely_ns),
            Change::Less => (Proof::Confirmed, None),
            Change::TooNoisy | Change::TooFew => too_noisy(saving.likely_ns.abs()),
            Change::More | Change::NoDifference => (Proof::Refuted, None),
        };
    };
    let bounds = widened(&claimed);
    let beside = (bounds.low_ns - saving.likely_ns).max(saving.likely_ns - bounds.high_ns);
    let is_apart = saving.high_ns < bounds.low_ns || saving.low_ns > bounds.high_ns;
    let is_not_faster = !is_faster && matches!(c.change, Change::NoDifference | Change::More);
    let saves_less = saving.high_ns < claimed.likely_ns * (1.0 - TOLERANCE);
    if is_apart || (is_not_faster && saves_less) {
        return (Proof::Refuted, None);
    }
    match (beside <= 0.0, is_faster) {
        (true, true) if is_sure => (Proof::Confirmed, None),
        (true, _) => too_noisy(saving.likely_ns),
        (false, _) => too_noisy(beside),
    }
}

/// Number of rounds after which half the interval is at most `distance`.
fn rounds_needed(c: &Comparison, saving: &Saved, distance: f64, min_rounds: &MinRounds) -> Option<u32> {
    let rounds = match c.basis {
        Basis::Pairs(pairs) => pairs,
        Basis::Dithered(first, second) => first.min(second),
        // More boots of the same layout add no evidence. For dithered boots, the next bench decides whether they are enough.
        Basis::Repeated(_) => return Some(min_rounds.dithered),
    };
    let half = (saving.high_ns - saving.low_ns) / 2.0;
    let needed = (rounds as f64 * (half / distance).powi(2)).ceil().max(rounds as f64 + 1.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is whole, and at most MAX_ROUNDS")]
    (distance > 0.0 && needed <= MAX_ROUNDS).then(|| (needed as u32).max(min_rounds.same_test))
}

/// The interval in which a saving agrees with the claim.
fn widened(claimed: &Saved) -> Saved {
    let low_ns = claimed.low_ns.min(claimed.likely_ns * (1.0 - TOLERANCE));
    let high_ns = claimed.high_ns.max(claimed.likely_ns * (1.0 + TOLERANCE));
    Saved { low_ns, likely_ns: claimed.likely_ns, high_ns }
}

/// True if the measured saving is within 10 % of the likely price, not merely in the price's interval.
#[must_use]
pub fn is_at_price(claimed: &Saved, saving: &Saved) -> bool {
    (saving.likely_ns - claimed.likely_ns).abs() <= TOLERANCE * claimed.likely_ns.abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::Variant;
    use crate::{Ask, Measured, Plan, Stop};

    fn saved(low: f64, likely: f64, high: f64) -> Option<Saved> {
        Some(Saved { low_ns: low * 1e6, likely_ns: likely * 1e6, high_ns: high * 1e6 })
    }

    /// Boots without a remedy and with one, in ms; `None` is a failed boot.
    fn document(deterministic: bool, base: &[f64], with: &[Option<f64>]) -> Document {
        let rounds = base.len() as u32;
        let plan = Plan {
            leaves_out: true,
            variants: 2,
            warm_ups: 0,
            stop: Stop { rounds, ..Stop::default() },
            seed: 1,
            ..Plan::default()
        };
        let head = Head {
            ask: Ask::of_boots(deterministic),
            deterministic,
            dithered: deterministic && rounds > 1,
            ..Head::of(plan, vec![Variant::named("as recorded"), Variant::named("remedy")])
        };
        let all = base.iter().map(|&ms| Some(ms)).zip(with.iter().copied());
        let boot = |number: usize, round: usize, variant, ms: Option<f64>| {
            let outcome = if ms.is_some() { "reached" } else { "panic" }.to_owned();
            let detail = if ms.is_some() { "" } else { "Kernel panic" }.to_owned();
            let total_ns = ms.map(|ms| (ms * 1e6) as i64);
            let measured = Measured { outcome, detail, total_ns, ..Measured::default() };
            Boot { number: number as u32, round: Some(round as u32), variant, began_ns: 0, measured }
        };
        let boots = all.enumerate().flat_map(|(round, (first, second))| {
            [boot(2 * round, round, 0, first), boot(2 * round + 1, round, 1, second)]
        });
        Document::new(head, boots.collect(), None)
    }

    fn tried_remedy(document: &Document, claimed: Option<Saved>) -> Tried {
        let remedy = Remedy { claimed, ..Remedy::default() };
        let trial = Some(Trial { remedies: vec![remedy], ..Trial::default() });
        let document = Document { head: Head { trial, ..document.head.clone() }, ..document.clone() };
        tried(&document).remove(0).1
    }

    fn repeated(with: f64, claimed: Option<Saved>) -> Option<Proof> {
        tried_remedy(&document(true, &[1000.0], &[Some(with)]), claimed).proof
    }

    #[test]
    fn a_claim_is_confirmed_if_it_holds_and_else_refuted() {
        let claimed = saved(95.0, 100.0, 101.0);
        assert_eq!(repeated(900.0, claimed), Some(Proof::Confirmed));
        assert_eq!(repeated(909.0, claimed), Some(Proof::Confirmed), "within 10 %");
        assert_eq!(repeated(1000.0, claimed), Some(Proof::Refuted), "saves nothing");
        assert_eq!(repeated(1100.0, claimed), Some(Proof::Refuted), "slower");
        assert_eq!(repeated(800.0, claimed), Some(Proof::Refuted), "saves twice as much");
    }

    #[test]
    fn one_round_does_not_decide_an_effect_that_layout_may_have() {
        // The layout may change 3 % of 1 s: 30 ms beyond the claimed bounds of 90 ms and 110 ms.
        let claimed = saved(95.0, 100.0, 101.0);
        for (with, proof) in
            [(939.0, Proof::TooNoisy), (941.0, Proof::Refuted), (861.0, Proof::TooNoisy), (859.0, Proof::Refuted)]
        {
            let tried = tried_remedy(&document(true, &[1000.0], &[Some(with)]), claimed);
            assert_eq!(tried.proof, Some(proof), "{with}");
            assert_eq!(tried.rounds_needed, (proof == Proof::TooNoisy).then_some(5), "{with}");
            assert_eq!(tried.measured.map(|tried| tried.high_ns - tried.low_ns), Some(60e6), "and shows it");
        }
        // The proposed number of rounds, with several layouts, does decide it.
        let layouts = |ms: f64| (0..5).map(move |n| ms + 0.2 * f64::from(n));
        let with: Vec<Option<f64>> = layouts(929.0).map(Some).collect();
        let tried = tried_remedy(&document(true, &layouts(1000.0).collect::<Vec<f64>>(), &with), claimed);
        assert_eq!(tried.proof, Some(Proof::Refuted), "{tried:?}");
        // One layout does not confirm a saving this small either.
        for (with, claimed) in [(971.0, saved(0.0, 100.0, 100.0)), (990.0, saved(10.0, 10.0, 10.0))] {
            let tried = tried_remedy(&document(true, &[1000.0], &[Some(with)]), claimed);
            assert_eq!((tried.proof, tried.rounds_needed), (Some(Proof::TooNoisy), Some(5)), "{with}");
        }
        assert_eq!(repeated(969.0, saved(31.0, 31.0, 31.0)), Some(Proof::Confirmed), "3 % of 1 s are 30 ms");
    }

    #[test]
    fn a_claim_whose_interval_begins_at_zero_can_be_refuted() {
        let may_poll = saved(0.0, 100.0, 100.0);
        assert_eq!(repeated(1031.0, may_poll), Some(Proof::Refuted));
        assert_eq!(repeated(1001.0, may_poll), Some(Proof::Refuted), "is not faster, and 100 ms cannot hide");
        assert_eq!(repeated(1000.0, may_poll), Some(Proof::Refuted), "saves nothing");
        assert_eq!(repeated(1000.0, saved(0.0, 20.0, 20.0)), Some(Proof::TooNoisy), "so much can hide in one layout");
        assert_eq!(repeated(960.0, may_poll), Some(Proof::Confirmed), "some of it");
    }

    #[test]
    fn without_a_claim_it_has_to_save_something() {
        assert_eq!(repeated(969.0, None), Some(Proof::Confirmed));
        assert_eq!(repeated(979.0, None), Some(Proof::TooNoisy), "layout alone may make that");
        assert_eq!(repeated(1000.2, None), Some(Proof::Refuted));
        assert_eq!(repeated(1010.0, None), Some(Proof::Refuted));
    }

    #[test]
    fn a_remedy_that_breaks_the_boot_reports_the_line() {
        let broken = tried_remedy(&document(true, &[1000.0; 5], &[None; 5]), saved(1.0, 2.0, 3.0));
        assert_eq!((broken.proof, broken.failed, broken.measured), (Some(Proof::BreaksTheBoot), 5, None));
        assert_eq!(broken.failure.unwrap().detail, "Kernel panic");
    }

    #[test]
    fn a_failure_that_chance_explains_leaves_the_verdict_on_time() {
        let some =
            |failures: usize| -> Vec<Option<f64>> { (0..12).map(|i| (i >= failures).then_some(900.0)).collect() };
        let claimed = saved(90.0, 100.0, 110.0);
        let once = tried_remedy(&document(true, &[1000.0; 12], &some(1)), claimed);
        assert_eq!((once.proof, once.failed, once.base), (Some(Proof::Confirmed), 1, (12, 0)), "{once:?}");
        assert_eq!(once.failure.unwrap().detail, "Kernel panic");
        assert_eq!(tried_remedy(&document(true, &[1000.0; 12], &some(6)), claimed).proof, Some(Proof::BreaksTheBoot));
        // 1 of 1 against 0 of 1 is the strongest evidence that boots which only repeat can give.
        assert_eq!(tried_remedy(&document(true, &[1000.0], &[None]), claimed).proof, Some(Proof::BreaksTheBoot));
    }

    #[test]
    fn failures_of_the_base_and_of_the_host_are_not_the_remedys() {
        let changed = |variants: &[usize], outcome: &str| {
            let mut boots = document(true, &[1000.0; 5], &[Some(900.0); 5]);
            for boot in boots.boots.iter_mut().filter(|boot| variants.contains(&boot.variant)) {
                boot.measured.total_ns = None;
                boot.measured.outcome = outcome.to_owned();
            }
            tried_remedy(&Document::new(boots.head, boots.boots, None), None)
        };
        assert_eq!(changed(&[1], "hang").proof, Some(Proof::BreaksTheBoot));
        assert_eq!(changed(&[0, 1], "hang").proof, None, "the base never booted");
        assert_eq!(changed(&[1], "vmm-failed").proof, None);
        assert_eq!(changed(&[1], "interrupted").proof, None);
        assert_eq!(changed(&[1], "unpatched").proof, None, "it ran without the remedy");
    }

    #[test]
    fn the_chance_of_failures_is_fishers() {
        // 8 cups of tea, 4 of each kind: R's fisher.test(matrix(c(3, 1, 1, 3), 2), alternative = "greater").
        assert!((chance_of_failures(4, 1, 4, 3) - 0.242_857).abs() < 1e-6);
        assert!((chance_of_failures(5, 0, 5, 2) - 10.0 / 45.0).abs() < 1e-9);
        assert!((chance_of_failures(10_000, 0, 10_000, 0) - 1.0).abs() < 1e-6, "large numbers stay finite");
    }

    #[test]
    fn a_small_claim_that_holds_is_not_refuted() {
        // Another layout changes 15 ms of 20 s. Pairs in time and dithered boots do not need that bound.
        for deterministic in [false, true] {
            let noise = |i: usize| 0.3 * (i * 7 % 12) as f64 / 12.0;
            let base: Vec<f64> = (0..12).map(|i| 20_000.0 + noise(i)).collect();
            let with: Vec<Option<f64>> = (0..12).map(|i| Some(19_988.0 + noise(i + 1))).collect();
            let tried = tried_remedy(&document(deterministic, &base, &with), saved(12.0, 12.0, 12.0));
            assert_eq!(tried.proof, Some(Proof::Confirmed), "{tried:?}");
        }
        let repeats = |with: f64| tried_remedy(&document(true, &[20_000.0], &[Some(with)]), saved(12.0, 12.0, 12.0));
        assert_eq!(repeats(19_988.0).proof, Some(Proof::TooNoisy), "below what repeated boots can tell");
        assert_eq!(repeats(19_900.0).proof, Some(Proof::TooNoisy), "88 ms more are 0.44 % of the boot");
        assert_eq!(repeats(19_300.0).proof, Some(Proof::Refuted), "it saves far more");
    }

    #[test]
    fn noise_says_how_many_rounds_would_do() {
        let noisy = |spread: f64| -> Vec<f64> { (0..10).map(|i| 1000.0 + spread * f64::from(i * 7 % 10)).collect() };
        let shorter = |by: f64| -> Vec<Option<f64>> {
            // In the other order the pairs have different noise.
            noisy(20.0).iter().rev().map(|ms| Some(ms - by)).collect()
        };
        let tried = tried_remedy(&document(false, &noisy(20.0), &shorter(20.0)), saved(18.0, 20.0, 22.0));
        assert_eq!(tried.proof, Some(Proof::TooNoisy), "{tried:?}");
        assert!(tried.rounds_needed.is_some_and(|rounds| rounds > 10), "{tried:?}");
        let tried = tried_remedy(&document(false, &noisy(20.0), &shorter(500.0)), saved(450.0, 500.0, 510.0));
        assert_eq!(tried.proof, Some(Proof::Confirmed), "{tried:?}");
        let few = tried_remedy(&document(false, &[1000.0; 2], &[Some(900.0); 2]), saved(90.0, 100.0, 100.0));
        assert_eq!((few.proof, few.rounds_needed), (Some(Proof::TooNoisy), Some(6)));
        let none = tried_remedy(&document(false, &[], &[]), None);
        assert_eq!((none.proof, none.measured), (None, None));
    }
}
