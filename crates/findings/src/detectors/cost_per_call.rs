//! Calls of one function that cost more the more of them there were.

use crate::detector::{Detector, Draft, Left, Part};
use crate::facts::{Confidence, Figure, Value};
use crate::statistics::{line_fit, quantile, rank_correlation};
use crate::{Need, Remedy, Seen};
use hashbrown::HashMap;
use std::cmp::Reverse;
use timeline::{NameId, Ns, SpanId, SpanKind, SpanRow};

/// The detector.
pub const DETECTOR: Detector = Detector {
    id: "cost-per-call",
    title: "a call costs more the more there are to go through",
    rule: "One function is called again and again by another, and the cost of a call goes up with the number of its calls so \
           far; or it goes down, where the calls take something apart. So does a search through a chain or a list that was \
           never made larger. The rule compares the order of the calls with the order of their costs (Spearman), and the \
           first tenth of the calls with the last one. It fits a line, and says from which call on costs are twice the least.",
    source: "illumos bug 12262: vmem_hash_delete goes through 27 606 301 196 links of a hash that is resized too late; 30 \
             minutes become seconds",
    threshold: "at least 100 calls that take 1 % of the boot, a rank correlation of 0.7 or more, 0.4 or more in \
                each half, and one tenth of the calls that costs three times the other",
    price: "each call costs what a line through the costs says of the cheapest, or what the cheaper tenth does where no line \
            explains them; at the worst twice what that tenth does",
    needs: &[Need::BootPath, Need::Functions],
    look,
};

const CALLS_MIN: usize = 100;
/// The longest of so many are parts of the finding.
const PARTS_MAX: usize = 30_000;
const SHARE_MIN: f64 = 0.01;
const CORRELATION_MIN: f64 = 0.7;
/// In each half of the calls.
const HALF_MIN: f64 = 0.4;
const TIMES_MIN: f64 = 3.0;
/// A line that explains less of the scatter says nothing of its ends.
const FIT_MIN: f64 = 0.9;
/// So large a part of the calls is cheaper than the cheapest that counts: one may have been cut off.
const CHEAPEST: f64 = 0.01;

/// A function, and who called it.
type Called = [NameId; 4];

fn look(seen: &Seen) -> Vec<Draft> {
    let of = |id: SpanId, row: &SpanRow| {
        let caller = seen.timeline.spans.parent(id).map(|id| seen.timeline.spans.get(id))?;
        let is_work =
            row.kind == SpanKind::Call && seen.at_work(row.track, row.start).is_some_and(|at| at.start >= row.start);
        is_work.then_some([caller.name, caller.detail, row.name, row.detail])
    };
    // First who is called often: most functions are not.
    let mut sums: HashMap<Called, (usize, Ns)> = HashMap::new();
    for (id, row) in seen.spans() {
        if let Some(called) = of(id, &row) {
            let sum = sums.entry(called).or_default();
            *sum = (sum.0 + 1, sum.1 + row.length());
        }
    }
    sums.retain(|_, (count, time)| *count >= CALLS_MIN && time.0 as f64 >= seen.end.0 as f64 * SHARE_MIN);
    let mut calls: HashMap<Called, Vec<(u32, SpanRow)>> = HashMap::new();
    for (id, row) in seen.spans() {
        if let Some(called) = of(id, &row).filter(|called| sums.contains_key(called)) {
            calls.entry(called).or_default().push((seen.timeline.spans.depth(id), row));
        }
    }
    let mut found: Vec<(u32, Ns, Draft)> = Vec::new();
    for mut calls in calls.into_values() {
        calls.sort_by_key(|(_, row)| (row.start, row.track));
        let depth = calls.iter().map(|&(depth, _)| depth).max().unwrap_or_default();
        let rows: Vec<SpanRow> = calls.into_iter().map(|(_, row)| row).collect();
        found.extend(of_calls(seen, &rows).map(|draft| (depth, rows[0].start, draft)));
    }
    // Who calls it costs more as well: the innermost is the cause.
    found.sort_by_key(|&(depth, start, _)| (Reverse(depth), start));
    found.into_iter().map(|(_, _, draft)| draft).collect()
}

