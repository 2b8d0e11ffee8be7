//! Values of a variable at the entries of functions.
#![no_main]

use libfuzzer_sys::fuzz_target;
use timeline::Diagnostics;

fuzz_target!(|bytes: &[u8]| {
    let found = evidence::watched::read("fuzz", bytes, &mut Diagnostics::default());
    assert!(found.readings.is_sorted_by_key(|reading| reading.at));
    assert!(found.readings.len() <= 1 << 16 && found.functions.len() <= 64 && found.notes.len() <= 64);
    assert!(found.stood() >= timeline::Ns(0) && found.unentered().count() <= found.functions.len());
});
