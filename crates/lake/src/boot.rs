//! What a lake keeps of one boot: its rows in each table, out of what `show --json` says of it and of its manifest.

use crate::columns::{Cell, Rows};
use crate::tables::Of;
use benchmark::{METRICS, metrics};
use recording::{InputRole, Manifest, TimeBase};
use report::Summary;
use std::time::UNIX_EPOCH;
use timeline::Unit;

/// Names and values that say more of boots: `team=kernel`.
pub type Labels = Vec<(String, String)>;

/// A boot, ready for the lake.
#[derive(Clone, Debug)]
pub struct Boot {
    /// Which one: [`crate::identity`].
    pub id: String,
    /// What was recorded, and how.
    pub manifest: Manifest,
    /// What bootscope says of it.
    pub summary: Summary,
    /// The machine's token or name, if it was given.
    pub machine: Option<String>,
    /// The kind of machine, if the user says it better than the recording.
    pub hardware: Option<String>,
    /// Whether it reached an end mark. Else its times only say what of it is shown.
    pub ended: bool,
    /// What else the user says.
    pub labels: Labels,
}

impl Boot {
    /// When it was begun, in ms since 1970, if that is known.
    pub fn began_ms(&self) -> Option<i64> {
        let began = humantime::parse_rfc3339(&self.manifest.created).ok()?;
        began.duration_since(UNIX_EPOCH).ok()?.as_millis().try_into().ok()
    }

    /// The day of that, in UTC: `2026-11-26`; that of 1970 if it is not known.
    pub fn day(&self) -> String {
        let ms = self.began_ms().and_then(|ms| u64::try_from(ms).ok()).unwrap_or(0);
        let at = humantime::format_rfc3339_seconds(UNIX_EPOCH + std::time::Duration::from_millis(ms)).to_string();
        at.chars().take("2026-11-26".len()).collect()
    }

    /// The kind of machine, if anything says it. Boots of different kinds are not compared, so all is in it that makes a boot longer and is
    /// no software of the guest.
    pub fn hardware(&self) -> Option<String> {
        if self.hardware.is_some() {
            return self.hardware.clone();
        }
        let subject = &self.summary.subject;
        let counted = self.manifest.time_base == TimeBase::GuestVirtual;
        let parts = [
            subject.machine.clone(),
            if counted { "counted".to_owned() } else { subject.accelerator.clone() },
            if subject.cpus == 0 { String::new() } else { format!("cpus={}", subject.cpus) },
            if subject.memory_bytes == 0 { String::new() } else { format!("memory={}M", subject.memory_bytes >> 20) },
            // A counted boot takes as long on any host.
            if counted { String::new() } else { self.manifest.host.cpu.clone() },
        ];
        let known: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        if known.is_empty() { None } else { Some(known.join(" ")) }
    }

    /// Whether its times are nanoseconds. Of a counter whose rate nobody knows they are ticks.
    fn has_times(&self) -> bool {
        self.summary.unit == Unit::Nanoseconds.name()
    }

    /// How much of it is shown, if that is known in nanoseconds.
    fn shown(&self) -> Option<i64> {
        self.has_times().then_some(self.summary.total_ns)
    }

    /// Its length, if it is known, and how far off that may be.
    fn total(&self) -> Option<(i64, i64)> {
        let end = self.summary.end.as_ref().filter(|_| self.ended)?;
        Some((self.shown()?, end.error_ns))
    }
}

/// Adds the rows that a boot has in a table.
pub fn rows_of(boot: &Boot, rows: &mut Rows) {
    let hardware = boot.hardware();
    let summary = &boot.summary;
    let machine = Cell::from(boot.machine.as_deref());
    let key = [
        hardware.as_deref().into(),
        summary.time_base.as_str().into(),
        summary.subject.kernel.as_str().into(),
        boot.began_ms().into(),
        boot.id.as_str().into(),
        boot.ended.into(),
        machine,
    ];
    let of = rows.table().of;
    let mut push = |cells: &[Cell]| rows.push(&[&key[..], cells].concat());
    // Of a boot whose times are ticks, no column in ns can be told.
    let has_times = boot.has_times();
    match of {
        Of::Boots => push(&facts(boot)),
        Of::Labels => boot.labels.iter().for_each(|(name, value)| push(&[name.as_str().into(), value.as_str().into()])),
        Of::Metrics => {
            for metric in METRICS.iter().filter(|metric| !metric.is_computed()) {
                let Some(value) = summary.metrics.get(metric) else { continue };
                let unit = match metric.unit {
                    metrics::Unit::Nanoseconds => "ns",
                    metrics::Unit::Bytes => "bytes",
                };
                push(&[metric.name.into(), unit.into(), i64::try_from(value).unwrap_or(i64::MAX).into()]);
            }
        }
        Of::Phases | Of::Rows | Of::Initcalls | Of::Units | Of::Findings if !has_times => {}
        Of::Phases => {
            for (position, phase) in (0..).zip(&summary.phases) {
                let length = phase.end_ns.saturating_sub(phase.start_ns);
                push(&[Cell::Integer(position), phase.name.as_str().into(), phase.start_ns.into(), length.into()]);
            }
        }
        Of::Rows => {
            for row in &summary.wheres {
                let count = i64::try_from(row.count).unwrap_or(i64::MAX);
                push(&[row.name.as_str().into(), row.self_ns.into(), row.total_ns.into(), count.into()]);
            }
        }
        Of::Initcalls => {
            for call in &summary.initcalls {
                push(&[call.name.as_str().into(), call.start_ns.into(), call.elapsed_ns.into()]);
            }
        }
        Of::Units => {
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
        Of::Findings => {
            for found in &summary.findings {
                push(&[
                    found.id.as_str().into(),
                    found.title.as_str().into(),
                    found.cost_ns.into(),
                    found.cost_low_ns.into(),
                    found.cost_high_ns.into(),
                    found.confidence.as_str().into(),
                ]);
            }
        }
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
