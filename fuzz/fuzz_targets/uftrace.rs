//! A thread's calls as uftrace writes them: for any file, stamps never step back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use timeline::Diagnostics;

fuzz_target!(|bytes: &[u8]| {
    let stamps = evidence::uftrace::stamps("1.dat", bytes, &mut Diagnostics::default());
    assert!(stamps.windows(2).all(|pair| pair[0] <= pair[1]));
    assert!(stamps.len() <= bytes.len() / 16);
});
