use super::*;
use plugin_formats::exits::read_header;
use plugin_formats::{Bytes, Clock};

fn start() -> Start {
    Start { clock: Clock::Virtual, api: 1, vcpus: 1, zero_host_ns: 0, install_host_ns: 0, target: *b"x86_64\0\0" }
}

/// The records that are written for these calls.
fn records(name: &str, limits: Limits, count: impl FnOnce(&mut Exits)) -> Vec<Record> {
    let path = std::env::temp_dir().join(format!("bootscope-exits-{}-{name}", std::process::id()));
    let mut exits = Exits::new(File::create(&path).expect("a file in the temporary folder"), &start(), limits);
    count(&mut exits);
    exits.finish(99);
    let bytes = std::fs::read(&path).expect("the file");
    std::fs::remove_file(path).expect("removed");
    assert_eq!(read_header(&bytes), Ok(start()));
    let (mut from, mut stream) = (Bytes::new(&bytes[HEADER_BYTES..]), Stream::default());
    let mut records = Vec::new();
    while !from.is_at_end() {
        records.push(stream.read(&mut from).expect("a whole record"));
    }
    records
}

fn row(insn: u64, kind: Kind) -> Row {
    Row { kind, insn, node: 0, place: None }
}

#[test]
fn accesses_of_a_row_at_one_time_are_one_run() {
    let [a, b] = [row(0x10, Kind::PortWrite), row(0x20, Kind::FirstTouch)];
    let found = records("runs", LIMITS, |exits| {
        for (row, at_ns) in [(a, 1), (a, 1), (b, 1), (a, 1), (a, 7), (b, 1)] {
            exits.count(row, at_ns, 0, false);
        }
    });
    let run = |row, at_ns, all| Record::Run { row, at_ns, counts: Counts { all, in_waits: 0 } };
    let expected =
        [Record::Row(a), Record::Row(b), run(0, 1, 3), run(0, 7, 1), run(1, 1, 2), Record::Exit { at_ns: 99 }];
    assert_eq!(found, expected);
}

#[test]
fn a_wait_is_told_from_other_accesses_of_its_row() {
    let clock = row(0x10, Kind::ClockRead);
    let found = records("waits", LIMITS, |exits| {
        exits.count(clock, 1, 0, true);
        exits.count(row(0x20, Kind::MsrRead), 1, 0, false);
        (0..100).for_each(|memory| exits.count(clock, 1, memory, true));
    });
    let counts = Counts { all: 101, in_waits: 100 };
    assert!(found.contains(&Record::Run { row: 0, at_ns: 1, counts }), "{found:?}");
}

/// A guest that accesses random addresses: memory and the file stay within their limits, and every access is counted.
#[test]
fn any_guest_is_bounded() {
    const ACCESSES: u64 = 300_000;
    let limits = Limits { rows: 1000, run_bytes: 10_000 };
    let mut seed = 1_u64;
    let found = records("bounded", limits, |exits| {
        for i in 0..ACCESSES {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let place = Some(seed >> 20 & 0xfff);
            exits.count(Row { place, ..row(0x10, Kind::MmioWrite) }, i, 0, false);
        }
        assert!(exits.rows.len() == 1000 && exits.numbers.len() == 1000);
    });
    assert!(found.len() < 1000 + 10_000 / 4 + 1000 + 2, "{}", found.len());
    let count = |record: &Record| match *record {
        Record::Run { counts, .. } | Record::Late { counts, .. } => counts.all,
        Record::Rest { count, .. } => count,
        _ => 0,
    };
    assert_eq!(found.iter().map(count).sum::<u64>(), ACCESSES);
    assert!(found.iter().any(|record| matches!(record, Record::Late { .. })));
    assert!(found.iter().any(|record| matches!(record, Record::Rest { kind: Kind::MmioWrite, .. })));
}

#[test]
fn a_full_disk_ends_the_output_only() {
    let full = File::options().write(true).open("/dev/full").expect("/dev/full");
    let mut exits = Exits::new(full, &start(), LIMITS);
    for i in 0..100_000 {
        exits.count(row(i, Kind::Cpuid), i, 0, false);
    }
    exits.finish(0);
    assert!(exits.out.is_none() && exits.rows.len() < 100_000);
}
