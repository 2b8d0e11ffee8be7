//! The reader of counts of accesses (`exits.bin`).
#![no_main]

use evidence::exits;
use libfuzzer_sys::fuzz_target;
use timeline::Diagnostics;

fuzz_target!(|bytes: &[u8]| {
    let counted = exits::read("exits.bin", bytes, &mut Diagnostics::default());
    assert!(counted.runs.iter().all(|run| (run.row as usize) < counted.rows.len()));
});
