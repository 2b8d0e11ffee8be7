//! A kernel log in any of its formats, and the initcalls in it: each line is counted once.
#![no_main]

use evidence::initcalls;
use evidence::kernel_log::KernelLog;
use libfuzzer_sys::fuzz_target;
use timeline::{Ns, TimeBase, Timeline};

fuzz_target!(|bytes: &[u8]| {
    let mut timeline = Timeline::new(TimeBase::Evidence);
    let Ok(log) = KernelLog::read("a.log", bytes, &mut timeline.diagnostics) else { return };
    let c = log.counts;
    assert_eq!(c.lines, bytes.split_inclusive(|&b| b == b'\n').count() as u64);
    assert_eq!(c.lines, c.records - c.glued + c.continuations + c.comments + c.blank + c.unreadable);
    for line in &log.lines {
        log.text(line);
    }
    let calls = initcalls::read("a.log", &log, |line| line.stamp.or(line.host_stamp), &mut timeline.diagnostics);
    assert!(calls.calls.iter().all(|call| call.start <= call.end));
    calls.build(&mut timeline);
    timeline.finalize(Ns::ZERO);
});
