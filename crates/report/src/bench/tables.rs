//! Tables of a bench: its variants, a variant's phases in order and rows by length, metrics.

use crate::table::{Align, Column, Line, render};
use crate::text::{amount, counted, percent, places};
pub(crate) use crate::trial::time;
use crate::trial::unit_of_boots;
use crate::{Layout, harmless};
use benchmark::{Document, METRICS, Metric, Results, VariantRuns};
use recording::OutcomeKind;
use statistics::Interval;
use statistics::describe::Description;
use statistics::verdict::Change;
use std::fmt::Write;
use timeline::Unit;

/// The share of the whole above which a row is marked.
const MARKED: f64 = 0.01;
const MARK: &str = "*";

/// The unit of a bench's lengths. A deterministic boot has no wall-clock time.
pub fn unit(document: &Document) -> Unit {
    unit_of_boots(document)
}

/// The most digits of a length.
const MAX_DIGITS: i32 = 7;

/// The length with enough digits to show a difference of this size: 877.12 M and 877.54 M, not twice 877 M.
pub fn time_beside(unit: Unit, ns: f64, difference: f64) -> String {
    let short = time(unit, ns);
    let (size, whole_digits) = match ns.abs() {
        length if length < 1e3 => return short,
        length if length < 999_500.0 => (1e3, (length / 1e3).log10()),
        length if length < 999_500_000.0 => (1e6, (length / 1e6).log10()),
        length => (1e9, (length / 1e9).log10()),
    };
    let digits = (ns / difference).abs().log10().floor() + 2.0;
    if difference == 0.0 || digits <= 3.0 {
        return short;
    }
    let decimals = (digits.min(f64::from(MAX_DIGITS)) - whole_digits.floor() - 1.0).max(0.0);
    let name = short.split_once(' ').map_or(String::new(), |(_, name)| format!(" {name}"));
    format!("{:.*}{name}", places(decimals), ns / size)
}

/// `1.23 s to 1.31 s`
pub fn between(unit: Unit, interval: &Interval) -> String {
    format!("{} to {}", time(unit, interval.low), time(unit, interval.high))
}

/// A standard deviation, or an empty text.
pub fn spread(unit: Unit, sd: Option<f64>) -> String {
    sd.map_or_else(String::new, |sd| format!("± {}", time(unit, sd)))
}

/// The change of a time, in a word or two.
pub(crate) fn of_time(change: Change) -> &'static str {
    match change {
        Change::Less => "faster",
        Change::More => "slower",
        Change::NoDifference => "no difference",
        Change::TooNoisy => "too noisy",
        Change::TooFew => "too few",
    }
}

/// Writes the figures of the only variant.
pub fn alone(runs: &VariantRuns, layout: Layout, out: &mut String) {
    let Some(total) = &runs.total else {
        let reached = runs.outcomes.contains_key(OutcomeKind::Reached.as_str());
        let _ = writeln!(out, "no boot {}", if reached { "could be measured" } else { "reached its end mark" });
        return;
    };
    let mean = layout.style.heading(&time(layout.unit, total.mean));
    let boots = counted(total.count as u64, "boot");
    let sd = if total.sd.is_some() {
        format!(" {} (mean and standard deviation)", spread(layout.unit, total.sd))
    } else {
        String::new()
    };
    let _ = writeln!(out, "total   {mean}{sd}, {boots}");
    let confidence = total.median.confidence;
    if confidence > 0.0 {
        let (median, interval) = (time(layout.unit, total.median.estimate), between(layout.unit, &total.median));
        let _ = writeln!(out, "median  {median}, {interval} with {} confidence", percent(confidence));
        let (low, high) = (time(layout.unit, total.lower_quartile), time(layout.unit, total.upper_quartile));
        let _ = writeln!(
            out,
            "range   {} to {}, half of them {low} to {high}",
            time(layout.unit, total.min),
            time(layout.unit, total.max)
        );
    }
}

