//! A kernel trace: each line is counted once, and spans and waits do not end before they start.
#![no_main]

use evidence::ftrace::Trace;
use libfuzzer_sys::fuzz_target;
use timeline::{Clock, Ns, TimeBase, Timeline};

fuzz_target!(|bytes: &[u8]| {
    let mut timeline = Timeline::new(TimeBase::Evidence);
    let Ok(trace) = Trace::read("trace.txt", bytes, &mut timeline.diagnostics) else { return };
    let c = trace.counts;
    let lines = bytes.split_inclusive(|&b| b == b'\n').count() as u64;
    assert_eq!(c.events + c.headings + c.stacks + c.lost_notes + c.unreadable, lines);
    trace.build(&Clock::linear("trace", 1e9, trace.first, Ns::ZERO, timeline::RateSource::User), &mut timeline);
    timeline.finalize(Ns::ZERO);
    assert!(timeline.spans.iter().all(|(_, span)| span.start <= span.end));
    assert!(timeline.waits.iter().all(|wait| wait.from <= wait.woken && wait.woken <= wait.until));
    for pair in timeline.running.windows(2).filter(|pair| pair[0].track == pair[1].track) {
        assert!(pair[0].to <= pair[1].from, "a thread ran twice at once: {pair:?}");
    }
});
