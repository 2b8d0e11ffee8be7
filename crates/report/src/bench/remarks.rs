//! Remarks that qualify a variant's figures: failed boots, outliers, two modes, an effect of the order.

use crate::paragraph::paragraph;
use crate::text::counted;
use crate::{Layout, harmless};
use benchmark::{Boot, Document};
use recording::OutcomeKind;
use statistics::describe::Description;
use timeline::{Ns, Unit};

/// The p value below which an effect of the order is reported.
const ORDER_P: f64 = 0.01;
/// The most outliers that are listed.
const MAX_OUTLIERS: usize = 8;

/// Writes the remarks on one variant.
pub fn remarks(document: &Document, variant: usize, layout: Layout, out: &mut String) {
    let Some(runs) = document.results.variants.get(variant) else { return };
    let boots = || document.boots.iter().filter(move |b| b.variant == variant && b.round.is_some());
    let mut remarks = failures(boots());
    if let Some(total) = &runs.total {
        let mut reached: Vec<&Boot> = boots().filter(|b| b.measured.total_ns.is_some()).collect();
        reached.sort_by_key(|b| b.round);
        remarks.extend(of_runs(total, &reached, layout.unit));
    }
    let name = if document.head.variants.len() > 1 { format!("{}: ", runs.name) } else { String::new() };
    for remark in remarks {
        paragraph(&harmless(&format!("{name}{remark}")), "note: ", layout, out);
    }
}

/// The kinds of failure, each with its count and its first boot.
fn failures<'a>(boots: impl Iterator<Item = &'a Boot>) -> Vec<String> {
    let mut kinds: Vec<(String, usize, &Boot)> = Vec::new();
    for boot in boots.filter(|b| b.measured.total_ns.is_none()) {
        let how = how_it_failed(&boot.measured.outcome);
        match kinds.iter_mut().find(|(kind, ..)| *kind == how) {
            Some((_, count, _)) => *count += 1,
            None => kinds.push((how, 1, boot)),
        }
    }
    let say = |(how, count, first): &(String, usize, &Boot)| {
        let detail = &first.measured.detail;
        let detail = if detail.is_empty() { String::new() } else { format!(" ({detail})") };
        format!("{} {how}: boot {}{detail}", self::counted(*count as u64, "boot"), first.number)
    };
    kinds.iter().map(say).collect()
}

/// The failure of a boot without a length. A boot that reached its end mark may still not be measurable.
fn how_it_failed(outcome: &str) -> String {
    if outcome == OutcomeKind::Reached.as_str() {
        return "reached the end mark but cannot be measured".to_owned();
    }
    format!("ended with {outcome}")
}

fn of_runs(total: &Description, reached: &[&Boot], unit: Unit) -> Vec<String> {
    let mut remarks = Vec::new();
    let time = |ns: f64| unit.show(Ns::rounded(ns));
    if !total.outliers.is_empty() {
        let total_of_median = total.median.estimate;
        let boots: Vec<String> = total
            .outliers
            .iter()
            .take(MAX_OUTLIERS)
            .filter_map(|&place| reached.get(place))
            .map(|b| {
                let total = b.measured.total_ns.unwrap_or_default();
                let more = total as f64 - total_of_median;
                let than = if more < 0.0 { "less" } else { "more" };
                format!("{} ({}, {} {than} than the median)", b.number, unit.show(Ns(total)), time(more.abs()))
            })
            .collect();
        let more = if total.outliers.len() > MAX_OUTLIERS { ", …" } else { "" };
        let count = counted(total.outliers.len() as u64, "outlier");
        remarks.push(format!(
            "{count}: boot {}{more}; all figures include {}",
            boots.join(", "),
            if total.outliers.len() == 1 { "it" } else { "them" }
        ));
    }
    if let Some(modes) = &total.modes {
        remarks.push(format!(
            "the boots fall into two groups: {} take about {}, {} about {}; mean and median describe neither",
            modes.low_count,
            time(modes.low),
            modes.high_count,
            time(modes.high)
        ));
    }
    if total.order.is_some_and(|order| order.p < ORDER_P) {
        remarks.push("each boot takes about as long as the one before: the host became slower or faster meanwhile, which adds to the spread".to_owned());
    }
    if total.count > 1 && total.min == total.max {
        remarks.push(format!(
            "all boots took exactly as long, to the {}",
            if unit == Unit::Instructions { "instruction" } else { "nanosecond" }
        ));
    }
    remarks
}