/// Writes all variants, each against the first.
pub fn variants(document: &Document, layout: Layout, out: &mut String) {
    let columns = [
        Column::new("variant", Align::Left, None),
        Column::new("boots", Align::Right, Some(9)),
        Column::new("mean", Align::Right, Some(layout.time_width() + 2)),
        Column::new("sd", Align::Left, Some(layout.time_width())),
        Column::new("median", Align::Right, Some(layout.time_width() + 2)),
        Column::new("ratio", Align::Right, Some(7)),
        Column::new("verdict", Align::Left, Some(13)),
    ];
    let results = &document.results;
    let mean_of = |runs: &VariantRuns| runs.total.as_ref().map(|total| total.mean);
    let first = results.variants.first().and_then(mean_of);
    let differences = results.variants.iter().filter_map(|runs| Some((mean_of(runs)? - first?).abs()));
    let least = differences.filter(|difference| *difference > 0.0).fold(f64::MAX, f64::min);
    let line = |(i, runs): (usize, &VariantRuns)| {
        let all: usize = runs.outcomes.values().sum();
        let reached = runs.total.as_ref().map_or(0, |t| t.count);
        let boots = if reached == all { all.to_string() } else { format!("{reached} of {all}") };
        let total_text = |f: &dyn Fn(&Description) -> String| runs.total.as_ref().map_or_else(String::new, f);
        let against = results.comparisons.iter().find(|c| c.variant == i);
        let total = against.and_then(|c| c.total.as_ref());
        let has_verdict = against.is_none_or(|against| against.uncountable.is_empty());
        let ratio = total.and_then(|c| c.ratio).map_or_else(String::new, |r| format!("{:.3}", r.estimate));
        let verdict = if has_verdict { total.map_or("", |c| of_time(c.change)) } else { "no verdict" }.to_owned();
        let (mean, median) = (
            total_text(&|t: &Description| time_beside(layout.unit, t.mean, least)),
            total_text(&|t: &Description| time_beside(layout.unit, t.median.estimate, least)),
        );
        let name = harmless(&runs.name).into_owned();
        Line {
            cells: vec![
                name,
                boots,
                mean,
                total_text(&|t: &Description| spread(layout.unit, t.sd)),
                median,
                ratio,
                verdict,
            ],
            faint: false,
        }
    };
    let lines: Vec<Line> = results.variants.iter().enumerate().map(line).collect();
    render(&columns, &lines, layout.table_width(), layout.style, out);
    out.push('\n');
}

/// Writes the phases over all runs, in the order of the boot.
pub fn phases(runs: &VariantRuns, layout: Layout, out: &mut String) {
    let Some(total) = &runs.total else { return };
    let columns = [
        Column::new("phase", Align::Left, None),
        Column::new("begins", Align::Right, Some(layout.time_width())),
        Column::new("", Align::Left, Some(layout.time_width() + 2)),
        Column::new("takes", Align::Right, Some(layout.time_width())),
        Column::new("", Align::Left, Some(layout.time_width() + 2)),
        Column::new("share", Align::Right, Some(7)),
        Column::new("", Align::Left, Some(1)),
    ];
    let line = |phase: &benchmark::PhaseRuns| Line {
        cells: vec![
            harmless(&phase.name).into_owned(),
            time(layout.unit, phase.start_mean),
            spread(layout.unit, phase.start_sd),
            time(layout.unit, phase.length.mean),
            spread(layout.unit, phase.length.sd),
            percent(phase.length.mean / total.mean),
            mark(phase.length.mean, total.mean),
        ],
        faint: false,
    };
    let lines: Vec<Line> = runs.phases.iter().map(line).collect();
    out.push('\n');
    render(&columns, &lines, layout.table_width(), layout.style, out);
}

