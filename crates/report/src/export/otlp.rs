//! OpenTelemetry's data: a trace of the boot, and metrics, as OTLP's JSON.
//!
//! Two lines: `{"resourceSpans":…}` and `{"resourceMetrics":…}`, as a collector's `otlpjsonfile` receiver reads them from a file and its
//! `otlp` receiver takes them by HTTP at `/v1/traces` and `/v1/metrics`. By the OTLP specification 1.x: ids are hexadecimal, numbers of 64
//! bits are text.
//!
//! One trace per boot. The span `boot` holds all: a span for each phase, for each unit, and the span `boot path`, whose children are what
//! the boot waited for, as nested as the chart has it. Metrics are gauges: the boot's length, each phase, each unit, each row of
//! the boot path, and what was measured beside the time.
//!
//! Time zero is when the recording was begun, as its manifest says; that of imported evidence is when it was imported. Ids are
//! hashes of the content, so a boot that is exported twice is the same trace.

mod content;
mod wire;

use super::Export;
use crate::Boot;
use content::Content;
use std::io::{self, Write};

/// The `otlp` format.
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
        writeln!(out, "{}", crate::json(&wire::traces(&content), false)?)?;
        writeln!(out, "{}", crate::json(&wire::metrics(&content), false)?)
    }
}
