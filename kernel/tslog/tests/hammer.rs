//! Eight threads fill a log, round after round, while a ninth reads it. No record is lost, torn or duplicated, and records
//! that find no slot are counted.
//!
//! Without an argument it runs two rounds; `cargo test -p tslog --release --test hammer -- 1000000000` makes 10⁹ records.
//! It has no test harness, because a harness's threads would confuse a sanitizer.

use std::alloc::{Layout, alloc};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tslog::layout::{HEADER_BYTES, RECORD_BYTES, TicksSource};
use tslog::{Counts, Entry, Kind, Log, Name, Slot};

const THREADS: u64 = 8;
/// A multiple of 8, so that padding does not become another record.
const CAPACITY: u64 = 1 << 20;
/// Number of records that each thread writes beyond the log's capacity.
const TOO_MANY: u64 = 100;

/// Memory for a log, once for all rounds.
fn memory() -> (NonNull<u8>, usize) {
    let bytes = HEADER_BYTES + CAPACITY as usize * RECORD_BYTES;
    let layout = Layout::from_size_align(bytes, 64).expect("a power of two");
    // SAFETY: the length is not 0.
    (NonNull::new(unsafe { alloc(layout) }).expect("40 MiB"), bytes)
}

/// The n-th record of a thread. Each field follows from thread and n, so that a mix of two records shows.
fn nth(thread: u64, n: u64) -> Entry {
    const NAMES: [&str; 4] = ["hammer_time", "mi_startup", "DELAY", "vfs_mountroot"];
    let mixed = (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ thread.wrapping_mul(0xd6e8_feb8_6659_fd93)) >> 56;
    let name = |n: u64| Name::from(NAMES[n as usize % 4]);
    let kind = [Kind::Enter, Kind::Exit, Kind::Thread, Kind::Event][(mixed >> 4) as usize % 4];
    Entry { ticks: n, thread, kind, name: name(mixed), detail: name(mixed >> 2) }
}

fn check_one(slot: Slot) -> Option<Entry> {
    match slot {
        Slot::Whole(entry) => {
            assert_eq!(entry, nth(entry.thread, entry.ticks), "torn");
            Some(entry)
        }
        Slot::HalfWritten => None,
        Slot::Malformed => panic!("torn"),
    }
}

/// Reads the latest slots again and again until the writers are done. Returns the number of half-written slots it met.
fn read_along(log: Log, done: &AtomicBool) -> u64 {
    let mut half_written = 0;
    while !done.load(Ordering::Relaxed) {
        // Writers are at work on the latest slots.
        let reserved = log.counts().reserved;
        for slot in reserved.saturating_sub(256)..reserved {
            half_written += u64::from(check_one(log.slot(slot)).is_none());
        }
    }
    half_written
}

fn round(log: Log) -> u64 {
    let done = AtomicBool::new(false);
    let half_written = std::thread::scope(|threads| {
        let reader = threads.spawn(|| read_along(log, &done));
        let write_all = move |thread| {
            for n in 0..CAPACITY / THREADS + TOO_MANY {
                // SAFETY: the names are literals.
                unsafe { log.write(nth(thread, n).to_words()) };
            }
        };
        let writer = |thread| move || write_all(thread);
        let writers: Vec<_> = (0..THREADS).map(|thread| threads.spawn(writer(thread))).collect();
        writers.into_iter().for_each(|writer| writer.join().expect("a writer does not panic"));
        done.store(true, Ordering::Relaxed);
        reader.join().expect("nothing torn")
    });
    let expected = Counts { reserved: CAPACITY, dropped: THREADS * TOO_MANY, ..Counts::default() };
    assert_eq!(log.counts(), expected);
    let mut next = [0; THREADS as usize];
    for slot in 0..CAPACITY {
        let entry = check_one(log.slot(slot)).unwrap_or_else(|| panic!("slot {slot} is lost"));
        let next = &mut next[entry.thread as usize];
        assert_eq!(entry.ticks, *next, "slot {slot}: lost, or there twice");
        *next += 1;
    }
    half_written
}

fn hammer(records: u64) {
    let (memory, bytes) = memory();
    let (from, rounds) = (Instant::now(), records.div_ceil(CAPACITY));
    let mut half_written = 0;
    for _ in 0..rounds {
        // SAFETY: the memory is never freed, and the last round's threads have ended.
        let log = unsafe { Log::start_in(memory, bytes, 0, TicksSource::Unknown) };
        half_written += round(log.expect("it is aligned and large enough"));
    }
    let (made, dropped) = (rounds * CAPACITY, rounds * THREADS * TOO_MANY);
    println!(
        "{made} records whole, {dropped} dropped and counted, {half_written} seen half-written, {:?}",
        from.elapsed()
    );
}

fn main() {
    // Skips the options of a test harness, such as --test-threads.
    let records = std::env::args().find_map(|argument| argument.parse().ok());
    hammer(records.unwrap_or(2 * CAPACITY));
}
