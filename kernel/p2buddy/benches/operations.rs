//! Cost of an operation for growing memory, and that of crates.io's `buddy_system_allocator` (the peer) on the same trace:
//! `cargo bench -p p2buddy`. Prints one table. The ratios matter; the times depend on the machine.
//!
//! Every held block has one reference: here in the frame's record, for the peer in an array beside it. There are two
//! traces. *held*: 1024 single frames or 256 mixed blocks are held, in memory of any size, and replaced in random order.
//! This is the cost of the algorithm. *half full*: half of memory is held in single frames and freed in random order. This
//! includes the cache misses of a larger memory.

use buddy_system_allocator::FrameAllocator;
use p2buddy::{Buddy, Record};
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

const OPERATIONS: usize = 1 << 20;
const ROUNDS: usize = 7;

/// An allocator of blocks of frames.
trait Frames {
    fn allocate(&mut self, order: usize) -> usize;
    fn free(&mut self, frame: usize, order: usize);
}

struct Ours<'a>(Buddy<'a>, &'a [Record]);

impl Frames for Ours<'_> {
    fn allocate(&mut self, order: usize) -> usize {
        let frame = self.0.allocate(order).expect("a block");
        self.1[frame].acquire();
        frame
    }

    fn free(&mut self, frame: usize, order: usize) {
        self.1[frame].release();
        self.0.free(frame, order).expect("an allocated block");
    }
}

/// The peer, with its usual 32 orders. With 11 orders, version 0.11 loses blocks when it merges two of the largest. The
/// kernel's reference counts lie beside it.
struct Theirs<'a>(FrameAllocator<32>, &'a [AtomicUsize]);

impl Frames for Theirs<'_> {
    fn allocate(&mut self, order: usize) -> usize {
        let frame = self.0.alloc(1 << order).expect("a block");
        self.1[frame].fetch_add(1, Relaxed);
        frame
    }

    fn free(&mut self, frame: usize, order: usize) {
        self.1[frame].fetch_sub(1, Relaxed);
        self.0.dealloc(frame, 1 << order);
    }
}

/// Marsaglia's xorshift64.
fn random(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 8) as usize
}

/// Nanoseconds per operation, with `hold` blocks held. The blocks are single frames; with `mixed`, a quarter are larger.
fn run(frames: &mut dyn Frames, hold: usize, mixed: bool) -> f64 {
    let mut state = 0x9e37_79b9_7f4a_7c15;
    let order = |state: &mut u64| if mixed { (random(state) % 16).saturating_sub(11) } else { 0 };
    let mut held: Vec<(usize, usize)> = Vec::with_capacity(hold);
    for _ in 0..hold {
        let order = order(&mut state);
        held.push((frames.allocate(order), order));
    }
    let began = Instant::now();
    for _ in 0..OPERATIONS / 2 {
        let place = random(&mut state) % hold;
        let (frame, order_before) = held[place];
        frames.free(frame, order_before);
        let order = order(&mut state);
        held[place] = (black_box(frames.allocate(order)), order);
    }
    let ns = began.elapsed().as_nanos() as f64 / OPERATIONS as f64;
    held.into_iter().for_each(|(frame, order)| frames.free(frame, order));
    ns
}

/// The shortest of several rounds, because disturbances only add time.
fn best(mut round: impl FnMut() -> f64) -> f64 {
    (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min)
}

fn records(frames: usize) -> Vec<Record> {
    (0..frames).map(|_| Record::new()).collect()
}

fn main() {
    println!("one operation (half allocate, half free), in ns; best of {ROUNDS} rounds");
    println!("{:>12} {:>10} {:>10} {:>12} {:>12} {:>12}", "frames", "held", "held", "held", "half full", "half full");
    println!("{:>12} {:>10} {:>10} {:>12} {:>12} {:>12}", "", "singles", "mixed", "mixed, peer", "singles", "peer");
    let mut first = None;
    for log2 in [12, 14, 16, 18, 20, 22] {
        let count = 1usize << log2;
        let records = records(count);
        let counts: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
        let mut ours = Ours(Buddy::new(&records, 0).unwrap(), &records);
        ours.0.add(0..count).unwrap();
        let mut theirs = Theirs(FrameAllocator::new(), &counts);
        theirs.0.add_frame(0, count);
        let singles = best(|| run(&mut ours, 1024, false));
        let mixed = best(|| run(&mut ours, 256, true));
        let mixed_peer = best(|| run(&mut theirs, 256, true));
        let half = best(|| run(&mut ours, count / 2, false));
        let half_peer = best(|| run(&mut theirs, count / 2, false));
        println!(
            "{:>12} {singles:>10.1} {mixed:>10.1} {mixed_peer:>12.1} {half:>12.1} {half_peer:>12.1}",
            format!("2^{log2}")
        );
        first.get_or_insert((singles, mixed));
        if log2 == 22 {
            let (few_singles, few_mixed) = first.expect("the first row");
            println!("2^12 to 2^22: singles x {:.2}, mixed x {:.2}", singles / few_singles, mixed / few_mixed);
        }
    }
    start_up();
}

/// Adds 64 GB in 20 ranges. The records are zeros that were written once, like a kernel's, so no page of them is missing.
fn start_up() {
    const FRAMES: usize = 1 << 24;
    let mut records = records(FRAMES);
    let mut touched = 0;
    let took_ns = best(|| {
        records.fill_with(Record::new);
        let began = Instant::now();
        let mut frames: Buddy = Buddy::new(&records, 0).unwrap();
        for range in 0..20 {
            let from = range * (FRAMES / 20);
            frames.add(from + 17..from + FRAMES / 20 - 33).unwrap();
        }
        black_box(&frames);
        let ns = began.elapsed().as_nanos() as f64;
        touched = records.iter().filter(|record| record.count() > 0 || record.word().load(Relaxed) > 0).count();
        ns
    });
    let share = 100.0 * touched as f64 / FRAMES as f64;
    println!(
        "start-up, 64 GB in 20 ranges: {:.0} us, {touched} of {FRAMES} records touched ({share:.2} %)",
        took_ns / 1e3
    );
}
