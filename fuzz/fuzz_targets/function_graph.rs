//! Text of the tracer function_graph: a line is a call or none, whatever it is.
#![no_main]

use libfuzzer_sys::fuzz_target;
use timeline::Diagnostics;

fuzz_target!(|bytes: &[u8]| {
    let stamps = evidence::function_graph::stamps("f", bytes, &mut Diagnostics::default());
    assert!(stamps.len() <= bytes.split(|byte| *byte == b'\n').count());
});
