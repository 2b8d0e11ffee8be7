//! Samples as `perf script` prints them.
#![no_main]

use evidence::perf_script::{Samples, recognise};
use libfuzzer_sys::fuzz_target;
use timeline::Diagnostics;

fuzz_target!(|bytes: &[u8]| {
    let read = Samples::read("fuzz", bytes, &mut Diagnostics::default());
    // Text that is recognised as samples is read as samples.
    assert!(!recognise(bytes) || read.is_ok());
    if let Ok(samples) = read {
        assert!(samples.samples.iter().all(|sample| !sample.event.is_empty()));
    }
});
