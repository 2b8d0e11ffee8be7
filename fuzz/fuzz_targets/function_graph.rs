//! Text of the tracer function_graph: for any text, a line is at most one call.
#![no_main]

use libfuzzer_sys::fuzz_target;
use timeline::Diagnostics;

fuzz_target!(|bytes: &[u8]| {
    let stamps = evidence::function_graph::stamps("f", bytes, &mut Diagnostics::default());
    assert!(stamps.len() <= bytes.split(|byte| *byte == b'\n').count());
});
