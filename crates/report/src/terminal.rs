//! The summary as tables for a terminal: nothing wider than the layout allows, nothing that a terminal would obey.
//!
//! It reads the [`Summary`] alone, so that what is printed and what `--json` says cannot differ.

use crate::overview::overview;
use crate::paragraph::paragraph;
use crate::processes::processes;
use crate::table::{Align, Column, Line, WIDE, render};
use crate::text::{amount, bytes, counted, cut, percent, thousands, width};
use crate::{
    CallLine, Calls, DiagnosticLine, FunctionLine, InitcallLine, Layout, PhaseLine, Style, Summary, WhereLine, harmless,
};
use benchmark::METRICS;
use std::fmt::Write;
use timeline::Ns;

/// From this many columns on there is room for bars.
const ROOM_FOR_BARS: usize = 100;

/// What the outcome line needs beside the name of the end mark.
const OUTCOME_AND_TOTAL: usize = 40;

/// Everything that `bootscope show` prints: header, overview, phases, where, memory, clocks, overhead, diagnostics, notes.
pub fn show(summary: &Summary, layout: Layout) -> String {
    let layout = layout.of(summary);
    let mut out = headline(summary, layout);
    overview(summary, layout, &mut out);
    out.push('\n');
    phases(summary, layout, &mut out);
    out.push('\n');
    if summary.total_ns == 0 {
        paragraph("no boot path: the evidence is of one instant only", "", layout, &mut out);
    } else if summary.wheres.is_empty() {
        paragraph("no boot path: no evidence says which thread reached the end mark", "", layout, &mut out);
    } else {
        out.push_str(&rows("where the boot path went", &summary.wheres, layout));
        explained(summary, layout, &mut out);
        cpu_held(summary, layout, &mut out);
    }
    if !summary.initcalls.is_empty() {
        out.push('\n');
        out.push_str(&initcalls(summary, Layout { top: layout.top.min(INITCALLS_SHOWN), ..layout }));
    }
    if !summary.processes.is_empty() {
        out.push('\n');
        out.push_str(&processes(&summary.processes, layout));
    }
    if let Some(sampled) = &summary.sampled {
        out.push('\n');
        out.push_str(&crate::sampled::table(sampled, summary, layout));
    }
    facts(summary, layout, &mut out);
    diagnostics(summary, layout, &mut out);
    for note in &summary.notes {
        paragraph(&harmless(note), "note: ", layout, &mut out);
    }
    out
}

/// Rows that may have waited for the CPU, if that is a hundredth of the boot or more.
fn cpu_held(summary: &Summary, layout: Layout, out: &mut String) {
    const SHOWN: usize = 3;
    for row in &summary.wheres {
        let all: i64 = row.cpu_held.iter().map(|held| held.ns).sum();
        if all == 0 || all < summary.total_ns / 100 {
            continue;
        }
        let names: Vec<&str> = row.cpu_held.iter().take(SHOWN).map(|held| held.name.as_str()).collect();
        let more = if row.cpu_held.len() > SHOWN { " and others" } else { "" };
        let of = |ns| layout.unit.show(Ns(ns));
        let text = format!(
            "{}: CPU held by {}{more} for {} of {}; nothing says since when it could have run",
            harmless(&row.name),
            harmless(&names.join(", ")),
            of(all),
            of(row.self_ns),
        );
        paragraph(&text, "", layout, out);
    }
}

/// What was booted, how it ended and after how long; what one must know before believing it comes first.
pub fn headline(summary: &Summary, layout: Layout) -> String {
    let layout = layout.of(summary);
    let mut out = String::new();
    for warning in &summary.warnings {
        paragraph(&harmless(warning), "warning: ", layout, &mut out);
    }
    header(summary, layout, &mut out);
    out
}

/// How each number was found: the whole evidence of each phase, and how the boot was run, as label and text.
pub fn details(summary: &Summary, how: &[(String, String)], layout: Layout) -> String {
    let mut out = String::new();
    let mut list = |title: &str, lines: &mut dyn Iterator<Item = (&str, &str)>| {
        let mut lines = lines.peekable();
        if lines.peek().is_some() {
            let _ = writeln!(out, "{}", layout.style.heading(title));
        }
        for (label, text) in lines {
            paragraph(&harmless(text), &format!("  {:<22}  ", cut(&harmless(label), 22)), layout, &mut out);
        }
    };
    list(
        "what each phase's start rests on",
        &mut summary.phases.iter().map(|p| (p.name.as_str(), p.evidence.as_str())),
    );
    list("how it was run", &mut how.iter().map(|(label, text)| (label.as_str(), text.as_str())));
    out
}

