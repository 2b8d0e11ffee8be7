//! The reader of first-execution traces (`first-run.bin`) with a list of symbols. The input is the symbols, a NUL, the trace.
#![no_main]

use evidence::symbols::Symbols;
use evidence::{first_calls, first_executions, regions};
use libfuzzer_sys::fuzz_target;
use timeline::{Diagnostics, Ns};

fuzz_target!(|bytes: &[u8]| {
    let split = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    let (text, run) = (&bytes[..split], &bytes[(split + 1).min(bytes.len())..]);
    let mut diagnostics = Diagnostics::default();
    let symbols = Symbols::read("kallsyms", text, &mut diagnostics);
    let run = first_executions::read("first-run.bin", run, &mut diagnostics);
    let regions = regions::regions(&run);
    assert!(regions.iter().is_sorted_by_key(|region| region.at));
    let found = first_calls::calls(&run, &symbols, Ns(0), &mut diagnostics);
    assert!(found.calls.iter().all(|call| call.start <= call.end));
});
