//! perf's files: the reader survives any places and lengths in them.
#![no_main]

use evidence::perf_data::PerfData;
use libfuzzer_sys::fuzz_target;
use timeline::Diagnostics;

fuzz_target!(|bytes: &[u8]| {
    let whole = [&b"PERFILE2"[..], bytes].concat();
    PerfData::read("p", &whole, &mut Diagnostics::default());
});
