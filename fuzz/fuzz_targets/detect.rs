//! The recognition of a file's format: any bytes get an answer, and no byte outside of the file is read.
#![no_main]

use evidence::detect::detect;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let found = detect(bytes);
    assert_eq!(found.is_empty(), bytes.is_empty());
    assert!(found.iter().all(|kind| kind.start <= kind.end && kind.end <= bytes.len()));
});
