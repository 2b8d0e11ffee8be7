//! The part `boot` of a page: the texts and figures of a boot that are not columns.

use super::super::boot::{PageBoot, embedded};
use super::super::for_a_browser::{SummaryForABrowser, for_a_browser, safe};
use crate::findings_text::NOT_LOOKED_FOR;
use crate::overview::noise;
use crate::{ChangeLine, Findings, Summary};
use benchmark::METRICS;
use benchmark::metrics::{Source, Unit};
use serde::Serialize;
use serde_json::Value;
use std::io;

/// The name and version of the page's data.
const SCHEMA: &str = "bootscope.page/1";

/// The texts and figures of a boot that are not columns.
#[derive(Serialize)]
struct Facts<'a> {
    schema: &'static str,
    /// The recording's name.
    name: String,
    /// The number of boots in the page; this is one of them.
    boots: usize,
    /// The part of `show --json` that the page shows. Numbers that doubles cannot hold are texts.
    summary: SummaryForABrowser,
    /// The thing that each row of `where` is about.
    things: Vec<u32>,
    /// The thing that each row of `where_all_threads` is about.
    things_all_threads: Vec<u32>,
    /// The findings; `null` if no rules ran.
    findings: Option<Value>,
    /// The configuration of the run, as the page's tables list it.
    how: Vec<(String, String)>,
    /// The likely distance between this total and the next boot's, as `show` prints it.
    noise: Option<String>,
    /// The measured memory, as text.
    measured: Vec<(&'static str, String)>,
    /// The measured memory: name, time, and bytes.
    memory: Value,
    /// True if a scheduler's trace says when each thread ran.
    is_traced: bool,
    /// The number of spans that follow.
    spans: usize,
    /// The number of console lines of the boot; the page may have fewer.
    console_lines: usize,
    kinds: &'a [&'static str],
}

pub(super) fn facts(&PageBoot { name, boot, console }: &PageBoot, boots: usize) -> io::Result<String> {
    let tables = boot.tables();
    let (mut summary, _) = embedded(boot);
    summary.findings.clear(); // they are in `findings`, all of them
    let things = |rows: &[analysis::Row], most: usize| rows.iter().take(most).map(|row| row.thing).collect();
    let facts = Facts {
        schema: SCHEMA,
        name: safe(name),
        boots,
        things: things(&tables.wheres, summary.wheres.len()),
        things_all_threads: things(&tables.all_threads, summary.where_all_threads.len()),
        noise: noise(&summary),
        measured: summary.measured().collect(),
        memory: for_a_browser(serde_json::to_value(memory(&summary).collect::<Vec<_>>())?),
        summary: SummaryForABrowser::new(summary)?,
        findings: boot
            .findings
            .as_ref()
            .map(|found| findings(found, boot.timeline.unit))
            .transpose()?
            .map(for_a_browser),
        how: boot.facts.how.iter().map(|(label, text)| (safe(label), safe(text))).collect(),
        is_traced: !boot.timeline.running.is_empty(),
        spans: boot.timeline.spans.len(),
        console_lines: console.len(),
        kinds: &KINDS,
    };
    Ok(serde_json::to_string(&facts)?)
}

/// The findings as JSON, each with its changes and the result of trying them in words, and the remarks on all, as
/// `findings` prints them.
fn findings(found: &Findings, unit: timeline::Unit) -> io::Result<Value> {
    let mut document = serde_json::to_value(found)?;
    let remarks = found.found.remarks(&found.findings, unit).into_iter();
    let missing = found.found.not_looked_for().map(|lack| format!("{NOT_LOOKED_FOR}{lack}"));
    document["remarks"] = remarks.chain(missing).collect();
    let rows = document["findings"].as_array_mut().into_iter().flatten();
    for (row, finding) in rows.zip(&found.findings) {
        row["to_try"] = finding.changes.iter().map(ChangeLine::text).collect();
        row["outcome"] = finding.tried.as_ref().map(|tried| tried.text(unit)).into();
    }
    Ok(document)
}

/// Each metric in bytes: its name, the time of its measurement, and its value.
fn memory(summary: &Summary) -> impl Iterator<Item = (&'static str, &'static str, u64)> + '_ {
    METRICS.iter().filter(|metric| metric.unit == Unit::Bytes).filter_map(|metric| {
        let when = match metric.from {
            Source::Meminfo(_) | Source::Less(..) => "at the end mark",
            Source::MeminfoAfterWorkload(_) => "after the workload",
            Source::VmmMaxRss => "until the VMM ended",
            Source::Length | Source::TimedWaits | Source::VmmCpuTime => "",
        };
        Some((metric.text, when, summary.metrics.get(metric)?))
    })
}

/// The names of the kinds of spans, by their numbers.
const KINDS: [&str; 12] = [
    "stage",
    "level",
    "initcall",
    "module",
    "probe",
    "attach",
    "mount",
    "work",
    "call",
    "interrupt",
    "process",
    "message",
];
