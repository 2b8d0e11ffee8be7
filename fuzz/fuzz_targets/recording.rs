//! All of a recording's files at once, placed on one timeline and analysed. The input is the files in the order of `FILES`,
//! with a NUL between them. For any input, the phases and the boot path add up to the total.
#![no_main]

use evidence::load;
use libfuzzer_sys::fuzz_target;
use recording::Recording;
use std::fs;
use timeline::Ns;

const FILES: [&str; 10] = [
    "recording.json",
    "guest.log",
    "guest.idx",
    "trace.txt",
    "kmsg.log",
    "console.log",
    "console.idx",
    "vmm.json",
    "firmware.log",
    "calls.bin",
];

fuzz_target!(|bytes: &[u8]| {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in /dev/shm");
    // The last file may have NULs itself.
    for (name, content) in FILES.iter().zip(bytes.splitn(FILES.len(), |&byte| byte == 0)) {
        fs::write(folder.path().join(name), content).expect("room in /dev/shm");
    }
    let Ok(recording) = Recording::open(folder.path()) else { return };
    let timeline = load(&recording).expect("its files can be read");
    let total = analysis::total(&timeline);
    let phases = analysis::phases(&timeline);
    let path = analysis::boot_path(&timeline);
    assert_eq!(phases.iter().map(|phase| phase.length()).sum::<Ns>(), total);
    if !path.stretches.is_empty() {
        assert_eq!(path.stretches.iter().map(|stretch| stretch.length()).sum::<Ns>(), total);
        let tables = analysis::tables(&timeline, &path, &phases, &analysis::Groups::linux());
        for rows in [&tables.wheres, &tables.functions] {
            assert_eq!(rows.iter().map(|row| row.self_time).sum::<Ns>(), total);
        }
    }
});