fn header(summary: &Summary, layout: Layout, out: &mut String) {
    let s = &summary.subject;
    let cpus = if s.cpus == 0 { String::new() } else { counted(s.cpus.into(), "CPU") };
    let memory = if s.memory_bytes == 0 { String::new() } else { bytes(s.memory_bytes) };
    let what = joined(" ", [&s.os, &s.kernel]);
    let machine = joined(" under ", [&s.machine, &s.accelerator]);
    let line = joined(" · ", [&what, &machine, &cpus, &memory]);
    if !line.is_empty() {
        paragraph(&harmless(&line), "", layout, out);
    }
    let outcome = if summary.outcome.is_empty() { "outcome unknown".into() } else { harmless(&summary.outcome) };
    let outcome = if summary.outcome == "reached" { layout.style.good(&outcome) } else { layout.style.bad(&outcome) };
    let total = layout.style.heading(&layout.time(summary.total_ns));
    let _ = match &summary.end {
        Some(end) => {
            let evidence = harmless(&end.evidence);
            let evidence = cut(&evidence, layout.table_width().saturating_sub(OUTCOME_AND_TOTAL));
            writeln!(out, "{outcome}: {evidence} after {total} (±{})", layout.time(end.error_ns))
        }
        None => writeln!(out, "{outcome}: no end mark; {total} to the last evidence"),
    };
    if !summary.outcome_detail.is_empty() {
        paragraph(&harmless(&summary.outcome_detail), "  ", layout, out);
    }
}

fn joined<const N: usize>(by: &str, parts: [&String; N]) -> String {
    let known: Vec<&str> = parts.into_iter().map(String::as_str).filter(|p| !p.is_empty()).collect();
    known.join(by)
}

fn phases(summary: &Summary, layout: Layout, out: &mut String) {
    let mut columns = vec![
        Column::new("phase", Align::Left, Some(22)),
        Column::new("start", Align::Right, Some(layout.time_width())),
        Column::new("length", Align::Right, Some(layout.time_width())),
        Column::new("share", Align::Right, Some(7)),
    ];
    let bars = layout.width >= ROOM_FOR_BARS;
    if bars {
        columns.push(Column { paint: Style::bar, ..Column::new("", Align::Left, Some(BAR)) });
    }
    columns.push(Column::new("error", Align::Right, Some(layout.time_width())));
    columns.push(Column::new("evidence", Align::Left, None));
    let share = |ns: i64| if summary.total_ns > 0 { ns as f64 / summary.total_ns as f64 } else { 0.0 };
    let row = |name: String, start: String, length: i64, error: String, evidence: String, faint: bool| {
        let mut cells = vec![name, start, layout.time(length), percent(share(length))];
        cells.extend(bars.then(|| if faint { String::new() } else { bar(share(length)) }));
        cells.extend([error, evidence]);
        Line { cells, faint }
    };
    let line = |p: &PhaseLine| {
        let (name, evidence) = (harmless(&p.name).into_owned(), harmless(&p.evidence).into_owned());
        row(
            name,
            layout.time(p.start_ns),
            p.end_ns - p.start_ns,
            format!("±{}", layout.time(p.error_ns)),
            evidence,
            false,
        )
    };
    let mut lines: Vec<Line> = summary.phases.iter().map(line).collect();
    let sum = summary.phases.iter().map(|p| p.end_ns - p.start_ns).sum();
    lines.push(row("total".to_owned(), String::new(), sum, String::new(), String::new(), true));
    render(&columns, &lines, layout.table_width(), layout.style, out);
}

/// How many initcalls `show` lists by itself.
const INITCALLS_SHOWN: usize = 5;

/// The longest initcalls, each from its call to its return.
pub fn initcalls(summary: &Summary, layout: Layout) -> String {
    let all: &[InitcallLine] = &summary.initcalls;
    let columns = [
        Column::new(format!("{}, longest first", summary.initcalls_word()), Align::Left, None),
        Column::new("elapsed", Align::Right, Some(layout.time_width())),
        Column::new("start", Align::Right, Some(layout.time_width())),
        Column::new("thread", Align::Left, Some(15)),
    ];
    let line = |name: String, elapsed: i64, start: String, thread: String, faint: bool| Line {
        cells: vec![name, layout.time(elapsed), start, thread],
        faint,
    };
    let (top, rest) = all.split_at(layout.top.min(all.len()));
    let mut lines: Vec<Line> = top
        .iter()
        .map(|i| {
            line(
                harmless(&i.name).into_owned(),
                i.elapsed_ns,
                layout.time(i.start_ns),
                harmless(&i.track).into_owned(),
                false,
            )
        })
        .collect();
    if !rest.is_empty() {
        let sum = rest.iter().map(|i| i.elapsed_ns).sum();
        lines.push(line(format!("{} more (waits included)", rest.len()), sum, String::new(), String::new(), true));
    }
    let mut out = String::new();
    render(&columns, &lines, layout.table_width(), layout.style, &mut out);
    out
}

