//! OpenTelemetry's data: a trace of the boot, and metrics, as OTLP's JSON.
//!
//! There are two lines, `{"resourceSpans":…}` and `{"resourceMetrics":…}`. A collector's `otlpjsonfile` receiver reads
//! them from a file. Its `otlp` receiver takes them by HTTP at `/v1/traces` and `/v1/metrics`. As in the OTLP
//! specification 1.x, ids are hexadecimal, and numbers of 64 bits are text.
//!
//! Each boot is one trace. The span `boot` holds all others: a span for each phase, for each unit, and the span `boot
//! path`. The children of `boot path` are what the boot waited for, nested as in the chart. Metrics are gauges: the
//! length of the boot, of each phase and of each unit, each row of the boot path, and the measured metrics.
//!
//! Time zero is the start of the recording, from its manifest; for imported evidence it is the time of the import. Ids
//! are hashes of the content, so a boot that is exported twice is the same trace.

mod content;
mod wire;

use super::Export;
use crate::Boot;
use content::Content;
use std::io::{self, Write};

pub struct Otlp;

impl Export for Otlp {
    fn name(&self) -> &'static str {
        "otlp"
    }

    fn extension(&self) -> &'static str {
        "otlp.jsonl"
    }

    fn about(&self) -> &'static str {
        "a trace and metrics for OpenTelemetry, as OTLP's JSON"
    }

    fn has_signals(&self) -> bool {
        true
    }

    fn write(&self, boot: &Boot, out: &mut dyn Write) -> io::Result<()> {
        let content = Content::of(boot);
        crate::write_json(&mut *out, &wire::traces(&content), false)?;
        writeln!(out)?;
        crate::write_json(&mut *out, &wire::metrics(&content), false)?;
        writeln!(out)
    }
}
