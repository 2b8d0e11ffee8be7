//! trace-cmd's files: for any places and lengths in them, the result is the text of a trace, or a diagnostic.
#![no_main]

use evidence::ftrace::Trace;
use libfuzzer_sys::fuzz_target;
use timeline::Diagnostics;

fuzz_target!(|bytes: &[u8]| {
    let whole = [&b"\x17\x08\x44tracing"[..], bytes].concat();
    let mut diagnostics = Diagnostics::default();
    let text = evidence::trace_dat::text("t", &whole, &mut diagnostics);
    assert!(!text.is_empty() || !diagnostics.is_empty());
    if let Ok(trace) = Trace::read("t", &text, &mut diagnostics) {
        assert_eq!(trace.counts.unreadable, 0);
    }
});
