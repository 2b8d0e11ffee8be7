//! The recognition of a file's format: any bytes are recognised as something, and all ranges lie in the file.
#![no_main]

use evidence::detect::detect;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let found = detect(bytes);
    assert_eq!(found.is_empty(), bytes.is_empty());
    assert!(found.iter().all(|kind| kind.start <= kind.end && kind.end <= bytes.len()));
});
