//! Tables of a bench: its variants, a variant's phases in order and rows by length, memory.

use crate::table::{Align, Column, Line, render};
use crate::text::{bytes, counted, percent};
use crate::{Layout, harmless};
use benchmark::stats::Interval;
use benchmark::stats::describe::Description;
use benchmark::stats::verdict::Verdict;
use benchmark::{Document, Results, VariantRuns};
use std::fmt::Write;
use timeline::{Ns, Unit};

/// What takes more than this of the whole is marked.
const MARKED: f64 = 0.01;
const MARK: &str = "*";

/// What the lengths of a bench count: deterministic boots take instructions, and no time that a clock on a wall would show.
pub fn unit(document: &Document) -> Unit {
    if document.head.deterministic { Unit::Instructions } else { Unit::Nanoseconds }
}

/// A length that was computed; [`unit`] says what it counts.
pub fn time(unit: Unit, ns: f64) -> String {
    unit.show(Ns(ns.round() as i64))
}

/// `1.23 s to 1.31 s`
pub fn between(unit: Unit, interval: &Interval) -> String {
    format!("{} to {}", time(unit, interval.low), time(unit, interval.high))
}

/// A standard deviation, where there is one.
pub fn spread(unit: Unit, sd: Option<f64>) -> String {
    sd.map_or_else(String::new, |sd| format!("± {}", time(unit, sd)))
}

/// A verdict in a word or two.
pub fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::NoDifference => "no difference",
        Verdict::TooNoisy => "too noisy",
        Verdict::TooFew => "too few",
    }
}

/// The figures of the only variant.
pub fn alone(runs: &VariantRuns, layout: Layout, out: &mut String) {
    let Some(total) = &runs.total else {
        let _ = writeln!(out, "no boot reached its end mark");
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

/// All variants, each against the first.
pub fn variants(document: &Document, layout: Layout, out: &mut String) {
    let columns = [
        Column::new("variant", Align::Left, None),
        Column::new("boots", Align::Right, Some(9)),
        Column::new("mean", Align::Right, Some(9)),
        Column::new("sd", Align::Left, Some(11)),
        Column::new("median", Align::Right, Some(9)),
        Column::new("ratio", Align::Right, Some(7)),
        Column::new("is", Align::Left, Some(13)),
    ];
    let results = &document.results;
    let line = |(i, runs): (usize, &VariantRuns)| {
        let all: usize = runs.outcomes.values().sum();
        let reached = runs.total.as_ref().map_or(0, |t| t.count);
        let boots = if reached == all { all.to_string() } else { format!("{reached} of {all}") };
        let of = |f: &dyn Fn(&Description) -> String| runs.total.as_ref().map_or_else(String::new, f);
        let total = results.comparisons.iter().find(|c| c.variant == i).and_then(|c| c.total.as_ref());
        let ratio = total.and_then(|c| c.ratio).map_or_else(String::new, |r| format!("{:.3}", r.estimate));
        let verdict = total.map_or("", |c| word(c.verdict)).to_owned();
        let (mean, median) = (
            of(&|t: &Description| time(layout.unit, t.mean)),
            of(&|t: &Description| time(layout.unit, t.median.estimate)),
        );
        let name = harmless(&runs.name).into_owned();
        Line {
            cells: vec![name, boots, mean, of(&|t: &Description| spread(layout.unit, t.sd)), median, ratio, verdict],
            faint: false,
        }
    };
    let lines: Vec<Line> = results.variants.iter().enumerate().map(line).collect();
    render(&columns, &lines, layout.table_width(), layout.style, out);
    out.push('\n');
}

/// The phases in the order of the boot, over all runs.
pub fn phases(runs: &VariantRuns, layout: Layout, out: &mut String) {
    let Some(total) = &runs.total else { return };
    let columns = [
        Column::new("phase", Align::Left, None),
        Column::new("begins", Align::Right, Some(9)),
        Column::new("", Align::Left, Some(11)),
        Column::new("takes", Align::Right, Some(9)),
        Column::new("", Align::Left, Some(11)),
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

/// What the boot path was charged to, the longest first.
pub fn rows(runs: &VariantRuns, layout: Layout, out: &mut String) {
    let Some(total) = runs.total.as_ref().filter(|_| !runs.rows.is_empty()) else { return };
    let columns = [
        Column::new("where the boot path went", Align::Left, None),
        Column::new("mean", Align::Right, Some(9)),
        Column::new("", Align::Left, Some(11)),
        Column::new("median", Align::Right, Some(9)),
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

/// Memory inside and outside the guest, as far as it is known.
pub fn memory(results: &Results, layout: Layout, out: &mut String) {
    type Of = fn(&VariantRuns) -> Option<&Description>;
    // At the end mark, and after a workload.
    let all: [(&'static str, [Of; 2]); 4] = [
        ("VMM's peak", [|r| r.vmm_max_rss.as_ref(), |_| None]),
        ("guest has", [|r| r.guest_total.as_ref(), |_| None]),
        ("available", [|r| r.guest_available.as_ref(), |r| r.guest_available_after.as_ref()]),
        ("page cache", [|r| r.guest_cached.as_ref(), |r| r.guest_cached_after.as_ref()]),
    ];
    // A kernel that is not Linux tells none of its own.
    let is_known = |of: &[Of; 2]| results.variants.iter().any(|runs| of.iter().any(|of| of(runs).is_some()));
    let known: Vec<_> = all.into_iter().filter(|(_, of)| is_known(of)).collect();
    let mut columns = vec![Column::new("memory, mean and sd", Align::Left, None)];
    columns.extend(known.iter().map(|(name, _)| Column::new(*name, Align::Right, Some(22))));
    let amount = |amount: Option<&Description>| {
        amount.map_or_else(String::new, |d| match d.sd.filter(|&sd| sd > 0.0) {
            Some(sd) => format!("{} ± {}", bytes(d.mean.round() as u64), bytes(sd.round() as u64)),
            None => bytes(d.mean.round() as u64),
        })
    };
    let line = |name: &str, runs: &VariantRuns, when: usize| {
        let amounts: Vec<_> = known.iter().map(|(_, of)| of[when](runs)).collect();
        amounts.iter().any(Option::is_some).then(|| Line {
            cells: std::iter::once(harmless(name).into_owned()).chain(amounts.into_iter().map(amount)).collect(),
            faint: false,
        })
    };
    let lines = |runs: &VariantRuns| {
        line(&runs.name, runs, 0).into_iter().chain(line("  after the workload", runs, 1)).collect::<Vec<_>>()
    };
    let lines: Vec<Line> = results.variants.iter().flat_map(lines).collect();
    if !lines.is_empty() {
        if !out.ends_with("\n\n") {
            out.push('\n');
        }
        render(&columns, &lines, layout.table_width(), layout.style, out);
    }
}
