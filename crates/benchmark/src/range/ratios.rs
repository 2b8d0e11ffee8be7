//! The data that a search takes from a bench of two commits: the logarithm of second ÷ first for each pair of boots.

use crate::document::Document;
use std::collections::BTreeMap;

/// Logarithms of second ÷ first, for the rounds in which both variants reached their end mark, in the order of rounds.
pub fn log_ratios(document: &Document) -> Vec<f64> {
    let totals = |variant: usize| -> BTreeMap<u32, f64> {
        let of_variant = document.boots.iter().filter(|boot| boot.variant == variant);
        of_variant.filter_map(|boot| Some((boot.round?, boot.measured.total_ns.filter(|&ns| ns > 0)? as f64))).collect()
    };
    let second = totals(1);
    totals(0).iter().filter_map(|(round, a)| Some((second.get(round)? / a).ln())).collect()
}

/// Geometric mean of the ratios with these logarithms. 1 if there are no ratios.
pub fn mean_ratio(logs: &[f64]) -> f64 {
    (logs.iter().sum::<f64>() / logs.len().max(1) as f64).exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::{Head, Variant};
    use crate::runs::{Boot, Measured, Plan, Stop};

    #[test]
    fn only_rounds_in_which_both_ended_count() {
        let stop = Stop { rounds: 3, ..Stop::default() };
        let plan = Plan { variants: 2, warm_ups: 1, stop, seed: 1, ..Plan::default() };
        let head = Head::of(plan, vec![Variant::named("good"), Variant::named("bad")]);
        let boot = |(variant, round, total_ns): (usize, Option<u32>, Option<i64>)| Boot {
            number: 0,
            round,
            variant,
            began_ns: 0,
            measured: Measured { total_ns, ..Measured::default() },
        };
        let boots = [
            (0, None, Some(7)), // to warm up
            (0, Some(0), Some(100)),
            (1, Some(0), Some(200)),
            (1, Some(1), None),
            (0, Some(1), Some(100)),
            (1, Some(2), Some(50)),
            (0, Some(2), Some(100)),
        ];
        let document = Document::new(head, boots.map(boot).to_vec(), None);
        let logs = log_ratios(&document);
        assert_eq!(logs, [2_f64.ln(), 0.5_f64.ln()]);
        assert!((mean_ratio(&logs) - 1.0).abs() < 1e-12 && mean_ratio(&[]) == 1.0);
    }
}
