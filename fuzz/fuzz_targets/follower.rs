//! The rules by which the QEMU plugin follows calls, with several vCPUs in any interleaving. The first byte decides whether calls
//! of the architecture leave the stack alone; the others are the actions of the vCPUs.
#![no_main]

use bootscope_qemu_plugin::calls::any_guest::AnyGuest;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some((kind, steps)) = bytes.split_first() {
        AnyGuest::new(kind & 1 == 1).run(steps);
    }
});
