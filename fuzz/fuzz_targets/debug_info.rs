//! The debug information of an untrusted kernel, and a path through it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use machine::debug_info::DebugInfo;

/// Address of the variable in the seeds, an array of structures compiled for DWARF 4 and 5.
const ADDRESS: u64 = 0x40_4040;

fuzz_target!(|bytes: &[u8]| {
    let Ok(Some(info)) = DebugInfo::of(bytes) else { return };
    for path in ["", "[3].stat.lookup", "[0].next->next->stat.alloc", "[1].grid[1][2]", "[2].name[3]"] {
        if let Ok(place) = info.place("vmem", ADDRESS, path) {
            assert!([1, 2, 4, 8].contains(&place.bytes));
        }
    }
});
