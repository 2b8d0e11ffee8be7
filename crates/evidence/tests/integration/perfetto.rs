//! The kernel's events in a Perfetto trace, against the kernel's own text of the same events. The traces were written by Perfetto's own
//! schema (the package `perfetto` of PyPI) from the text beside `trace.dat`.

use evidence::ftrace::{Event, Record, Trace};
use evidence::perfetto;
use proptest::prelude::*;
use std::collections::HashSet;
use std::io::Read;
use std::path::Path;
use timeline::{DiagnosticKind as K, Diagnostics};

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
