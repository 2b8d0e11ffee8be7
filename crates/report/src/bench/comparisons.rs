//! Each variant against the first: a verdict to act on, and the rows that changed.

use super::tables::{between, time, time_beside, unit};
use crate::diff::signed;
use crate::paragraph::paragraph;
use crate::table::{Align, Column, Line, render};
use crate::text::{amount, counted, two_digits as per_cent};
use crate::{Layout, harmless};
use benchmark::metrics::Better;
use benchmark::{Against, Document, Metric, Moved, VariantRuns};
use statistics::verdict::{Basis, Change, Comparison};
use timeline::{Unit, rounded};

/// More comparisons than this are only in the table, and so are those of a sweep with scaling models. `--verbose`
/// prints all.
const MAX_EXPLAINED: usize = 4;

/// Writes all comparisons.
pub fn comparisons(document: &Document, whole: bool, layout: Layout, out: &mut String) {
    let results = &document.results;
    let in_table = results.comparisons.len() > MAX_EXPLAINED || !results.scaling.is_empty();
    if in_table && !whole {
        // Scaling models list rows. Without them, the reader must learn how to see the rows.
        if results.scaling.is_empty() {
            out.push_str("--verbose prints what changed in each of them\n");
        }
        return;
    }
    for against in &results.comparisons {
        let (Some(first), Some(second)) = (results.variants.first(), results.variants.get(against.variant)) else {
            continue;
        };
        let text = verdict(document, against, &first.name, &second.name);
        paragraph(&harmless(&text), "", layout, out);
        match not_comparable(against, first, second) {
            Some(text) => paragraph(&harmless(&text), "", layout, out),
            None => write_changes(against, first, second, layout, out),
        }
        likely(against, layout, out);
        metrics(&against.metrics, layout, out);
        out.push('\n');
    }
}

/// The verdict on the totals, in a sentence or two.
fn verdict(document: &Document, against: &Against, first: &str, second: &str) -> String {
    let ask = &document.head.ask;
    let Some(total) = &against.total else {
        return format!("{second} and {first} cannot be compared: in no round did both reach the end mark");
    };
    let margin = per_cent(ask.margin);
    let unit = unit(document);
    let d = &total.difference;
    let interval = if d.is_sure() { format!(" ({})", unsigned_interval(unit, d.low, d.high)) } else { String::new() };
    let by = format!("by {}{interval}", time(unit, d.estimate.abs()));
    if !against.uncountable.is_empty() {
        let options = against.uncountable.join(" ");
        return format!(
            "{second} and {first}: no verdict. {options} changes what an instruction costs, and these boots count instructions \
             ({}): bench it without --deterministic",
            relative_change(total)
        );
    }
    let verdict = match total.change {
        Change::Less => format!("{second} is faster than {first} {by}"),
        Change::More => format!("{second} is slower than {first} {by}"),
        Change::NoDifference if total.direction().is_some() => {
            let p = total.p_corrected.map_or_else(String::new, |p| format!(", {}", p_value(p)));
            format!(
                "{second} and {first}: no difference that matters ({}{p}); the margin is {margin}",
                relative_change(total)
            )
        }
        Change::NoDifference => format!("{second} and {first}: no difference beyond {margin}"),
        Change::TooNoisy => {
            format!("{second} and {first}: the noise is too large to say whether they differ by {margin}")
        }
        Change::TooFew => format!("{second} and {first}: too few boots for a verdict; {}", least(document)),
    };
    [verdict, ratio(total), chance(total), power(total, ask.margin)]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("; ")
}

/// The change of the total relative to the first variant, such as `+0.46 %`.
fn relative_change(total: &Comparison) -> String {
    let change = total.ratio.map_or(0.0, |ratio| ratio.estimate - 1.0);
    format!("{}{}", if change < 0.0 { "−" } else { "+" }, per_cent(change.abs()))
}

fn p_value(p: f64) -> String {
    if p < 0.001 { "p < 0.001".to_owned() } else { format!("p = {p:.3}") }
}

/// The phases and rows that are not compared, and why.
fn not_comparable(against: &Against, first: &VariantRuns, second: &VariantRuns) -> Option<String> {
    let lost = against.not_comparable.as_ref()?;
    let (phases, rows) = (counted(lost.phases as u64, "phase"), counted(lost.rows as u64, "row"));
    let name = if lost.without_trace == against.variant { &second.name } else { &first.name };
    Some(format!(
        "not comparable: {name} has no trace ({phases}, {rows}); only totals, milestones and metrics are compared"
    ))
}

/// The interval of a difference as lengths without a sign, the smaller first.
fn unsigned_interval(unit: Unit, low: f64, high: f64) -> String {
    let interval = |low, high| between(unit, &statistics::Interval { estimate: low, low, high, confidence: 0.0 });
    if high <= 0.0 { interval(-high, -low) } else { interval(low, high) }
}

