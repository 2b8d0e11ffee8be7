//! Perfetto traces: any bytes become the text of a trace, within the bound, or a diagnostic; and of its tracks (`perfetto_tracks`) the
//! phases and the boot path add up to the total.
#![no_main]

use evidence::ftrace::Trace;
use libfuzzer_sys::fuzz_target;
use recording::Recording;
use std::fs;
use timeline::{Diagnostics, Ns};

fuzz_target!(|bytes: &[u8]| {
    let mut diagnostics = Diagnostics::default();
    let text = evidence::perfetto::text("t", bytes, &mut diagnostics);
    if let Ok(trace) = Trace::read("t", &text, &mut diagnostics) {
        assert!(trace.records().count() as u64 <= trace.counts.events);
    }
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in /dev/shm");
    fs::write(folder.path().join("recording.json"), r#"{"schema": "bootscope.recording/1", "state": "finished"}"#)
        .expect("room in /dev/shm");
    fs::write(folder.path().join("00-trace.pftrace"), bytes).expect("room in /dev/shm");
    let Ok(recording) = Recording::open(folder.path()) else { return };
    let timeline = evidence::load(&recording).expect("its files can be read");
    let total = analysis::total(&timeline);
    let phases: Ns = Ns(analysis::phases(&timeline).iter().map(|phase| (phase.end - phase.start).0).sum());
    assert!(phases == total || phases == Ns::ZERO, "{phases:?} {total:?}");
    let path: i64 = analysis::boot_path(&timeline).stretches.iter().map(|stretch| (stretch.to - stretch.from).0).sum();
    assert!(path == total.0 || path == 0, "{path} {total:?}");
});
