//! The machine's counter, as it is in the log. It never steps back in a thread, and the events of threads that take turns
//! are in order. If the architecture declares the counter's rate, the counter runs at that rate.
//!
//! Under an emulator this shows which register is read, and its rate. It cannot show how early a processor reads its counter
//! relative to earlier instructions: an emulator executes one instruction after the other.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tslog::layout::TicksSource;
use tslog::{Head, Log, Slot};

tslog::kernel!(thread = || TURN.load(Ordering::Relaxed) % 2);

static TURN: AtomicU64 = AtomicU64::new(0);

/// Few turns: on a busy machine each turn waits for the other thread's time slice.
const TURNS: u64 = 400;
const RATE_EVENTS: u64 = 2;

fn ticks(log: Log, slot: u64) -> u64 {
    match log.slot(slot) {
        Slot::Whole(entry) => entry.ticks,
        other => panic!("slot {slot}: {other:?}"),
    }
}

fn head(log: Log) -> Head {
    // SAFETY: a log has `log.bytes()` bytes, and no thread writes into it now.
    let bytes = unsafe { std::slice::from_raw_parts(log.base().cast().as_ptr(), log.bytes()) };
    Head::parse(bytes).expect("a header")
}

/// Records an event between two readings of the operating system's clock.
fn timed_event() -> [Instant; 2] {
    let before = Instant::now();
    tslog::event!("rate");
    [before, Instant::now()]
}

/// Checks the counter's rate against the operating system's clock, which may be slewed meanwhile, by at most 500 ppm.
fn check_rate(log: Log, first: [Instant; 2], last: [Instant; 2]) {
    let Some(hz) = head(log).ticks_hz else {
        assert_ne!(std::env::consts::ARCH, "aarch64", "it has a register that says it");
        return;
    };
    let seconds = (ticks(log, 1) - ticks(log, 0)) as f64 / hz as f64;
    let (shortest, longest) = (last[0] - first[1], last[1] - first[0]);
    println!("{hz} Hz: {seconds} s between two events, {shortest:?} to {longest:?} by the operating system");
    let tick = 1.0 / hz as f64;
    assert!(seconds >= shortest.as_secs_f64() * 0.9995 - tick);
    assert!(seconds <= longest.as_secs_f64() * 1.0005 + tick);
}

fn take_turns(me: u64) {
    for _ in 0..TURNS / 2 {
        while TURN.load(Ordering::Acquire) % 2 != me {
            std::thread::yield_now();
        }
        tslog::event!("turn");
        TURN.fetch_add(1, Ordering::Release);
    }
}

#[test]
fn it_goes_on_at_its_rate_and_in_order() {
    tslog::start!(records = (TURNS + RATE_EVENTS) as usize, arena_bytes = 0);
    let log = tslog::log().expect("it was started");
    let first = timed_event();
    std::thread::sleep(Duration::from_millis(50));
    let last = timed_event();
    std::thread::scope(|threads| {
        for me in [0, 1] {
            threads.spawn(move || take_turns(me));
        }
    });

    let expected = if cfg!(target_arch = "aarch64") { TicksSource::Cntvct } else { TicksSource::Tsc };
    assert!(cfg!(target_arch = "riscv64") || head(log).ticks_source == expected);
    check_rate(log, first, last);
    let all: Vec<u64> = (RATE_EVENTS..RATE_EVENTS + TURNS).map(|slot| ticks(log, slot)).collect();
    assert!(all.windows(3).all(|turn| turn[0] <= turn[2]), "it steps back in a thread");
    // It steps back between two threads by at most a microsecond, because it is read without a fence.
    let back = all.windows(2).map(|turn| turn[0].saturating_sub(turn[1])).max();
    let max_back = head(log).ticks_hz.map_or(5_000, |hz| hz / 1_000_000);
    println!("{TURNS} turns of two threads: a turn is stamped up to {back:?} ticks before the one that it follows");
    assert!(back <= Some(max_back), "{back:?} ticks, of {max_back} allowed");
}
