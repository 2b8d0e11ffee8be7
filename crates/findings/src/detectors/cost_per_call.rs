//! Calls of a function whose cost grows with their number.

use crate::detector::{Detector, Draft, Left, Part};
use crate::facts::{Confidence, Figure, Value};
use crate::statistics::{line_fit, quantile, rank_correlation};
use crate::{Need, Remedy, Seen};
use hashbrown::HashMap;
use std::cmp::Reverse;
use timeline::{NameId, Ns, SpanId, SpanKind, SpanRow};

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

const MIN_CALLS: usize = 100;
/// The longest calls are parts of the finding, at most this number.
const MAX_PARTS: usize = 30_000;
const MIN_SHARE: f64 = 0.01;
const MIN_CORRELATION: f64 = 0.7;
/// The smallest correlation in each half of the calls.
const MIN_HALF_CORRELATION: f64 = 0.4;
const MIN_FACTOR: f64 = 3.0;
/// A line that explains less of the scatter says nothing about its ends.
const MIN_FIT: f64 = 0.9;
/// The part of the calls that is ignored at the cheap end, because a call may have been cut off.
const CHEAPEST: f64 = 0.01;

/// A function and its caller.
type CallPair = [NameId; 4];

fn look(seen: &Seen) -> Vec<Draft> {
    let call_pair = |id: SpanId, row: &SpanRow| {
        let caller = seen.timeline.spans.parent(id).map(|id| seen.timeline.spans.get(id))?;
        let is_work =
            row.kind == SpanKind::Call && seen.at_work(row.track, row.start).is_some_and(|at| at.start >= row.start);
        is_work.then_some([caller.name, caller.detail, row.name, row.detail])
    };
    // First finds the functions with many calls: most have few.
    let mut sums: HashMap<CallPair, (usize, Ns)> = HashMap::new();
    for (id, row) in seen.spans() {
        if let Some(called) = call_pair(id, &row) {
            let sum = sums.entry(called).or_default();
            *sum = (sum.0 + 1, sum.1 + row.length());
        }
    }
    sums.retain(|_, (count, time)| *count >= MIN_CALLS && time.0 as f64 >= seen.end.0 as f64 * MIN_SHARE);
    let mut calls: HashMap<CallPair, Vec<(u32, SpanRow)>> = HashMap::new();
    for (id, row) in seen.spans() {
        if let Some(called) = call_pair(id, &row).filter(|called| sums.contains_key(called)) {
            calls.entry(called).or_default().push((seen.timeline.spans.depth(id), row));
        }
    }
    let mut found: Vec<(u32, Ns, Draft)> = Vec::new();
    for mut calls in calls.into_values() {
        calls.sort_by_key(|(_, row)| (row.start, row.track));
        let depth = calls.iter().map(|&(depth, _)| depth).max().unwrap_or_default();
        let rows: Vec<SpanRow> = calls.into_iter().map(|(_, row)| row).collect();
        found.extend(draft_of_calls(seen, &rows).map(|draft| (depth, rows[0].start, draft)));
    }
    // A caller's cost grows as well: the innermost function is the cause.
    found.sort_by_key(|&(depth, start, _)| (Reverse(depth), start));
    found.into_iter().map(|(_, _, draft)| draft).collect()
}

fn draft_of_calls(seen: &Seen, calls: &[SpanRow]) -> Option<Draft> {
    let costs: Vec<f64> = calls.iter().map(|row| row.length().0 as f64).collect();
    let numbers: Vec<f64> = (0..calls.len()).map(|number| number as f64).collect();
    let correlation = rank_correlation(&numbers, &costs);
    let middle = |rows: &[SpanRow]| quantile(rows.iter().map(SpanRow::length), 0.5).unwrap_or_default();
    let tenth = calls.len() / 10;
    let (first, last) = (middle(&calls[..tenth]), middle(&calls[calls.len() - tenth..]));
    let (least, most) = if correlation > 0.0 { (first, last) } else { (last, first) };
    let times = most.0 as f64 / least.0.max(1) as f64;
    if correlation.abs() < MIN_CORRELATION || times < MIN_FACTOR {
        return None;
    }
    // A chain grows in each half of the calls. A step, for instance at a change of a cache or the console, is in one half.
    let half = calls.len() / 2;
    let trend = |range: std::ops::Range<usize>| rank_correlation(&numbers[range.clone()], &costs[range]);
    if [trend(0..half), trend(half..calls.len())].iter().any(|half| half * correlation.signum() < MIN_HALF_CORRELATION)
    {
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
    longest.truncate(MAX_PARTS);
    let cheapest = quantile(calls.iter().map(SpanRow::length), CHEAPEST).unwrap_or_default();
    // Cost of an empty chain, if the costs are on a line: the cheaper tenth still goes through a twentieth of the chain.
    let at_its_end = line_at(&numbers, &costs, slope, if correlation > 0.0 { 0.0 } else { calls.len() as f64 - 1.0 });
    let likely = if fit >= MIN_FIT { Ns::rounded(at_its_end).clamp(cheapest, least.max(cheapest)) } else { least };
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

/// The value at a place of the line with this slope through the mean of the points.
fn line_at(xs: &[f64], ys: &[f64], slope: f64, at: f64) -> f64 {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    mean(ys) + slope * (at - mean(xs))
}

/// The first call from which on costs are twice the least, compared by the medians of hundredths of the calls.
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

    /// Boots with calls whose cost in ns depends on their number.
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
        // The median of the first tenth is 4150 ns; twice that is the cost of call 347.
        assert!(matches!(value("twice the least from call"), Value::Count(331..=391)), "{:?}", only.figures);
        let cost: i64 = (0..3_000).map(|i| 1_000 + 21 * i).sum();
        // The last call of the cheapest hundredth costs 1630 ns; in the worst case twice the cheaper tenth's median stays.
        assert!((only.price.likely.0 - (cost - 3_000 * 1_630)).abs() < cost / 100, "{:?} of {cost}", only.price);
        assert!((only.price.low.0 - (cost - 3_000 * 8_300)).abs() < cost / 50, "{:?} of {cost}", only.price);
    }

    #[test]
    fn what_is_taken_apart_becomes_cheaper_with_each_call() {
        let found = calls(3_000, |i| 1_000 + 21 * (3_000 - i));
        assert_eq!((found[0].rule.id, found[0].about.as_str()), ("cost-per-call", "vmem_hash_delete"));
    }

    #[test]
    fn costs_that_scatter_or_stay_are_not_found() {
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
