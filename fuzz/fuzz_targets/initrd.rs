//! An initrd: archives, compressed or not, one after the other, which are unpacked.
#![no_main]

use libfuzzer_sys::fuzz_target;
use machine::initrd;

/// Largest unpacked size.
const MAX_BYTES: u64 = 16 << 20;

fuzz_target!(|bytes: &[u8]| {
    let Ok(Some(plain)) = initrd::unpacked(bytes, MAX_BYTES) else { return };
    assert!(plain.len() as u64 <= MAX_BYTES);
});
