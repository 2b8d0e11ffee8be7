//! Loom tries every possible order of the memory operations of writers and a reader:
//! `RUSTFLAGS="--cfg loom" cargo test -p tslog --release --test loom`.
//!
//! The code is the recorder's `slots.rs`, with loom's atomics in place of the machine's. Loom returns old values from relaxed
//! loads, as weakly ordered machines do. If the `Release` in `fill` or the `Acquire` in `read` becomes `Relaxed`,
//! `a_reader_never_sees_a_torn_record` fails.
#![allow(unexpected_cfgs)]
#![cfg(loom)]

mod sync {
    pub use loom::sync::atomic::{AtomicU64, Ordering};
}

#[path = "../src/slots.rs"]
#[allow(dead_code)]
mod slots;

use loom::sync::Arc;
use loom::thread;
use slots::{Record, Slots, Words};
use sync::AtomicU64;

struct Memory {
    next: AtomicU64,
    records: Vec<Record>,
}

impl Memory {
    fn new(capacity: usize) -> Arc<Memory> {
        Arc::new(Memory { next: AtomicU64::new(0), records: (0..capacity).map(|_| Record::default()).collect() })
    }

    fn slots(&self) -> Slots<'_> {
        Slots { next: &self.next, records: &self.records }
    }

    fn requested(&self) -> u64 {
        self.next.load(sync::Ordering::Relaxed)
    }

    /// The ids of all whole records. Checks that all words of each record come from one writer.
    fn whole(&self) -> Vec<u64> {
        let slots = self.slots();
        let words = (0..slots.reserved()).filter_map(|slot| slots.read(slot));
        words.inspect(|words| assert_eq!(*words, record(words[4]), "torn")).map(|words| words[4]).collect()
    }
}

fn record(id: u64) -> Words {
    [id * 10, id * 100, id * 1000, id * 10_000, id]
}

fn write(slots: Slots, id: u64) {
    if let Some(slot) = slots.reserve() {
        slot.fill(record(id));
    }
}

fn writers(memory: &Arc<Memory>, ids: &[&'static [u64]]) -> Vec<thread::JoinHandle<()>> {
    let writer = |ids: &'static [u64]| {
        let memory = memory.clone();
        thread::spawn(move || ids.iter().for_each(|id| write(memory.slots(), *id)))
    };
    ids.iter().map(|ids| writer(ids)).collect()
}

#[test]
fn a_reader_never_sees_a_torn_record() {
    loom::model(|| {
        let memory = Memory::new(2);
        let writers = writers(&memory, &[&[1], &[2]]);
        assert!(memory.whole().len() <= 2);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        let mut whole = memory.whole();
        whole.sort();
        assert_eq!((whole, memory.requested()), (vec![1, 2], 2));
    });
}

#[test]
fn three_writers_lose_nothing_and_tear_nothing_under_a_reader() {
    // Three preemptions can separate any two operations. Without a bound this test takes more than three minutes.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let memory = Memory::new(3);
        let writers = writers(&memory, &[&[1], &[2], &[3]]);
        assert!(memory.whole().len() <= 3);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        let mut whole = memory.whole();
        whole.sort();
        assert_eq!((whole, memory.requested()), (vec![1, 2, 3], 3));
    });
}

#[test]
fn what_a_full_log_drops_is_counted() {
    loom::model(|| {
        let memory = Memory::new(2);
        let writers = writers(&memory, &[&[1, 2], &[3, 4]]);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        let whole = memory.whole();
        assert_eq!((whole.len(), memory.requested()), (2, 4));
        // The records of a thread are in its order, so the dropped ones are its last.
        let position = |id: u64| whole.iter().position(|whole_id| *whole_id == id);
        for (first, second) in [(1, 2), (3, 4)] {
            assert!(position(second).is_none() || position(first) < position(second));
            assert!(position(second).is_none() || position(first).is_some());
        }
    });
}

#[test]
fn an_interrupt_between_reserve_and_fill_is_harmless_to_a_reader_elsewhere() {
    loom::model(|| {
        let memory = Memory::new(2);
        let cpu = {
            let memory = memory.clone();
            thread::spawn(move || {
                let interrupted = memory.slots().reserve().unwrap();
                write(memory.slots(), 2);
                interrupted.fill(record(1));
            })
        };
        let seen = memory.whole();
        // [1] alone: the reader loaded the number of reserved slots before the interrupt.
        assert!([&[][..], &[2], &[1], &[1, 2]].contains(&seen.as_slice()), "{seen:?}");
        cpu.join().unwrap();
        assert_eq!(memory.whole(), [1, 2]);
    });
}
