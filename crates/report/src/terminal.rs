//! The summary as text for a terminal. No line may be wider than the layout allows, and no text may control the
//! terminal. Each table has a file; this file has their order and the text around them.
//!
//! It reads only the [`Summary`], so the printed text and `--json` cannot differ.

mod calls;
mod deferred_probes;
mod facts;
mod initcalls;
mod phases;
mod rows;

pub use calls::calls;
pub use deferred_probes::deferred_probes;
pub use initcalls::initcalls;
pub use rows::{all_threads, functions, rows};

use crate::findings_text::advice;
use crate::overview::overview;
use crate::paragraph::paragraph;
use crate::processes::processes;
use crate::text::{bytes, counted, cut, percent, width};
use crate::units::units;
use crate::{DiagnosticLine, EndLine, Layout, Summary, harmless};
use facts::facts;
pub(crate) use facts::overhead;
use phases::phases;
use std::fmt::Write;

/// Columns of the outcome line without the name of the end mark.
const OUTCOME_AND_TOTAL: usize = 52;

/// The output of `bootscope show`: header, overview, phases, where, memory, clocks, overhead, diagnostics, notes.
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
        out.push_str(&initcalls(summary, Layout { top: layout.top.min(MAX_INITCALLS), ..layout }));
    }
    if !summary.deferred_probes.is_empty() {
        out.push('\n');
        out.push_str(&deferred_probes(summary, layout));
    }
    if !summary.processes.is_empty() {
        out.push('\n');
        out.push_str(&processes(&summary.processes, layout));
    }
    if !summary.units.is_empty() {
        out.push('\n');
        out.push_str(&units(&summary.units, layout.all_units, layout));
    }
    if let Some(sampled) = &summary.sampled {
        out.push('\n');
        out.push_str(&crate::sampled::table(sampled, summary, layout));
    }
    if let Some(silences) = &summary.silences {
        out.push('\n');
        out.push_str(&crate::silences_text::silences(silences, &summary.subject.accelerator, layout));
    }
    if let Some(watched) = &summary.watched {
        out.push('\n');
        out.push_str(&crate::watched_text::watched(watched, &summary.subject.accelerator, layout));
    }
    if let Some(exits) = &summary.exits {
        out.push('\n');
        out.push_str(&crate::exits_text::exits(exits, layout));
    }
    facts(summary, layout, &mut out);
    diagnostics(summary, layout, &mut out);
    for note in &summary.notes {
        paragraph(&harmless(note), "note: ", layout, &mut out);
    }
    if let Some(found) = &summary.found {
        advice(&summary.findings, found, layout, &mut out);
    }
    out
}

/// Writes the rows that may have waited for the CPU, if that is a hundredth of the boot or more.
fn cpu_held(summary: &Summary, layout: Layout, out: &mut String) {
    const SHOWN: usize = 3;
    for row in &summary.wheres {
        let all: i64 = row.cpu_held.iter().map(|held| held.ns).sum();
        if all == 0 || all < summary.total_ns / 100 {
            continue;
        }
        let names: Vec<&str> = row.cpu_held.iter().take(SHOWN).map(|held| held.name.as_str()).collect();
        let more = if row.cpu_held.len() > SHOWN { " and others" } else { "" };
        let time = |ns| layout.at(ns);
        let text = format!(
            "{}: CPU held by {}{more} for {} of {}; nothing says since when it could have run",
            harmless(&row.name),
            harmless(&names.join(", ")),
            time(all),
            layout.unit.show_cost(row.self_cost()),
        );
        paragraph(&text, "", layout, out);
    }
}

/// The kernel, the outcome and the length of the boot. Warnings come first.
pub fn headline(summary: &Summary, layout: Layout) -> String {
    let layout = layout.of(summary);
    let mut out = String::new();
    for warning in &summary.warnings {
        paragraph(&harmless(warning), "warning: ", layout, &mut out);
    }
    header(summary, layout, &mut out);
    out
}

