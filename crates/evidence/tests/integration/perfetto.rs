//! The kernel's events in a Perfetto trace, against the kernel's own text of the same events. The traces were written by Perfetto's own
//! schema (the package `perfetto` of PyPI) from the text beside `trace.dat`.

use evidence::ftrace::{Event, Record, Trace};
use evidence::perfetto;
use proptest::prelude::*;
use std::collections::HashSet;
use std::io::Read;
use std::path::Path;
use timeline::{DiagnosticKind as K, Diagnostics, EndEvidence, Ns, Timeline};

fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(&std::fs::read(path).unwrap()[..]).read_to_end(&mut bytes).unwrap();
    bytes
}

fn records(text: &[u8]) -> Vec<Record<'_>> {
    Trace::read("t", text, &mut Diagnostics::default()).unwrap().records().collect()
}

/// The events that the traces have.
fn is_kept(event: &Event<'_>) -> bool {
    use Event::{Console, Exec, Exit, Fork, Level, NewTask, Switch, Wakeup, WakeupNew, Waking};
    matches!(
        event,
        Console(_)
            | Exec { .. }
            | Exit(_)
            | Fork { .. }
            | Level(_)
            | NewTask { .. }
            | Switch { .. }
            | Waking(_)
            | Wakeup(_)
            | WakeupNew(_)
    )
}

fn kernels(text: &[u8]) -> Vec<Record<'_>> {
    records(text).into_iter().filter(|record| is_kept(&record.event)).collect()
}

#[test]
fn a_boots_events_equal_the_kernels() {
    let mut diagnostics = Diagnostics::default();
    let bytes = fixture("perfetto/boot.pftrace.gz");
    assert_eq!(evidence::recognise(&bytes).kinds, ["kernel trace (Perfetto)"]);
    let text = perfetto::text("t", &bytes, &mut diagnostics);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    let kernels_text = fixture("trace-dat/boot.txt.gz");
    let (ours, kernels) = (records(&text), kernels(&kernels_text));
    assert_eq!(ours.len(), 1500);
    for (our, kernel) in ours.iter().zip(&kernels) {
        assert_eq!((our.ticks, our.pid, our.cpu, our.event), (kernel.ticks, kernel.pid, kernel.cpu, kernel.event));
    }
}

/// Columns lack the thread that a CPU's first switch stops. A thread that a switch stops has the name with which it began to run.
#[test]
fn columns_say_the_same() {
    let mut diagnostics = Diagnostics::default();
    let bytes = fixture("perfetto/compact-compressed.pftrace.gz");
    let text = perfetto::text("t", &bytes, &mut diagnostics);
    let whole = perfetto::text("t", &fixture("perfetto/boot.pftrace.gz"), &mut Diagnostics::default());
    let is_sched = |record: &Record<'_>| matches!(record.event, Event::Switch { .. } | Event::Waking(_));
    let whole: Vec<Record> = records(&whole).into_iter().filter(is_sched).collect();
    let columns = records(&text);
    let lost = diagnostics.count(K::TraceEventDamaged) as usize;
    assert!((1..20).contains(&lost) && columns.len() + lost == whole.len(), "{lost} {}", columns.len());
    // The text's stamps are whole microseconds: of a switch and a wake-up with one stamp, either may be the first.
    let switches: HashSet<(u64, u32)> =
        whole.iter().filter(|r| matches!(r.event, Event::Switch { .. })).map(|r| (r.ticks.0, r.cpu)).collect();
    let without_name = |record: &Record<'_>| {
        let event = match record.event {
            Event::Switch { prev, state, next } => (Some((prev.pid, state.to_vec())), next.comm.to_vec(), next.pid),
            Event::Waking(task) => (None, task.comm.to_vec(), task.pid),
            _ => unreachable!("both kinds of event are above"),
        };
        let is_tied = switches.contains(&(record.ticks.0, record.cpu));
        let by = (!is_tied).then_some(record.pid);
        (record.ticks.0, record.cpu, by, event)
    };
    let mut rest: Vec<_> = whole.iter().map(without_name).collect();
    for column in &columns {
        let place = rest.iter().position(|record| *record == without_name(column));
        rest.remove(place.unwrap_or_else(|| panic!("{column:?}")));
    }
}

#[test]
fn its_threads_are_on_the_timeline() {
    let timeline = crate::imports::imported(&["perfetto/boot.pftrace.gz"]);
    assert_eq!(timeline.os.name(), "Linux");
    assert!(timeline.running.len() > 800, "{}", timeline.running.len());
    let migration = timeline.tracks.iter().any(|(_, track)| timeline.names.get(track.name) == "migration/1");
    assert!(migration && timeline.cpus_followed_until.is_none());
}

/// The slices of a track, each with its name, start and length.
fn slices(timeline: &Timeline, track: &str) -> Vec<(String, i64, i64)> {
    let name = |id| timeline.names.get(id).to_owned();
    let of_track = timeline.spans.iter().filter(|(_, span)| name(timeline.tracks.get(span.track).name) == track);
    of_track.map(|(_, span)| (name(span.name), span.start.0, span.length().0)).collect()
}

