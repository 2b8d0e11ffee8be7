//! Samples of a boot chart: each line is counted once, and the stretches of a process lie one after the other. On a timeline, the
//! boot path adds up to the total.
#![no_main]

use evidence::bootchart::Samples;
use libfuzzer_sys::fuzz_target;
use timeline::Diagnostics;

fuzz_target!(|bytes: &[u8]| {
    let _ = evidence::recognise(bytes);
    let mut diagnostics = Diagnostics::default();
    let Some(samples) = Samples::read("p", bytes, &mut diagnostics) else { return };
    let c = samples.counts;
    // A picture has no lines of samples.
    if !bytes.starts_with(b"<?xml") {
        assert_eq!(c.lines, bytes.split_inclusive(|&b| b == b'\n').count() as u64);
        assert_eq!(c.lines, c.samples + c.rows + c.blank + c.unreadable + c.beyond);
    }
    for process in &samples.processes {
        assert!(process.stretches.iter().all(|stretch| stretch.from < stretch.to));
        assert!(process.stretches.windows(2).all(|pair| pair[0].to <= pair[1].from));
    }
    let timeline = samples.on_a_timeline();
    let path = analysis::boot_path(&timeline);
    if !path.stretches.is_empty() {
        let sum = path.stretches.iter().map(|stretch| stretch.length()).sum::<timeline::Ns>();
        assert_eq!(sum, analysis::total(&timeline));
    }
});
