//! A TSLOG in one file or two (`\x01` separates them): spans nest, the boot path adds up to the total, and a log that is
//! exported reads as the same boot.
#![no_main]

use evidence::tslog::{Counter, Log, build};
use libfuzzer_sys::fuzz_target;
use timeline::{Diagnostics, Ns, TimeBase, Timeline};

fuzz_target!(|bytes: &[u8]| {
    let mut timeline = Timeline::new(TimeBase::Evidence);
    let mut log = Log::default();
    let mut records = 0;
    for file in bytes.splitn(2, |&byte| byte == 1) {
        let counts = log.read("tslog.txt", file, &mut timeline.diagnostics);
        assert!(counts.others.iter().all(|other| other.start < other.end && other.end <= file.len()));
        assert!(counts.others.windows(2).all(|pair| pair[0].end < pair[1].start));
        records += counts.records;
    }
    written_is_read(&log, records);
    build(log, Counter::Unknown, &mut timeline);
    timeline.finalize(Ns::ZERO);
    for (id, span) in timeline.spans.iter() {
        assert!(span.start <= span.end);
        if let Some(around) = timeline.spans.parent(id).map(|parent| timeline.spans.get(parent)) {
            assert!(around.track == span.track && around.start <= span.start && span.end <= around.end);
        }
    }
    assert!(timeline.waits.iter().all(|wait| wait.from <= wait.woken && wait.woken <= wait.until));
    assert!(timeline.holds.iter().all(|hold| hold.from <= hold.to));
    let total = analysis::total(&timeline);
    let path = analysis::boot_path(&timeline);
    if !path.stretches.is_empty() {
        assert_eq!(path.stretches.iter().map(|stretch| stretch.length()).sum::<Ns>(), total);
    }
});

fn written_is_read(log: &Log, records: u64) {
    let mut text = Vec::new();
    log.write(&mut text).expect("a vector takes all");
    let mut again = Log::default();
    let mut diagnostics = Diagnostics::default();
    let counts = again.read("again.txt", &text, &mut diagnostics);
    // Rate and gaps of the log are notes among the records.
    let notes = count(&text, b" EVENT TSLOG ");
    assert!(counts.records <= records + notes && counts.others.is_empty(), "{diagnostics:?}");
    let mut same = Vec::new();
    again.write(&mut same).expect("a vector takes all");
    assert_eq!(text, same);
}

/// Number of times that a word is in a text.
fn count(text: &[u8], word: &[u8]) -> u64 {
    text.windows(word.len()).filter(|window| *window == word).count() as u64
}
