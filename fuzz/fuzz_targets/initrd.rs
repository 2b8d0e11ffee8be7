//! An initrd: archives, compressed or not, one after the other, and the same without compression.
#![no_main]

use libfuzzer_sys::fuzz_target;
use machine::initrd;

/// What a small input may grow to.
const BYTES_MAX: u64 = 16 << 20;

fuzz_target!(|bytes: &[u8]| {
    let Ok(Some(plain)) = initrd::unpacked(bytes, BYTES_MAX) else { return };
    assert!(plain.len() as u64 <= BYTES_MAX);
});
