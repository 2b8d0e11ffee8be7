//! The cost of each commit of a range: compares every variant of a bench with the one that the commit before it has.

use crate::document::Document;
use crate::results;
use crate::runs::counted;
use statistics::verdict::{Comparison, judge};

/// Comparison of the total of each variant in a line of commits with that of the variant before it. `None` for the first
/// one. All variants of the line must have reached their end mark. The steps are one family of comparisons.
pub fn steps(document: &Document, line: &[usize]) -> Vec<Option<Comparison>> {
    let head = &document.head;
    let total = |variant: usize| counted(&document.boots, variant);
    let step = |pair: &[usize]| results::compare(head, &total(pair[0]), &total(pair[1]));
    let mut steps: Vec<Option<Comparison>> = line.windows(2).map(step).collect();
    let mut family: Vec<Comparison> = steps.iter().flatten().cloned().collect();
    judge(&mut family, &head.ask);
    let mut judged = family.into_iter();
    for step in steps.iter_mut().flatten() {
        *step = judged.next().expect("one for each");
    }
    std::iter::once(None).take(line.len().min(1)).chain(steps).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Boot, Head, Measured, Plan, Stop, Variant};
    use statistics::verdict::Change;

    #[test]
    fn the_step_is_at_its_commit() {
        let mut random = fastrand::Rng::with_seed(50);
        let plan =
            Plan { variants: 4, warm_ups: 0, stop: Stop { rounds: 12, ..Stop::default() }, seed: 1, ..Plan::default() };
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
        let document = Document::new(head, boots, None);
        let verdicts = |line: &[usize]| -> Vec<Option<Change>> {
            steps(&document, line).iter().map(|step| step.as_ref().map(|step| step.change)).collect()
        };
        let (same, slower, faster) = (Some(Change::NoDifference), Some(Change::More), Some(Change::Less));
        assert_eq!(verdicts(&[0, 1, 2, 3]), [None, same, slower, same]);
        // The second commit does not boot, and the last one reverts to the first.
        assert_eq!(verdicts(&[0, 2, 3, 0]), [None, slower, same, faster]);
        assert!(verdicts(&[]).is_empty());
    }
}