/// The number of boots that a verdict needs.
fn least(document: &Document) -> String {
    let test = benchmark::Test::of(&document.head);
    let others = document.head.variants.len().saturating_sub(1);
    let rounds = benchmark::rounds_least(others * document.head.ask.looks as usize, test);
    format!("at least --runs {rounds} is needed")
}

fn ratio(total: &Comparison) -> String {
    let Some(r) = total.ratio else { return String::new() };
    let interval = match total.basis {
        _ if r.is_sure() => format!(" (95 % interval {:.4} to {:.4})", r.low, r.high),
        Basis::Repeated(_) => String::new(),
        _ => " (too few boots for an interval)".to_owned(),
    };
    format!("ratio {:.4}{interval}", r.estimate)
}

fn chance(total: &Comparison) -> String {
    let boots = match total.basis {
        Basis::Pairs(pairs) => counted(pairs as u64, "pair"),
        Basis::Dithered(first, second) => format!("{first} and {second} boots"),
        Basis::Repeated(floor) => {
            return format!(
                "the boots repeat exactly, but another memory layout alone changes them by {}",
                per_cent(floor)
            );
        }
    };
    let corrected = total.p != total.p_corrected;
    match total.p_corrected.or(total.p) {
        Some(p) if corrected && p >= 0.001 => format!("{} (corrected for all comparisons), {boots}", p_value(p)),
        Some(p) => format!("{}, {boots}", p_value(p)),
        None => boots,
    }
}

/// The minimum detectable difference, and how many pairs would detect the margin.
fn power(total: &Comparison, margin: f64) -> String {
    let Some(shown) = total.shown_from.filter(|_| total.change != Change::TooFew) else { return String::new() };
    if let Basis::Dithered(..) = total.basis {
        return format!("minimum detectable difference: about {}", per_cent(shown));
    }
    let shown = format!("minimum detectable difference: {}", per_cent(shown));
    match (total.change, total.pairs_for_margin) {
        (Change::Less | Change::More, _) => String::new(),
        (Change::TooNoisy, Some(pairs)) => format!("{shown}; about {pairs} pairs would detect {}", per_cent(margin)),
        _ => shown,
    }
}

