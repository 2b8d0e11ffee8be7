//! Chrome's JSON trace events, which chrome://tracing, Perfetto, Firefox Profiler and others read.
//!
//! Groups of lanes are processes and lanes are threads. Slices are strictly nested complete events (`"ph":"X"`) in
//! order of start, and marks are instants. Times are microseconds with three decimals, so they are exact. `otherData`
//! has the warnings, and the unit if it is not time.

use super::Export;
use crate::Boot;
use crate::lanes::{Group, Label, Lane};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{self, Write};
use timeline::{NameId, Ns};

pub struct Chrome;

impl Export for Chrome {
    fn name(&self) -> &'static str {
        "chrome"
    }

    fn extension(&self) -> &'static str {
        "trace.json"
    }

    fn about(&self) -> &'static str {
        "the same as JSON trace events, for chrome://tracing"
    }

    fn write(&self, boot: &Boot, out: &mut dyn Write) -> io::Result<()> {
        let warnings: Vec<_> = super::warnings(boot).collect();
        let other = json!({"unit": boot.timeline.unit.name(), "warnings": warnings});
        write!(out, "{{\"displayTimeUnit\":\"ns\",\"otherData\":{other},\"traceEvents\":[")?;
        for (i, group) in Group::ALL.into_iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            let (pid, name) = (group.number(), Value::from(group.name()));
            write!(
                out,
                "{comma}\n{{\"ph\":\"M\",\"pid\":{pid},\"name\":\"process_name\",\"args\":{{\"name\":{name}}}}}"
            )?;
            write!(
                out,
                ",\n{{\"ph\":\"M\",\"pid\":{pid},\"name\":\"process_sort_index\",\"args\":{{\"sort_index\":{i}}}}}"
            )?;
        }
        let zero = boot.earliest();
        let lanes = boot.lanes();
        for lane in &lanes {
            write_lane(boot, lane, zero, out)?;
        }
        write_marks(boot, &lanes, zero, out)?;
        writeln!(out, "\n]}}")
    }
}

fn write_lane(boot: &Boot, lane: &Lane, zero: Ns, out: &mut dyn Write) -> io::Result<()> {
    let (pid, tid, name) = (lane.group.number(), lane.number, Value::from(lane.name.as_str()));
    write!(
        out,
        ",\n{{\"ph\":\"M\",\"pid\":{pid},\"tid\":{tid},\"name\":\"thread_name\",\"args\":{{\"name\":{name}}}}}"
    )?;
    write!(
        out,
        ",\n{{\"ph\":\"M\",\"pid\":{pid},\"tid\":{tid},\"name\":\"thread_sort_index\",\"args\":{{\"sort_index\":{tid}}}}}"
    )?;
    let mut names: HashMap<Label, String> = HashMap::new();
    for slice in lane.slices() {
        let name = names.entry(slice.label).or_insert_with(|| Value::from(boot.text(slice.label)).to_string());
        let (ts, dur) = (Us(slice.start - zero), Us(slice.end - slice.start));
        write!(out, ",\n{{\"ph\":\"X\",\"pid\":{pid},\"tid\":{tid},\"ts\":{ts},\"dur\":{dur},\"name\":{name}}}")?;
    }
    Ok(())
}

fn write_marks(boot: &Boot, lanes: &[Lane], zero: Ns, out: &mut dyn Write) -> io::Result<()> {
    let by_track: HashMap<_, _> = lanes.iter().filter_map(|l| Some((l.track?, l))).collect();
    for mark in &boot.timeline.marks {
        let Some(lane) = by_track.get(&mark.track) else { continue };
        let (pid, tid, ts) = (lane.group.number(), lane.number, Us(mark.at - zero));
        let name = Value::from(boot.text(Label::Span(mark.name, NameId::EMPTY)));
        write!(out, ",\n{{\"ph\":\"i\",\"s\":\"t\",\"pid\":{pid},\"tid\":{tid},\"ts\":{ts},\"name\":{name}}}")?;
    }
    Ok(())
}

/// Nanoseconds written as microseconds. They must not be negative.
struct Us(Ns);

impl std::fmt::Display for Us {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}.{:03}", self.0.0 / 1_000, self.0.0 % 1_000)
    }
}