/// How long a bar for everything is.
const BAR: usize = 20;

/// A share as a bar, in steps of an eighth of a column.
fn bar(share: f64) -> String {
    let eighths = (share * (BAR * 8) as f64).round() as usize;
    let part = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
    "█".repeat(eighths / 8) + part
}

/// A table of `where`: the top rows, everything else, the sum.
pub fn rows(title: &'static str, all: &[WhereLine], layout: Layout) -> String {
    let cells = |r: &WhereLine| Cells {
        name: harmless(&r.name).into_owned(),
        self_ns: r.self_ns,
        total_ns: r.total_ns,
        count: r.count,
        tracks: tracks(&r.tracks, layout),
    };
    table(title, all.iter().map(cells).collect(), layout)
}

/// The table of functions on the path.
pub fn functions(all: &[FunctionLine], layout: Layout) -> String {
    let cells = |r: &FunctionLine| Cells {
        name: harmless(&joined(" ", [&r.name, &r.detail])).into_owned(),
        self_ns: r.self_ns,
        total_ns: r.total_ns,
        count: r.count,
        tracks: tracks(&r.tracks, layout),
    };
    table("function on the boot path", all.iter().map(cells).collect(), layout)
}

/// Where a boot's instructions went, by function.
pub fn calls(calls: &Calls, layout: Layout) -> String {
    let columns = [
        Column::new("function, all its calls", Align::Left, None),
        Column::new("instructions", Align::Right, Some(15)),
        Column::new("share", Align::Right, Some(7)),
        Column::new("with callees", Align::Right, Some(15)),
        Column::new("calls", Align::Right, Some(12)),
    ];
    let share =
        |n: u64| if calls.instructions > 0 { percent(n as f64 / calls.instructions as f64) } else { String::new() };
    let line = |name: String, own: u64, total: String, count: String, faint: bool| Line {
        cells: vec![name, thousands(own), share(own), total, count],
        faint,
    };
    let (top, rest) = calls.functions.split_at(layout.top.min(calls.functions.len()));
    let row = |f: &CallLine| {
        let name = harmless(&f.name).into_owned();
        line(name, f.self_instructions, thousands(f.total_instructions), thousands(f.calls), false)
    };
    let mut lines: Vec<Line> = top.iter().map(row).collect();
    if !rest.is_empty() {
        let own = rest.iter().map(|f| f.self_instructions).sum();
        let name = format!("everything else ({})", counted(rest.len() as u64, "function"));
        lines.push(line(name, own, String::new(), String::new(), true));
    }
    let mut out = String::new();
    render(&columns, &lines, layout.width, layout.style, &mut out);
    let until_end: u64 = calls.functions.iter().map(|f| f.calls).sum();
    let text = format!(
        "{} calls, jumps to functions and interrupts in these rows, until the end mark; until the machine went off {} call \
         instructions; {} of returns matched, {} of the instructions outside user space owned",
        thousands(until_end),
        thousands(calls.count),
        fine_percent(calls.matched),
        fine_percent(calls.owned)
    );
    paragraph(&text, "", layout, &mut out);
    out
}

/// Close to everything, what is missing is what counts.
fn fine_percent(share: f64) -> String {
    format!("{:.3} %", (share * 100_000.0).floor() / 1000.0)
}

struct Cells {
    name: String,
    self_ns: i64,
    total_ns: i64,
    count: u64,
    tracks: String,
}

fn table(title: &'static str, all: Vec<Cells>, layout: Layout) -> String {
    let columns = [
        Column::new(title, Align::Left, None),
        Column::new("self", Align::Right, Some(layout.time_width())),
        Column::new("share", Align::Right, Some(7)),
        Column::new("total", Align::Right, Some(layout.time_width())),
        Column::new("count", Align::Right, Some(9)),
        Column::new("thread", Align::Left, Some(15)),
    ];
    let whole: i64 = all.iter().map(|r| r.self_ns).sum();
    let share = |ns: i64| if whole > 0 { percent(ns as f64 / whole as f64) } else { String::new() };
    // The largest come first.
    let listed = all.iter().take(layout.top).take_while(|r| layout.cutoff.lists(r.self_ns, whole)).count();
    let (listed, rest) = all.split_at(listed);
    let line = |r: &Cells| Line {
        cells: vec![
            r.name.clone(),
            layout.time(r.self_ns),
            share(r.self_ns),
            layout.time(r.total_ns),
            thousands(r.count),
            r.tracks.clone(),
        ],
        faint: false,
    };
    let sum = |name: String, ns: i64| {
        let none = String::new;
        Line { cells: vec![name, layout.time(ns), share(ns), none(), none(), none()], faint: true }
    };
    let mut lines: Vec<Line> = listed.iter().map(line).collect();
    if !rest.is_empty() {
        let name = format!("everything else ({})", counted(rest.len() as u64, "row"));
        lines.push(sum(name, rest.iter().map(|r| r.self_ns).sum()));
    }
    lines.push(sum("total".to_owned(), whole));
    let mut out = String::new();
    render(&columns, &lines, layout.table_width(), layout.style, &mut out);
    out
}

