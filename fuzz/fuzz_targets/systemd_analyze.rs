//! Output of systemd-analyze: each line is counted once, and for any input the phases add up to the total.
#![no_main]

use evidence::systemd_analyze::Analysis;
use libfuzzer_sys::fuzz_target;
use timeline::{Diagnostics, Ns};

fuzz_target!(|bytes: &[u8]| {
    let (mut found, mut diagnostics) = (Analysis::default(), Diagnostics::default());
    found.read("a", bytes, &mut diagnostics);
    let c = found.counts;
    assert_eq!(c.lines, bytes.split_inclusive(|&b| b == b'\n').count() as u64);
    assert_eq!(c.lines, c.time + c.blame + c.chain + c.json + c.state + c.plot + c.unreadable + c.others);
    let mut timeline = found.on_a_timeline();
    timeline.finalize(Ns::ZERO);
    let phases = analysis::phases(&timeline);
    assert_eq!(phases.iter().map(|phase| phase.length()).sum::<Ns>(), analysis::total(&timeline));
    let path = analysis::boot_path(&timeline);
    if !path.stretches.is_empty() {
        assert_eq!(path.stretches.iter().map(|stretch| stretch.length()).sum::<Ns>(), analysis::total(&timeline));
    }
});