/// The trace was written by Perfetto's own schema. Its first event is at 2.50001 s.
#[test]
fn tracks_of_programs_are_read_on_each_clock_and_in_each_form() {
    let timeline = crate::imports::imported(&["perfetto/tracks.pftrace"]);
    let main = [("load", 0, 190_000), ("parse", 5_000, 20_000), ("parse", 125_000, 40_000)];
    assert_eq!(slices(&timeline, "main"), main.map(|(name, from, length)| (name.to_owned(), from, length)));
    assert_eq!(slices(&timeline, "request"), [("get".to_owned(), 40_000, 40_000)], "on CLOCK_MONOTONIC");
    assert_eq!(slices(&timeline, ""), [("paint".to_owned(), 17_000, 30_000)], "a whole slice of Chrome's");
    let marks: Vec<_> = timeline.marks.iter().map(|mark| (timeline.names.get(mark.name), mark.at)).collect();
    assert_eq!(marks, [("ready", Ns(193_000))]);
    assert_eq!((analysis::total(&timeline), timeline.end.unwrap().evidence), (Ns(190_000), EndEvidence::TracksEnd));
    let count = |kind| timeline.diagnostics.count(kind);
    assert_eq!((count(K::TrackEventsUnread), count(K::TraceEventDamaged)), (1, 1), "a counter, an unknown clock");
}

#[test]
fn tracks_lie_beside_the_kernels_events_of_the_same_trace() {
    let mut both = fixture("perfetto/boot.pftrace.gz");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/perfetto/tracks.pftrace");
    both.extend(std::fs::read(path).unwrap());
    assert_eq!(evidence::recognise(&both).kinds, ["kernel trace (Perfetto)", "tracks (Perfetto)"]);
    let timeline = imported_bytes(both);
    let zero = timeline.clocks.iter().find(|clock| clock.name == "printk").unwrap().to_ns(timeline::Ticks(0));
    let load = timeline.spans.iter().find(|(_, span)| timeline.names.get(span.name) == "load").unwrap().1;
    assert_eq!((load.start - zero, load.length()), (Ns(2_500_010_000), Ns(190_000)));
    assert_eq!(timeline.tracks.get(load.track).id, 10, "the thread of that number");
}

#[test]
fn other_files_are_not_taken() {
    for bytes in
        [&b"\n\nLinux version 6.1\n"[..], b"\n\x00\n\x00", b"", b"\n\x05hello", b"\x0a\xff\xff\xff\xff\xff\xff"]
    {
        assert!(evidence::recognise(bytes).kinds.iter().all(|kind| !kind.contains("Perfetto")), "{bytes:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damage_is_read_as_far_as_it_goes(at in 0_usize..100_000, byte: u8, length in 0_usize..100_000) {
        let mut bytes = fixture("perfetto/boot.pftrace.gz");
        let (at, length) = (at % bytes.len(), length % bytes.len());
        bytes[at] = byte;
        bytes.truncate(bytes.len() - length);
        let text = perfetto::text("t", &bytes, &mut Diagnostics::default());
        if let Ok(trace) = Trace::read("t", &text, &mut Diagnostics::default()) {
            prop_assert!(trace.records().count() <= 1600);
        }
    }
}

fn imported_bytes(bytes: Vec<u8>) -> Timeline {
    let into = tempfile::TempDir::new().unwrap();
    let source = recording::Source { path: "a.pftrace".into(), bytes: Some(bytes), cut: false };
    let folder = into.path().join("r");
    recording::import_known(vec![source], &folder, false, recording::Known::default()).unwrap();
    evidence::load(&recording::Recording::open(&folder).unwrap()).unwrap()
}

/// The rows of the boot path with their self times, sorted by name.
fn rows(boot: &report::Boot<'_>) -> Vec<(String, Ns)> {
    let mut rows: Vec<(String, Ns)> =
        boot.tables().wheres.iter().map(|row| (row.name.clone(), row.self_time)).collect();
    rows.sort();
    rows
}

/// Time of calls that are too short to be spans is shared out over the rows of their caller, and has no place on a track.
#[test]
fn our_own_export_comes_back_as_it_went() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/kept");
    let files = std::fs::read_dir(kept).unwrap().map(|entry| entry.unwrap().path());
    let mut with_equal_rows = 0;
    for file in files.filter(|path| path.extension().is_some_and(|e| e == "zst")) {
        let loaded = evidence::read(&recording::Recording::open(&file).unwrap()).unwrap();
        let facts = report::Facts::default();
        let before = report::Boot::new(&loaded.timeline, &facts);
        if before.phases.is_empty() {
            continue;
        }
        let mut bytes = Vec::new();
        report::format("perfetto").unwrap().write(&before, &mut bytes).unwrap();
        let timeline = imported_bytes(bytes);
        let after = report::Boot::new(&timeline, &facts);
        let phases =
            |boot: &report::Boot<'_>| boot.phases.iter().map(|p| (p.name.clone(), p.start, p.end)).collect::<Vec<_>>();
        assert_eq!((before.total, phases(&before)), (after.total, phases(&after)), "{}", file.display());
        if analysis::Spread::new(&loaded.timeline).is_none() {
            assert_eq!(rows(&before), rows(&after), "{}", file.display());
            with_equal_rows += 1;
        }
    }
    assert!(with_equal_rows >= 5, "{with_equal_rows}");
}
