//! A bench for other tools: every boot as comma-separated values, and the variants as a Markdown table.

use super::tables::{of_time, spread, time, unit};
use crate::export::csv::{cell, writer};
use crate::harmless;
use benchmark::{Boot, Document, METRICS, Metric};
use std::fmt::Write as _;
use std::io::{self, Write};

/// Writes a line for each boot. Warm-up boots have an empty round. After the fixed columns comes one for each phase.
/// Times are in ns and memory in bytes; an unknown value is empty.
///
/// # Errors
/// If `out` cannot be written.
pub fn bench_csv(document: &Document, out: &mut dyn Write) -> io::Result<()> {
    let mut phases: Vec<&str> = Vec::new();
    for phase in document.boots.iter().flat_map(|b| &b.measured.phases) {
        if !phases.contains(&phase.name.as_str()) {
            phases.push(&phase.name);
        }
    }
    let (metrics, mut out) = (metrics(document), writer(out));
    let fixed = ["number", "round", "variant", "began_ns", "host_load", "outcome", "total_ns"];
    fixed.iter().try_for_each(|title| out.write_field(title))?;
    metrics.iter().try_for_each(|metric| out.write_field(metric.field()))?;
    phases.iter().try_for_each(|phase| out.write_field(cell(&format!("{phase} ns")).as_bytes()))?;
    out.write_record(None::<&[u8]>)?;
    for boot in &document.boots {
        out.write_record(boot_line(document, boot, &metrics, &phases))?;
    }
    out.flush()
}

/// The metrics that have a column. A workload's metric needs a boot that has it.
fn metrics(document: &Document) -> Vec<&'static Metric> {
    let has_value = |metric: &Metric| document.boots.iter().any(|boot| boot.measured.metrics.get(metric).is_some());
    METRICS.iter().filter(|metric| !metric.is_mentioned_if_known() || has_value(metric)).collect()
}

fn boot_line(document: &Document, boot: &Boot, metrics: &[&Metric], phases: &[&str]) -> Vec<String> {
    let m = &boot.measured;
    let name = document.head.variants.get(boot.variant).map_or("", |v| v.name.as_str());
    let mut line = vec![
        boot.number.to_string(),
        boot.round.map(|round| round.to_string()).unwrap_or_default(),
        cell(name).into_owned(),
        boot.began_ns.to_string(),
        m.host_load.to_string(),
        cell(&m.outcome).into_owned(),
        m.total_ns.map(|total| total.to_string()).unwrap_or_default(),
    ];
    line.extend(metrics.iter().map(|metric| m.metrics.get(metric).map(|v| v.to_string()).unwrap_or_default()));
    for phase in phases {
        let same_phase = || m.phases.iter().filter(|p| p.name == *phase);
        let length: i64 = same_phase().map(|p| p.ns).sum();
        line.push(if same_phase().next().is_some() { length.to_string() } else { String::new() });
    }
    line
}

/// The table of variants, as Markdown.
pub fn bench_markdown(document: &Document) -> String {
    let unit = unit(document);
    let mut out =
        "| variant | boots | mean | sd | median | least | most | ratio | 95 % interval | verdict |\n".to_owned();
    out.push_str("|:---|---:|---:|---:|---:|---:|---:|---:|:---|:---|\n");
    for (i, runs) in document.results.variants.iter().enumerate() {
        // A bar would end the table cell.
        let name = harmless(&runs.name).replace('|', "\\|");
        let all: usize = runs.outcomes.values().sum();
        let against = document.results.comparisons.iter().find(|c| c.variant == i).and_then(|c| c.total.as_ref());
        let ratio = against.and_then(|c| c.ratio);
        let interval = match ratio {
            Some(r) if r.is_sure() => format!("{:.4}–{:.4}", r.low, r.high),
            _ => String::new(),
        };
        let ratio = ratio.map_or_else(String::new, |r| format!("{:.4}", r.estimate));
        let verdict = against.map_or("", |c| of_time(c.change));
        let figures = match &runs.total {
            Some(t) => format!(
                "{} of {all} | {} | {} | {} | {} | {}",
                t.count,
                time(unit, t.mean),
                spread(unit, t.sd),
                time(unit, t.median.estimate),
                time(unit, t.min),
                time(unit, t.max)
            ),
            None => format!("0 of {all} | | | | |"),
        };
        let _ = writeln!(out, "| `{name}` | {figures} | {ratio} | {interval} | {verdict} |");
    }
    out
}
