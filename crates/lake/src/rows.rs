//! Turns a boot into rows of each table.

use crate::boot::Boot;
use crate::column::Cell;
use crate::columns::Rows;
use crate::key::Keyed;
use crate::tables::TableKind;
use benchmark::{METRICS, metrics};
use recording::InputRole;
use report::Summary;

/// Adds the rows that a boot has in a table.
pub fn rows_of(keyed: &Keyed, rows: &mut Rows) {
    let boot = keyed.boot;
    let summary = &boot.summary;
    let key = keyed.key();
    let kind = rows.table().kind;
    rows.begin(&key);
    let mut push = |cells: &[Cell]| rows.push(cells);
    // If times are ticks, columns in ns have no value.
    let has_times = boot.has_times();
    match kind {
        TableKind::Boots => push(&facts(boot)),
        // `machines_in` computes these from a whole file of `boots`.
        TableKind::Machines => {}
        TableKind::Labels => {
            boot.labels.iter().for_each(|(name, value)| push(&[name.as_str().into(), value.as_str().into()]))
        }
        TableKind::Metrics => push_metrics(summary, push),
        TableKind::Phases | TableKind::Rows | TableKind::Initcalls | TableKind::Units | TableKind::Findings
            if !has_times => {}
        TableKind::Phases => {
            for (position, phase) in (0..).zip(&summary.phases) {
                let length = phase.end_ns.saturating_sub(phase.start_ns);
                push(&[Cell::Integer(position), phase.name.as_str().into(), phase.start_ns.into(), length.into()]);
            }
        }
        TableKind::Rows => {
            for row in &summary.wheres {
                let count = i64::try_from(row.count).unwrap_or(i64::MAX);
                push(&[row.name.as_str().into(), row.self_ns.into(), row.total_ns.into(), count.into()]);
            }
        }
        TableKind::Initcalls => {
            for call in &summary.initcalls {
                push(&[call.name.as_str().into(), call.start_ns.into(), call.elapsed_ns.into()]);
            }
        }
        TableKind::Units => {
            for unit in &summary.units {
                push(&[
                    unit.name.as_str().into(),
                    unit.start_ns.into(),
                    unit.settled_ns.into(),
                    unit.failed.into(),
                    unit.boot_path_ns.into(),
                    unit.cpu_ns.into(),
                ]);
            }
        }
        TableKind::Findings => {
            for finding in &summary.findings {
                push(&[
                    finding.id.as_str().into(),
                    finding.title.as_str().into(),
                    finding.cost_ns.into(),
                    finding.cost_low_ns.into(),
                    finding.cost_high_ns.into(),
                    finding.confidence.as_str().into(),
                ]);
            }
        }
    }
}

fn push_metrics(summary: &Summary, mut push: impl FnMut(&[Cell])) {
    for metric in METRICS.iter().filter(|metric| !metric.is_computed()) {
        let Some(value) = summary.metrics.get(metric) else { continue };
        let unit = match metric.unit {
            metrics::Unit::Nanoseconds => "ns",
            metrics::Unit::Bytes => "bytes",
        };
        push(&[metric.name.into(), unit.into(), i64::try_from(value).unwrap_or(i64::MAX).into()]);
    }
}

/// The columns of `boots` beyond the key.
fn facts(boot: &Boot) -> Vec<Cell<'_>> {
    let (summary, manifest) = (&boot.summary, &boot.manifest);
    let subject = &summary.subject;
    let kernel = manifest.inputs.iter().find(|input| InputRole::Kernel.is(&input.role));
    let total = boot.total();
    let count = |count: usize| Cell::Integer(i64::try_from(count).unwrap_or(i64::MAX));
    vec![
        subject.os.as_str().into(),
        kernel.map_or("", |kernel| kernel.sha256.as_str()).into(),
        subject.machine.as_str().into(),
        subject.accelerator.as_str().into(),
        i64::from(subject.cpus).into(),
        i64::try_from(subject.memory_bytes).unwrap_or(i64::MAX).into(),
        manifest.host.cpu.as_str().into(),
        manifest.vmm.version.as_str().into(),
        summary.outcome.as_str().into(),
        summary.end.as_ref().map_or("", |end| end.code.as_str()).into(),
        total.map(|(length, _)| length).into(),
        total.map(|(_, error)| error).into(),
        boot.shown().into(),
        Cell::Fraction(summary.explained),
        (summary.scheduler_evidence || summary.hold_evidence).into(),
        count(summary.warnings.len()),
        count(summary.diagnostics.len()),
        summary.found.is_some().into(),
        manifest.tool_version.as_str().into(),
        env!("CARGO_PKG_VERSION").into(),
    ]
}
