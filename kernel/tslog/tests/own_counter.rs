//! A kernel that brings its own counter, as on an architecture for which tslog has none.

use std::sync::atomic::{AtomicU64, Ordering};
use tslog::layout::TicksSource;
use tslog::{Head, Slot};

struct Kernel;

static TICKS: AtomicU64 = AtomicU64::new(100);

impl tslog::Kernel for Kernel {
    fn thread() -> u64 {
        3
    }

    const COUNTER: Option<fn() -> u64> = Some(|| TICKS.fetch_add(10, Ordering::Relaxed));
}

tslog::kernel!(Kernel);

#[test]
fn its_ticks_are_recorded_and_the_header_says_so() {
    tslog::start!(records = 4, arena_bytes = 0);
    tslog::set_ticks_hz(1000);
    tslog::enter!();
    tslog::exit!();
    let log = tslog::log().expect("it was started");
    let ticks = |slot| match log.slot(slot) {
        Slot::Whole(entry) => (entry.thread, entry.ticks),
        other => panic!("{other:?}"),
    };
    assert_eq!((ticks(0), ticks(1)), ((3, 100), (3, 110)));
    // SAFETY: a log has `log.bytes()` bytes, and no thread writes into it now.
    let bytes = unsafe { std::slice::from_raw_parts(log.base().cast().as_ptr(), log.bytes()) };
    let head = Head::parse(bytes).expect("a header");
    assert_eq!((head.ticks_source, head.ticks_hz), (TicksSource::Own, Some(1000)));
}
