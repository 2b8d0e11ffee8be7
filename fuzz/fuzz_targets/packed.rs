//! A packed recording of unknown origin. The input is the tar archive inside, so that mutation reaches its entries.
#![no_main]

use libfuzzer_sys::fuzz_target;
use recording::{Recording, is_plain_name};
use std::io::Write;

fuzz_target!(|bytes: &[u8]| {
    let mut file = tempfile::NamedTempFile::new_in("/dev/shm").expect("a file in /dev/shm");
    file.write_all(&zstd::encode_all(bytes, 1).expect("zstd packs into memory")).expect("room in /dev/shm");
    let Ok(recording) = Recording::open(file.path()) else { return };
    for name in recording.names() {
        assert!(is_plain_name(name), "{name:?}");
        recording.read(name).expect("a file in memory").expect("a file that is named");
    }
});