/// The evidence of each figure: of each phase in full, and the configuration of the run, as label and text.
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
    let line = subject(summary);
    if !line.is_empty() {
        paragraph(&harmless(&line), "", layout, out);
    }
    let outcome = if summary.outcome.is_empty() { "outcome unknown".into() } else { harmless(&summary.outcome) };
    let outcome = if summary.is_reached() { layout.style.good(&outcome) } else { layout.style.bad(&outcome) };
    let total = layout.cost(summary.total_cost());
    let room = OUTCOME_AND_TOTAL + width(&total).saturating_sub(layout.time_width());
    let total = layout.style.heading(&total);
    let _ = match &summary.end {
        Some(end) => {
            let evidence = harmless(&end.evidence);
            let evidence = cut(&evidence, layout.table_width().saturating_sub(room));
            let after = format!("after {total} (±{})", layout.at(end.error_ns));
            if end.is_milestone() {
                writeln!(out, "{} {after}: {evidence}", layout.style.good("passed"))
            } else if summary.is_reached() {
                writeln!(out, "{outcome} the end mark {after}: {evidence}")
            } else {
                writeln!(out, "{outcome}: {evidence} {after}")
            }
        }
        None => writeln!(out, "{outcome}: no end mark; the last evidence is at {total}"),
    };
    if let Some(priced) = &summary.priced {
        paragraph(&harmless(&priced.text(summary.total_ns)), "  ", layout, out);
    }
    // The requested line also shows the outcome, and is printed above. The evidence for a milestone is not the
    // outcome's.
    let is_printed =
        summary.is_reached() && summary.end.as_ref().is_some_and(|end| end.is_asked() || end.is_milestone());
    if summary.end.as_ref().is_some_and(EndLine::is_milestone) && !summary.is_reached() {
        paragraph(&format!("the boot's outcome was {}", summary.outcome), "  ", layout, out);
    }
    if !summary.outcome_detail.is_empty() && !is_printed {
        paragraph(&harmless(&summary.outcome_detail), "  ", layout, out);
    }
}

/// The kernel and the machine, if known: `Linux 6.1, booted on pc (tcg) with 1 CPU and 512 MiB`.
fn subject(summary: &Summary) -> String {
    let s = &summary.subject;
    let what = joined(" ", [&s.os, &s.kernel]);
    let accelerator = if s.accelerator.is_empty() { String::new() } else { format!("({})", s.accelerator) };
    let machine = joined(" ", [&s.machine, &accelerator]);
    let cpus = if s.cpus == 0 { String::new() } else { counted(s.cpus.into(), "CPU") };
    let memory = if s.memory_bytes == 0 { String::new() } else { bytes(s.memory_bytes) };
    let size = joined(" and ", [&cpus, &memory]);
    let phrase = |word: &str, part: &str| if part.is_empty() { String::new() } else { format!("{word} {part}") };
    joined(", ", [&what, &joined(" ", [&phrase("booted on", &machine), &phrase("with", &size)])])
}

/// The texts that are not empty, joined.
pub(super) fn joined<const N: usize>(by: &str, parts: [&String; N]) -> String {
    let nonempty: Vec<&str> = parts.into_iter().map(String::as_str).filter(|p| !p.is_empty()).collect();
    nonempty.join(by)
}

/// The most initcalls that `show` lists without `--verbose`.
const MAX_INITCALLS: usize = 5;

fn explained(summary: &Summary, layout: Layout, out: &mut String) {
    let share = percent(summary.explained);
    let by = if summary.blame().is_empty() { "" } else { "; " };
    let text = format!(
        "{share} of the boot path is charged to steps, functions, threads and messages; the rest to whole phases{by}{}",
        summary.blame()
    );
    paragraph(&text, "", layout, out);
}

/// The most lines of diagnostics, unless all are requested.
const MAX_DIAGNOSTICS: usize = 3;

/// Writes a line for each diagnostic that affects figures, and one line that counts the rest.
fn diagnostics(summary: &Summary, layout: Layout, out: &mut String) {
    let (harmless_ones, affecting): (Vec<&DiagnosticLine>, Vec<&DiagnosticLine>) =
        summary.diagnostics.iter().partition(|d| d.is_harmless() && !layout.harmless_too);
    let all_fit = layout.harmless_too || affecting.len() + usize::from(!harmless_ones.is_empty()) <= MAX_DIAGNOSTICS;
    let (listed, more) = affecting.split_at(if all_fit { affecting.len() } else { MAX_DIAGNOSTICS - 1 });
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
        // Their times are of different things, so a sum would mean nothing.
        let kinds = counted(harmless_ones.len() as u64, "kind");
        let text =
            format!("{} ({kinds}), without effect on any figure; --verbose lists them", counted(count, "problem"));
        paragraph(&text, "harmless: ", layout, out);
    }
}
