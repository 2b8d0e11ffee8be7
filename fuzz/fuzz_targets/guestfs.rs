//! The report of libguestfs about a launch: it is read with its kernel lines, and placed on a timeline.
#![no_main]

use evidence::guestfs::Events;
use libfuzzer_sys::fuzz_target;
use timeline::{Diagnostics, Ns};

fuzz_target!(|bytes: &[u8]| {
    let mut diagnostics = Diagnostics::default();
    let Ok(found) = Events::read("launch.log", bytes, &mut diagnostics) else { return };
    let c = found.counts;
    assert_eq!(c.lines, c.events + c.later + c.unreadable + c.others);
    found.kernel_log(&mut diagnostics);
    found.on_a_timeline().finalize(Ns::ZERO);
});
