//! Perfetto traces: any bytes become the text of a trace, within the bound, or a diagnostic.
#![no_main]

use evidence::ftrace::Trace;
use libfuzzer_sys::fuzz_target;
use timeline::Diagnostics;

fuzz_target!(|bytes: &[u8]| {
    let mut diagnostics = Diagnostics::default();
    let text = evidence::perfetto::text("t", bytes, &mut diagnostics);
    if let Ok(trace) = Trace::read("t", &text, &mut diagnostics) {
        assert!(trace.records().count() as u64 <= trace.counts.events);
    }
});