/// Writes the rows that the boot path was charged to, the longest first.
pub fn rows(runs: &VariantRuns, layout: Layout, out: &mut String) {
    let Some(total) = runs.total.as_ref().filter(|_| !runs.rows.is_empty()) else { return };
    let columns = [
        Column::new("where the boot path went", Align::Left, None),
        Column::new("mean", Align::Right, Some(layout.time_width())),
        Column::new("", Align::Left, Some(layout.time_width() + 2)),
        Column::new("median", Align::Right, Some(layout.time_width())),
        Column::new("share", Align::Right, Some(7)),
        Column::new("", Align::Left, Some(1)),
    ];
    let (top, rest) = runs.rows.split_at(layout.top.min(runs.rows.len()));
    let line = |row: &benchmark::RowRuns| {
        let name = harmless(&row.name);
        let name =
            if row.seen < total.count { format!("{name} (in {} of {})", row.seen, total.count) } else { name.into() };
        let (mean, median) = (time(layout.unit, row.mean), time(layout.unit, row.median.estimate));
        let share = percent(row.mean / total.mean);
        Line {
            cells: vec![name, mean, spread(layout.unit, row.sd), median, share, mark(row.mean, total.mean)],
            faint: false,
        }
    };
    let mut lines: Vec<Line> = top.iter().map(line).collect();
    if !rest.is_empty() {
        let sum: f64 = rest.iter().map(|row| row.mean).sum();
        let name = format!("everything else ({})", counted(rest.len() as u64, "row"));
        let mut cells = vec![name, time(layout.unit, sum), String::new(), String::new(), percent(sum / total.mean)];
        cells.push(String::new());
        lines.push(Line { cells, faint: true });
    }
    out.push('\n');
    render(&columns, &lines, layout.table_width(), layout.style, out);
    let _ = writeln!(out, "{MARK} more than {} of the boot", percent(MARKED));
}

fn mark(ns: f64, whole_ns: f64) -> String {
    if ns > MARKED * whole_ns { MARK.to_owned() } else { String::new() }
}

/// The most variants that stand side by side as columns.
const MAX_BESIDE: usize = 3;

/// Writes the known metrics: a row for each metric, a column for each variant.
pub fn metrics(results: &Results, layout: Layout, out: &mut String) {
    let is_known = |metric: &&Metric| results.variants.iter().any(|runs| runs.metrics.known(metric.name).is_some());
    let metrics: Vec<&Metric> = METRICS.iter().filter(is_known).collect();
    if metrics.is_empty() {
        return;
    }
    for variants in results.variants.chunks(MAX_BESIDE) {
        let mut columns = vec![Column::new("metric, mean and sd", Align::Left, None)];
        let title = |runs: &VariantRuns| harmless(&runs.name).into_owned();
        columns.extend(variants.iter().map(|runs| Column::new(title(runs), Align::Right, Some(22))));
        let line = |metric: &&Metric| {
            let amounts = variants.iter().map(|runs| mean_and_sd(metric, runs));
            Line { cells: std::iter::once(metric.text.to_owned()).chain(amounts).collect(), faint: false }
        };
        let lines: Vec<Line> = metrics.iter().map(line).collect();
        if !out.ends_with("\n\n") {
            out.push('\n');
        }
        render(&columns, &lines, layout.table_width(), layout.style, out);
    }
}

fn mean_and_sd(metric: &Metric, runs: &VariantRuns) -> String {
    let Some(figures) = runs.metrics.known(metric.name) else { return String::new() };
    let mean = amount(metric.unit, figures.mean);
    figures.sd.filter(|&sd| sd > 0.0).map_or(mean.clone(), |sd| format!("{mean} ± {}", amount(metric.unit, sd)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_has_the_digits_that_a_difference_needs() {
        let show = |ns: f64, difference: f64| time_beside(Unit::Instructions, ns, difference);
        assert_eq!(
            [show(877_123_456.0, 420_000.0), show(877_543_456.0, 420_000.0)],
            ["877.12 M instr", "877.54 M instr"]
        );
        assert_eq!(time_beside(Unit::Nanoseconds, 2_345_678_901.0, 1_500_000.0), "2.3457 s");
        // Three digits show the difference, or nothing differs.
        assert_eq!([show(877_123_456.0, 90_000_000.0), show(877_123_456.0, f64::MAX)], ["877 M instr", "877 M instr"]);
        assert_eq!(
            [show(877_123_456.0, 0.0), show(877.0, 1.0), show(0.0, 1.0)],
            ["877 M instr", "877 instr", "0 instr"]
        );
        // All digits of the number, and no more.
        assert_eq!(show(877_123_456.0, 1.0), "877.1235 M instr");
    }
}