fn of_calls(seen: &Seen, calls: &[SpanRow]) -> Option<Draft> {
    let costs: Vec<f64> = calls.iter().map(|row| row.length().0 as f64).collect();
    let numbers: Vec<f64> = (0..calls.len()).map(|number| number as f64).collect();
    let correlation = rank_correlation(&numbers, &costs);
    let middle = |rows: &[SpanRow]| quantile(rows.iter().map(SpanRow::length), 0.5).unwrap_or_default();
    let tenth = calls.len() / 10;
    let (first, last) = (middle(&calls[..tenth]), middle(&calls[calls.len() - tenth..]));
    let (least, most) = if correlation > 0.0 { (first, last) } else { (last, first) };
    let times = most.0 as f64 / least.0.max(1) as f64;
    if correlation.abs() < CORRELATION_MIN || times < TIMES_MIN {
        return None;
    }
    // A chain grows in each half of the calls. A step, as where a cache or the console changes, is in one.
    let half = calls.len() / 2;
    let trend = |range: std::ops::Range<usize>| rank_correlation(&numbers[range.clone()], &costs[range]);
    if [trend(0..half), trend(half..calls.len())].iter().any(|half| half * correlation.signum() < HALF_MIN) {
        return None;
    }
    let (slope, fit) = line_fit(&numbers, &costs);
    let mut figures = vec![
        Figure { of: "calls", value: Value::Count(calls.len() as u64) },
        Figure { of: "the first", value: Value::Time(first) },
        Figure { of: "the last", value: Value::Time(last) },
        Figure { of: "times", value: Value::Times(times) },
        Figure { of: "each thousand calls", value: Value::Time(Ns::rounded(slope * 1000.0)) },
        Figure { of: "a line explains", value: Value::Share(fit) },
        Figure { of: "rank correlation", value: Value::Times(correlation) },
    ];
    if let Some(call) = twice_from(calls, least).filter(|_| correlation > 0.0) {
        figures.push(Figure { of: "twice the least from call", value: Value::Count(call as u64 + 1) });
    }
    let mut longest: Vec<&SpanRow> = calls.iter().collect();
    longest.sort_by_key(|row| (Reverse(row.length()), row.start));
    longest.truncate(PARTS_MAX);
    let cheapest = quantile(calls.iter().map(SpanRow::length), CHEAPEST).unwrap_or_default();
    // What a chain of nothing costs, where the costs are on a line: the cheaper tenth still goes through a twentieth of it.
    let at_its_end = line_at(&numbers, &costs, slope, if correlation > 0.0 { 0.0 } else { calls.len() as f64 - 1.0 });
    let likely = if fit >= FIT_MIN { Ns::rounded(at_its_end).clamp(cheapest, least.max(cheapest)) } else { least };
    let left = |row: &SpanRow| Left::time(row.length(), cheapest.min(likely), likely, (least + least).max(likely));
    Some(Draft {
        about: (calls[0].name, calls[0].detail),
        figures,
        parts: longest.into_iter().map(|row| Part { stretch: seen.stretch(row), left: left(row) }).collect(),
        confidence: Confidence::Medium,
        remedy: Remedy::code(
            "change the code: resize the hash or list while it fills (call its update earlier), or find an entry without \
             going through all others",
        ),
    })
}

/// What a line with this slope through the middle of the points says at a place.
fn line_at(of: &[f64], with: &[f64], slope: f64, at: f64) -> f64 {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    mean(with) + slope * (at - mean(of))
}

/// From which call on costs are twice the least: the middle of a hundredth of the calls, and of all hundredths after it.
fn twice_from(calls: &[SpanRow], least: Ns) -> Option<usize> {
    let size = (calls.len() / 100).max(1);
    let is_twice =
        |rows: &&[SpanRow]| quantile(rows.iter().map(SpanRow::length), 0.5).is_some_and(|cost| cost >= least + least);
    let after = calls.chunks(size).collect::<Vec<_>>().iter().rposition(|rows| !is_twice(rows)).map_or(0, |at| at + 1);
    (after * size < calls.len()).then_some(after * size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Finding;
    use crate::seen::testing::{Log, ms};

    /// Calls that cost so many ns each, by their number.
    fn calls(count: i64, cost: impl Fn(i64) -> i64) -> Vec<Finding> {
        let mut log = Log::new();
        log.initcall("works", |log| log.call("works", ms(100)));
        log.within("em_stop", |log| {
            for i in 0..count {
                log.within("vmem_free", |log| {
                    log.call("vmem_hash_delete", Ns(cost(i)));
                    log.call("works", Ns(200));
                });
            }
        });
        log.found().findings
    }

    #[test]
    fn a_chain_that_is_never_resized_is_found_and_the_innermost_is_blamed() {
        let found = calls(3_000, |i| 1_000 + 21 * i);
        let [only] = &found[..] else { panic!("{found:?}") };
        assert_eq!((only.rule.id, only.about.as_str()), ("cost-per-call", "vmem_hash_delete"));
        let value = |of: &str| only.figures.iter().find(|figure| figure.of == of).unwrap().value;
        assert_eq!((value("calls"), value("each thousand calls")), (Value::Count(3_000), Value::Time(Ns(21_000))));
        assert!(matches!(value("a line explains"), Value::Share(fit) if fit > 0.999), "{:?}", value("a line explains"));
        // The first tenth's middle is 4150 ns: twice that is call 347.
        assert!(matches!(value("twice the least from call"), Value::Count(331..=391)), "{:?}", only.figures);
        let cost: i64 = (0..3_000).map(|i| 1_000 + 21 * i).sum();
        // The cheapest hundredth's last is 1630 ns, and twice the cheaper tenth's middle may stay at the worst.
        assert!((only.price.likely.0 - (cost - 3_000 * 1_630)).abs() < cost / 100, "{:?} of {cost}", only.price);
        assert!((only.price.low.0 - (cost - 3_000 * 8_300)).abs() < cost / 50, "{:?} of {cost}", only.price);
    }

    #[test]
    fn what_is_taken_apart_becomes_cheaper_with_each_call() {
        let found = calls(3_000, |i| 1_000 + 21 * (3_000 - i));
        assert_eq!((found[0].rule.id, found[0].about.as_str()), ("cost-per-call", "vmem_hash_delete"));
    }

    #[test]
    fn costs_that_scatter_or_stay_are_none() {
        assert!(calls(3_000, |_| 20_000).is_empty());
        assert!(calls(3_000, |i| 1_000 + i * 7_919 % 63_000).is_empty(), "any order");
        assert!(calls(3_000, |i| if i < 200 { 60_000 } else { 3_000 }).is_empty(), "caches that were cold");
        assert!(calls(3_000, |i| 20_000 + 5 * i).is_empty(), "by three quarters");
        assert!(
            calls(100, |i| if i < 50 { 55_000 + i * 31 % 17 * 100 } else { 204_000 + i * 37 % 19 * 100 }).is_empty(),
            "a step"
        );
        assert!(calls(99, |i| 1_000 + 2_000 * i).is_empty(), "few");
    }
}
