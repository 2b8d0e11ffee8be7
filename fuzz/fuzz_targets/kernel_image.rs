//! A kernel's image: its payload, and the table of symbols in the unpacked payload.
#![no_main]

use libfuzzer_sys::fuzz_target;
use machine::kernel_image;

fuzz_target!(|bytes: &[u8]| {
    let Ok(functions) = kernel_image::functions(bytes) else { return };
    assert!(functions.iter().all(|(address, name)| *address >= 1 << 47 && !name.is_empty()));
    assert!(functions.is_sorted_by_key(|(address, _)| *address));
});