/// The first thread by name, and how many more.
fn tracks(all: &[String], layout: Layout) -> String {
    match all {
        [] => String::new(),
        [one, more @ ..] if layout.table_width() >= WIDE && !more.is_empty() => {
            format!("{} +{}", harmless(one), more.len())
        }
        [one] => harmless(one).into_owned(),
        [one, more @ ..] => {
            let more = format!(" +{}", more.len());
            let one = harmless(one);
            format!("{}{more}", cut(&one, 15usize.saturating_sub(width(&more))))
        }
    }
}

fn explained(summary: &Summary, layout: Layout, out: &mut String) {
    let share = percent(summary.explained);
    let by = if summary.blame().is_empty() { "" } else { "; " };
    let text = format!("{share} of the boot path is charged to rows narrower than a phase{by}{}", summary.blame());
    paragraph(&text, "", layout, out);
}

fn facts(summary: &Summary, layout: Layout, out: &mut String) {
    let known = METRICS.iter().filter_map(|metric| Some((metric, summary.metrics.get(metric)?)));
    let metrics: Vec<String> =
        known.map(|(metric, v)| format!("{} {}", metric.text, amount(metric.unit, v as f64))).collect();
    let mut fact = |title: &str, text: &str| {
        let indent = format!("{title:<10}");
        paragraph(text, &indent, layout, out);
    };
    if !metrics.is_empty() {
        fact("measured", &metrics.join(", "));
    }
    for clock in &summary.clocks {
        let text = format!(
            "{} {}, {}, within {}",
            harmless(&clock.name),
            if clock.pieces > 1 {
                format!("in {} linear segments", clock.pieces)
            } else {
                format!("at {}", rate(clock.hz))
            },
            harmless(&clock.rate_from),
            layout.time(clock.residual_ns)
        );
        fact("clock", &text);
    }
    if let Some(o) = &summary.overhead {
        let text = format!("recorded ÷ plain {:.3} ({:.3} to {:.3}), {}", o.ratio, o.low, o.high, harmless(&o.how));
        fact("overhead", &text);
    }
}

fn rate(hz: f64) -> String {
    let (value, unit) = match hz {
        hz if hz >= 1e9 => (hz / 1e9, "GHz"),
        hz if hz >= 1e6 => (hz / 1e6, "MHz"),
        hz => (hz / 1e3, "kHz"),
    };
    format!("{value:.6} {unit}")
}

/// How many lines tell what did not add up, unless all are asked for.
const DIAGNOSTICS_SHOWN: usize = 3;

/// What affects figures, one line each, then one line that counts the rest.
fn diagnostics(summary: &Summary, layout: Layout, out: &mut String) {
    let (harmless_ones, affecting): (Vec<&DiagnosticLine>, Vec<&DiagnosticLine>) =
        summary.diagnostics.iter().partition(|d| d.is_harmless() && !layout.harmless_too);
    let all_fit = layout.harmless_too || affecting.len() + usize::from(!harmless_ones.is_empty()) <= DIAGNOSTICS_SHOWN;
    let (listed, more) = affecting.split_at(if all_fit { affecting.len() } else { DIAGNOSTICS_SHOWN - 1 });
    for d in listed {
        paragraph(&harmless(&d.line()), "evidence: ", layout, out);
    }
    let count: u64 = harmless_ones.iter().map(|d| d.count).sum();
    if !more.is_empty() {
        let besides = if count > 0 { format!(", {} cannot", counted(count, "other")) } else { String::new() };
        let text = format!(
            "{} may change a figure{besides}; --verbose lists them",
            counted(more.len() as u64, "further problem")
        );
        paragraph(&text, "evidence: ", layout, out);
    } else if count > 0 {
        // Their times are of different things, so they have no sum.
        let kinds = counted(harmless_ones.len() as u64, "kind");
        let text = format!("{} of {kinds}, which change no figure; --verbose lists them", thousands(count));
        paragraph(&text, "harmless: ", layout, out);
    }
}
