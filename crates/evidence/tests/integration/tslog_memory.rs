//! A log that the recorder left in memory, read from an image of that memory.

use evidence::tslog::{Counter, Log, build};
use timeline::{DiagnosticKind, Diagnostics, Ns, TimeBase, Timeline, Warning};
use tslog::layout::{HEADER_BYTES, TicksSource};
use tslog::{Entry, Kind, Name, Region};

static REGION: Region<8, 256> = Region::new();

/// The image's first physical address.
const BEGIN: u64 = 0x10_0000;
/// The log's offset in the image.
const AT: usize = 4096;

/// Makes memory with a log in it: eight records, two that did not fit, and a name outside the log.
fn image() -> Vec<u8> {
    let log = tslog::Log::start(&REGION, TicksSource::Tsc);
    let outside = "SYSINIT";
    let copied = |text| log.copy(text);
    let names = [
        (Kind::Enter, copied("mi_startup"), Name::NONE),
        (Kind::Enter, Name::from(outside), copied("cpu")),
        (Kind::Exit, Name::from(outside), copied("cpu")),
        (Kind::Exit, copied("mi_startup"), Name::NONE),
        (Kind::Enter, copied("start_init"), Name::NONE),
        (Kind::Exit, copied("start_init"), Name::NONE),
        (Kind::Event, copied("a.rs"), copied("12")),
        (Kind::Event, copied("b.rs"), copied("13")),
        (Kind::Event, copied("late"), Name::NONE),
        (Kind::Event, copied("later"), Name::NONE),
    ];
    for (i, (kind, name, detail)) in (0u64..).zip(names) {
        let entry = Entry { ticks: 1000 + 2000 * i, thread: 16, kind, name, detail };
        // SAFETY: the names are literals, or in the log.
        unsafe { log.write(entry.to_words()) };
    }
    log.set_ticks_hz(2_000_000_000);
    let virt = log.base().addr().get() as u64;
    assert!(log.add_range(virt, BEGIN + AT as u64, log.bytes() as u64));
    assert!(log.add_range(Name::from(outside).address(), BEGIN + 64, outside.len() as u64));
    // SAFETY: the log has this length, is initialised, and is no longer written.
    let region = unsafe { std::slice::from_raw_parts(log.base().cast().as_ptr(), log.bytes()) };
    let mut image = vec![0; AT];
    image[64..64 + outside.len()].copy_from_slice(outside.as_bytes());
    image.extend_from_slice(region);
    image
}

#[test]
fn a_log_in_memory_is_read() {
    let image = image();
    let mut timeline = Timeline::new(TimeBase::Evidence);
    let mut log = Log::default();
    assert_eq!(log.read_memory("tslog.bin", &image, &mut timeline.diagnostics), 10, "eight records and two notes");
    build(log, Counter::Unknown, &mut timeline);
    timeline.finalize(Ns::ZERO);
    assert_eq!((timeline.clocks[0].hz, timeline.end.unwrap().at), (2e9, Ns(5_000)));
    let name = |id| timeline.names.get(id);
    let spans: Vec<_> =
        timeline.spans.iter().map(|(_, s)| (name(s.name), name(s.detail), s.start.0, s.end.0)).collect();
    assert_eq!(
        spans,
        [("mi_startup", "", 0, 3_000), ("SYSINIT", "cpu", 1_000, 2_000), ("start_init", "", 4_000, 5_000)]
    );
    assert_eq!(timeline.warnings, [Warning::LogRecordsDropped { records: 2 }]);
    assert_eq!(timeline.tracks.len(), 1, "the notes are nobody's");
    assert!(timeline.diagnostics.is_empty(), "{:?}", timeline.diagnostics);

    // The log alone, without the memory around it: only the name outside is missing.
    let mut alone = Timeline::new(TimeBase::Evidence);
    let mut log = Log::default();
    log.read_memory("tslog.bin", &image[AT..], &mut alone.diagnostics);
    assert_eq!(alone.diagnostics.count(DiagnosticKind::TslogNameUnresolved), 2);
    build(log, Counter::Unknown, &mut alone);
    assert_eq!(alone.spans.len(), 3);
    assert!(evidence::recognise(&image).kinds[0].starts_with("TSLOG in an image of memory"));
    assert_eq!(evidence::recognise(&[0; 8192]), evidence::Recognised::default());
    // An image may begin with any bytes.
    let noise: Vec<u8> = (0..AT).map(|i| (i * 31 % 251) as u8 | 1).collect();
    assert!(evidence::recognise(&[noise, image].concat()).of_a_boot);
}

/// An older boot's header claims one more record, but its records were cleared.
#[test]
fn the_header_with_more_whole_records_is_used() {
    static OLD: Region<100, 0> = Region::new();
    let old = tslog::Log::start(&OLD, TicksSource::Tsc);
    for _ in 0..9 {
        let entry = Entry { ticks: 1, thread: 1, kind: Kind::Event, name: Name::NONE, detail: Name::NONE };
        // SAFETY: it has no names.
        unsafe { old.write(entry.to_words()) };
    }
    // SAFETY: the log has this length, is initialised, and is no longer written.
    let stale = unsafe { std::slice::from_raw_parts(old.base().cast::<u8>().as_ptr(), old.bytes()) };
    for at in [0, 8192] {
        let mut image = image();
        image.resize(16384, 0);
        image[at..at + HEADER_BYTES].copy_from_slice(&stale[..HEADER_BYTES]);
        let mut diagnostics = Diagnostics::default();
        assert_eq!(Log::default().read_memory("tslog.bin", &image, &mut diagnostics), 10, "at {at}");
        assert_eq!(diagnostics.count(DiagnosticKind::TslogOtherHeaders), 1);
    }
}

/// One long name that each record has twice: the printed text stays in proportion to the image.
#[test]
fn a_name_printed_many_times_does_not_fill_memory() {
    static REGION: Region<3000, 1024> = Region::new();
    let log = tslog::Log::start(&REGION, TicksSource::Tsc);
    let name = log.copy(&"x".repeat(1024));
    for ticks in 0..3000 {
        let entry = Entry { ticks, thread: 16, kind: Kind::Event, name, detail: name };
        // SAFETY: the name is in the log.
        unsafe { log.write(entry.to_words()) };
    }
    // SAFETY: the log has this length, is initialised, and is no longer written.
    let image = unsafe { std::slice::from_raw_parts(log.base().cast::<u8>().as_ptr(), log.bytes()) };
    let mut diagnostics = Diagnostics::default();
    assert_eq!(Log::default().read_memory("tslog.bin", image, &mut diagnostics), 3000);
    let left_out = diagnostics.count(DiagnosticKind::TslogNameBeyondImage);
    assert_eq!(left_out, 6000 - (4 * image.len() as u64 + (1 << 20)) / 1024);
}