/// Writes the phases and rows that changed, the largest effect first.
fn write_changes(against: &Against, first: &VariantRuns, second: &VariantRuns, layout: Layout, out: &mut String) {
    let phase =
        |runs: &VariantRuns, name: &str| runs.phases.iter().find(|p| p.name == name).map_or(0.0, |p| p.length.mean);
    let row = |runs: &VariantRuns, name: &str| runs.rows.iter().find(|r| r.name == name).map_or(0.0, |r| r.mean);
    type Means<'a> = &'a dyn Fn(&VariantRuns, &str) -> f64;
    let tables: [(&'static str, &[Moved], Means); 2] =
        [("phase that changed", &against.phases, &phase), ("row that changed", &against.rows, &row)];
    for (title, all, mean) in tables {
        let changed: Vec<&Moved> = all.iter().filter(|m| changed(&m.by)).collect();
        if changed.is_empty() {
            continue;
        }
        let line = |m: &&Moved| {
            let d = &m.by.difference;
            let signed = |ns: f64| signed(rounded(ns), layout);
            Line {
                cells: vec![
                    harmless(&m.name).into_owned(),
                    signed(d.estimate),
                    format!("{} to {}", signed(d.low), signed(d.high)),
                    time_beside(layout.unit, mean(first, &m.name), d.estimate),
                    time_beside(layout.unit, mean(second, &m.name), d.estimate),
                ],
                faint: false,
            }
        };
        let listed = &changed[..changed.len().min(layout.top)];
        let mut lines: Vec<Line> = listed.iter().map(line).collect();
        let rest = rest(against, listed, all.len(), [first, second], mean, layout);
        let has_rest = rest.is_some();
        lines.extend(rest);
        // Repeated deterministic boots have no confidence interval.
        let interval =
            if changed.iter().all(|m| m.by.difference.is_sure()) { "95 % interval" } else { "range over layouts" };
        let columns = [
            Column::new(title, Align::Left, None),
            Column::new("by", Align::Right, Some(layout.time_width() + 1)),
            Column::new(interval, Align::Left, Some(24)),
            Column::new("from", Align::Right, Some(layout.time_width() + 2)),
            Column::new("to", Align::Right, Some(layout.time_width() + 2)),
        ];
        out.push('\n');
        render(&columns, &lines, layout.table_width(), layout.style, out);
        let (more, others) = (changed.len() - listed.len(), all.len() - changed.len());
        let unchanged = match (more, others) {
            (_, 0) => continue,
            // The last row of the table counts them.
            (0, _) if has_rest => "everything else".to_owned(),
            _ => format!("{others} more"),
        };
        paragraph(&format!("{unchanged} changed by no more than {}", beyond(&changed[0].by)), "", layout, out);
    }
    let looked_at = against.phases.len() + against.rows.len();
    if looked_at > 0 && !against.phases.iter().chain(&against.rows).any(|m| changed(&m.by)) {
        let any = against.phases.iter().chain(&against.rows).next();
        let beyond = any.map_or("chance", |m| beyond(&m.by));
        paragraph(&format!("none of {looked_at} phases and rows changed by more than {beyond}"), "", layout, out);
    }
}

/// A row for everything that is not listed, so that the table sums to the total and to its difference.
fn rest(
    against: &Against,
    listed: &[&Moved],
    all: usize,
    [first, second]: [&VariantRuns; 2],
    mean: &dyn Fn(&VariantRuns, &str) -> f64,
    layout: Layout,
) -> Option<Line> {
    let by = against.total.as_ref()?.difference.estimate;
    let rest_of = |runs: &VariantRuns| {
        let listed: f64 = listed.iter().map(|m| mean(runs, &m.name)).sum();
        Some(time(layout.unit, (runs.total.as_ref()?.mean - listed).max(0.0)))
    };
    let by = by - listed.iter().map(|m| m.by.difference.estimate).sum::<f64>();
    let unlisted = all.checked_sub(listed.len()).filter(|unlisted| *unlisted > 0)?;
    let name = format!("everything else ({})", counted(unlisted as u64, "row"));
    let cells = vec![name, signed(rounded(by), layout), String::new(), rest_of(first)?, rest_of(second)?];
    Some(Line { cells, faint: true })
}

/// Writes the rows that may be the cause of a phase's change, if no row is proven to be.
fn likely(against: &Against, layout: Layout, out: &mut String) {
    let Some(likely) = &against.likely_rows else { return };
    let (phase, moved) = (harmless(&likely.phase), signed(rounded(likely.phase_ns), layout));
    out.push('\n');
    if likely.rows.is_empty() {
        let text =
            format!("{phase} changed by {moved}. No single row explains it: each alone may have changed by chance");
        return paragraph(&text, "", layout, out);
    }
    let line = |m: &Moved| {
        let d = &m.by.difference;
        let signed = |ns: f64| signed(rounded(ns), layout);
        let p = m.by.p.map_or_else(String::new, |p| format!("{p:.3}"));
        let interval = format!("{} to {}", signed(d.low), signed(d.high));
        Line { cells: vec![harmless(&m.name).into_owned(), signed(d.estimate), interval, p], faint: false }
    };
    let lines: Vec<Line> = likely.rows.iter().take(layout.top.min(MAX_LIKELY)).map(line).collect();
    let columns = [
        Column::new("likely row (not proven)", Align::Left, None),
        Column::new("by", Align::Right, Some(layout.time_width() + 1)),
        Column::new("95 % interval alone", Align::Left, Some(24)),
        Column::new("p alone", Align::Right, Some(7)),
    ];
    render(&columns, &lines, layout.table_width(), layout.style, out);
    let text = format!(
        "{phase} changed by {moved}, and no row is proven to be the cause. These are likely: tested alone, each differs from 0. \
         About {:.0} of {} rows would do so by chance; more boots tell which.{}",
        likely.by_chance,
        likely.tested,
        match likely.rows.len() - lines.len() {
            0 => String::new(),
            more => format!(" {more} more rows are as likely but smaller; --json lists them."),
        }
    );
    paragraph(&text, "", layout, out);
}

/// The most likely rows that are listed.
const MAX_LIKELY: usize = 8;

/// The threshold that a change must exceed. Phases are tested together, and so are rows ([`statistics::max_t`]).
fn beyond(by: &Comparison) -> &'static str {
    match by.basis {
        Basis::Repeated(_) => "another memory layout alone changes them",
        _ => "chance (tested together; at most 5 % for any false row)",
    }
}

fn changed(comparison: &Comparison) -> bool {
    matches!(comparison.change, Change::Less | Change::More)
}

/// Writes the metrics that changed.
fn metrics(all: &[Moved], layout: Layout, out: &mut String) {
    for moved in all.iter().filter(|m| changed(&m.by)) {
        let Some(metric) = Metric::named(&moved.name) else { continue };
        let d = &moved.by.difference;
        let signed = |v: f64| format!("{}{}", if v < 0.0 { "−" } else { "+" }, amount(metric.unit, v.abs()));
        let less_or_more = if moved.by.change == Change::Less { "less" } else { "more" };
        let is_better = (d.estimate < 0.0) == (metric.better == Better::Lower);
        let text = format!(
            "{}: {} ({} to {}): {less_or_more}, which is {}",
            metric.text,
            signed(d.estimate),
            signed(d.low),
            signed(d.high),
            if is_better { "better" } else { "worse" }
        );
        paragraph(&text, "metric: ", layout, out);
    }
}
