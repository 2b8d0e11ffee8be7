//! perf's own files: whatever they say of places and lengths, what is made of them is samples.
#![no_main]

use evidence::perf_data::PerfData;
use libfuzzer_sys::fuzz_target;
use timeline::Diagnostics;

fuzz_target!(|bytes: &[u8]| {
    let whole = [&b"PERFILE2"[..], bytes].concat();
    PerfData::read("p", &whole, &mut Diagnostics::default());
});
