//! The cost of each commit of a range: compares every variant of a bench with the one before it.

use crate::document::Document;
use crate::results;
use crate::runs::counted;
use statistics::verdict::{Comparison, judge};

/// Comparison of each variant's total with that of the variant before it. `None` for the first variant, and if the two never
/// reached their end mark in the same round. All steps are one family of comparisons.
pub fn steps(document: &Document) -> Vec<Option<Comparison>> {
    let head = &document.head;
    let total = |variant| counted(&document.boots, variant);
    let step = |variant: usize| results::compare(head, &total(variant.checked_sub(1)?), &total(variant));
    let mut steps: Vec<Option<Comparison>> = (0..head.variants.len()).map(step).collect();
    let mut family: Vec<Comparison> = steps.iter().flatten().cloned().collect();
    judge(&mut family, &head.ask);
    let mut judged = family.into_iter();
    for step in steps.iter_mut().flatten() {
        *step = judged.next().expect("one for each");
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Boot, Head, Measured, Plan, Stop, Variant};
    use statistics::verdict::Change;

    #[test]
    fn the_step_is_at_its_commit() {
        let mut random = fastrand::Rng::with_seed(50);
        let plan = Plan {
            leaves_out: false,
            variants: 4,
            warm_ups: 0,
            stop: Stop { rounds: 12, width: None, budget_ns: None },
            seed: 1,
        };
        let head = Head::of(plan, ["a", "b", "c", "d"].map(Variant::named).to_vec());
        let mut boots = Vec::new();
        for number in 0..48 {
            let (round, variant) = (number / 4, number as usize % 4);
            let ms = if variant >= 2 { 110.0 } else { 100.0 };
            // The host becomes slower from round to round, which does not affect pairs.
            let total_ns = Some((1e6 * (ms + f64::from(round) * 5.0 + random.f64())) as i64);
            let measured = Measured { outcome: "reached".to_owned(), total_ns, ..Measured::default() };
            boots.push(Boot { number, round: Some(round), variant, began_ns: 0, measured });
        }
        let verdicts: Vec<Option<Change>> =
            steps(&Document::new(head, boots, None)).iter().map(|s| s.as_ref().map(|s| s.change)).collect();
        let (same, slower) = (Some(Change::NoDifference), Some(Change::More));
        assert_eq!(verdicts, [None, same, slower, same]);
    }
}
