//! A data directory of uftrace against uftrace's own output.

use std::io::Read;
use std::path::{Path, PathBuf};
use timeline::{DiagnosticKind as K, Diagnostics, Ns, SpanKind, Timeline, TrackKind};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/uftrace").join(name)
}

/// The time in `task.txt` at which the session began, on the clock that counts from the machine's start.
const BEGAN: i64 = 29_518_140_810_876;

fn imported(test: &str) -> Timeline {
    imported_from(&[fixture("t.data.tar.gz")], test)
}

fn imported_from(files: &[PathBuf], test: &str) -> Timeline {
    let into = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("uftrace-{test}-{}", std::process::id()));
    recording::import(files, &into, true).unwrap();
    evidence::load(&recording::Recording::open(&into).unwrap()).unwrap()
}

/// Entries and exits as uftrace prints them: thread, nanoseconds, true for an entry, name.
fn printed() -> Vec<(u64, i64, bool, String)> {
    let mut text = String::new();
    let packed = std::fs::File::open(fixture("t.chrome.json.gz")).unwrap();
    flate2::read::GzDecoder::new(packed).read_to_string(&mut text).unwrap();
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let events = document["traceEvents"].as_array().unwrap().iter();
    let calls = events.filter(|e| e["ph"] == "B" || e["ph"] == "E").map(|e| {
        let ns = (e["ts"].as_f64().unwrap() * 1000.0).round();
        (
            e.get("tid").unwrap_or(&e["pid"]).as_u64().unwrap(),
            ns as i64,
            e["ph"] == "B",
            e["name"].as_str().unwrap().to_owned(),
        )
    });
    calls.filter(|(.., name)| !name.starts_with("linux:")).collect()
}

#[test]
fn calls_equal_what_uftrace_prints() {
    let timeline = imported("calls");
    let mut ours = Vec::new();
    for (_, span) in timeline.spans.iter().filter(|(_, span)| span.kind == SpanKind::Call) {
        let (tid, name) = (timeline.tracks.get(span.track).id, timeline.names.get(span.name).to_owned());
        ours.push((tid, BEGAN + span.start.0, true, name.clone()));
        ours.push((tid, BEGAN + span.end.0, false, name));
    }
    let mut theirs = printed();
    ours.sort();
    theirs.sort();
    assert_eq!(ours, theirs);
    assert!(ours.len() > 50 && ours.iter().any(|call| call.3 == "fib"), "{}", ours.len());
    assert_eq!(timeline.diagnostics.count(K::LinesUnreadable), 0);
    assert_eq!(timeline.end.unwrap().at.0 + BEGAN, theirs.iter().map(|call| call.1).max().unwrap());
}

/// Lists of functions had no path before uftrace 0.10. They are of the file of their own name.
#[test]
fn a_list_without_a_path_is_of_the_file_of_its_name() {
    let mut packed = Vec::new();
    flate2::read::GzDecoder::new(&std::fs::read(fixture("t.data.tar.gz")).unwrap()[..])
        .read_to_end(&mut packed)
        .unwrap();
    // The same length, so that the archive stays whole.
    let path = memchr::memmem::find(&packed, b"# path name: ").unwrap();
    packed[path..path + 13].copy_from_slice(b"# xxxx xxxx: ");
    let older = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("uftrace-older-{}.tar", std::process::id()));
    std::fs::write(&older, packed).unwrap();
    let calls = |timeline: &Timeline| {
        let calls = timeline.spans.iter().filter(|(_, span)| span.kind == SpanKind::Call);
        calls.map(|(_, span)| (span.start, timeline.names.get(span.name).to_owned())).collect::<Vec<_>>()
    };
    let found = calls(&imported_from(&[older], "older"));
    assert!(found.iter().any(|call| call.1 == "fib") && found == calls(&imported("newer")), "{found:?}");
}

/// A program's trace alone has nothing to say of the machine's boot before it. With a kernel's log it has its place in it.
#[test]
fn a_trace_begins_with_its_session_or_has_its_place_in_a_boot() {
    let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("uftrace-{}.log", std::process::id()));
    std::fs::write(&log, "[    0.000000] Linux version 6.1.0\n[    1.000000] Run /sbin/init as init process\n")
        .unwrap();
    let main = |timeline: &Timeline| {
        let mut calls = timeline.spans.iter().map(|(_, span)| span).filter(|span| span.kind == SpanKind::Call);
        calls.find(|span| timeline.names.get(span.name) == "main").unwrap().start.0
    };
    assert_eq!(main(&imported_from(&[fixture("t.data.tar.gz"), log], "beside")), BEGAN + 38_758);
    let alone = imported("alone");
    assert_eq!((main(&alone), alone.boundaries.len()), (38_758, 1));
}

#[test]
fn a_child_is_forked_by_its_parent_and_has_its_program() {
    let timeline = imported("child");
    let [main, child] = [19_674, 19_678].map(|tid| timeline.tracks.find(TrackKind::Thread, tid).unwrap());
    let created = timeline.tracks.get(child).created.unwrap();
    assert_eq!((created.0, created.1), (Ns(29_518_145_734_309 - BEGAN), main));
    assert_eq!(timeline.names.get(timeline.tracks.get(child).name), "t");
}

#[test]
fn other_files_with_these_names_are_not_recognised() {
    let mut diagnostics = Diagnostics::default();
    assert!(evidence::uftrace::stamps("1.dat", b"PERFILE2PERFILE2", &mut diagnostics).is_empty());
    let found = evidence::recognise(b"# symbols: 3\n");
    assert!(found.kinds.is_empty(), "{found:?}");
}
