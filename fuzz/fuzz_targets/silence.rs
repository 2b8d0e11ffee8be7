//! Places of the vCPUs while the console was silent.
#![no_main]

use libfuzzer_sys::fuzz_target;
use timeline::Diagnostics;

fuzz_target!(|bytes: &[u8]| {
    let found = evidence::silence::read("fuzz", bytes, &mut Diagnostics::default());
    for silence in &found.silences {
        assert!(silence.from <= silence.until);
        let places = silence.mostly_at();
        assert!(places.iter().flat_map(|place| &place.stack).all(|entry| entry.1 <= silence.stops.len()));
    }
});
