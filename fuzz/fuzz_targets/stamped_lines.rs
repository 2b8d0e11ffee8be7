//! Lines of the guest and the firmware with their arrival times. The input is the index of times, a NUL, the lines.
#![no_main]

use evidence::index::Index;
use evidence::{firmware, guest_messages};
use libfuzzer_sys::fuzz_target;
use timeline::{Diagnostics, Ns, TimeBase, Timeline};

fuzz_target!(|bytes: &[u8]| {
    let split = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    let (index, lines) = (&bytes[..split], &bytes[(split + 1).min(bytes.len())..]);
    let mut diagnostics = Diagnostics::default();
    let index = Index::read("a.idx", index, &mut diagnostics);
    guest_messages::read("guest.log", lines, &index, &mut diagnostics);
    let mut timeline = Timeline::new(TimeBase::Host);
    let firmware_lines = firmware::read(lines, &index, &mut timeline.diagnostics);
    firmware::build(&firmware_lines, Ns(1_000_000), &mut timeline);
    timeline.finalize(Ns::ZERO);
});
