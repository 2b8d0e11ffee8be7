//! Cost of an operation for growing numbers of segments, and illumos bug 12262 at its full size: `cargo bench -p vmem`. The
//! ratios matter; the times depend on the machine. Exit status 1 if a ratio exceeds its bound.
//!
//! An operation is an allocation or a free. Every second segment of the arena is free, in sizes of 1 to 8 pages.
//! *held*: 128 further segments are replaced in random order, in an arena of any size. This is the cost of the algorithm.
//! *anywhere*: any segment is replaced, so that the cache misses of a larger arena count too. This has no bound.

#[path = "../tests/load/mod.rs"]
mod load;

use load::{BUFFERS, PUBLISHED, Update, start_and_stop};
use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;
use vmem::{Arena, Bucket, Request, Tag};

const PAGE: u64 = 4096;
const OPERATIONS: usize = 1 << 20;
const ROUNDS: usize = 7;
const HELD: usize = 128;
/// Bound on the cost of an operation with 10⁶ segments, relative to 10³.
const MAX_GROWTH: f64 = 1.3;
/// Bound on the number of chain steps with late updates, relative to early updates.
const MIN_LATE_BY_EARLY: f64 = 1e5;

/// Marsaglia's xorshift64.
fn random(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 8) as usize
}

fn pages(state: &mut u64) -> u64 {
    (1 + random(state) % 8) as u64 * PAGE
}

type Held = Vec<(u64, u64)>;

/// An arena with this number of segments, and the allocated ones among them.
fn arena(segments: usize) -> (Arena<'static>, Held) {
    let mut arena = Arena::new(PAGE).expect("a power of two");
    arena.add_tags(vec![Tag::new(); segments + 4 * HELD + 64].leak()).expect("the first piece");
    arena.add(1 << 40, 1 << 45).expect("the first span");
    let mut state = 0x9e37_79b9_7f4a_7c15;
    let mut take = |_| {
        let size = pages(&mut state);
        (arena.allocate(&Request::new(size)).expect("space"), size)
    };
    let (mut kept, mut freed): (Held, Held) = ((0..segments / 2).map(|n| (take(n), take(n)))).unzip();
    let table = arena.wanted_buckets().map(|buckets| vec![Bucket::new(); buckets].leak());
    arena.update(table.map(|table| &mut table[..]));
    // In random order, so that neighbours on a list are far apart.
    let count = freed.len();
    (0..count).for_each(|place| freed.swap(place, random(&mut state) % count));
    freed.into_iter().for_each(|(address, size)| arena.free(address, size).expect("allocated"));
    kept.extend((0..HELD).map(|_| {
        let size = pages(&mut state);
        (arena.allocate(&Request::new(size)).expect("space"), size)
    }));
    (arena, kept)
}

/// Replaces held segments at index `from` and above. Returns nanoseconds per operation.
fn replace(arena: &mut Arena, held: &mut Held, from: usize) -> f64 {
    let mut state = 0x2545_f491_4f6c_dd1d;
    let began = Instant::now();
    for _ in 0..OPERATIONS / 2 {
        let place = from + random(&mut state) % (held.len() - from);
        let (address, size) = held[place];
        arena.free(address, size).expect("allocated");
        let size = pages(&mut state);
        held[place] = (black_box(arena.allocate(&Request::new(size)).expect("space")), size);
    }
    began.elapsed().as_nanos() as f64 / OPERATIONS as f64
}

/// The shortest of several rounds, because disturbances only add time.
fn best(mut round: impl FnMut() -> f64) -> f64 {
    (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min)
}

fn main() -> ExitCode {
    let growth = instant_fit();
    let ratio = late_by_early();
    let kept = growth <= MAX_GROWTH && ratio >= MIN_LATE_BY_EARLY;
    println!(
        "promised: growth at most {MAX_GROWTH}, late / early at least {MIN_LATE_BY_EARLY:e}: {}",
        if kept { "kept" } else { "NOT KEPT" }
    );
    if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn instant_fit() -> f64 {
    println!("one operation of instant fit, in ns; best of {ROUNDS} rounds");
    println!("{:>10} {:>8} {:>10} {:>14} {:>14}", "segments", "held", "anywhere", "search / alloc", "lookup / free");
    let mut made: Vec<_> = [1_000, 10_000, 100_000, 1_000_000].map(|segments| (segments, arena(segments))).into();
    // All sizes in each round, so that a disturbance hits all of them.
    let mut held_ns = [f64::INFINITY; 4];
    for _ in 0..ROUNDS {
        for ((_, (arena, held)), ns) in made.iter_mut().zip(&mut held_ns) {
            let from = held.len() - HELD;
            *ns = ns.min(replace(arena, held, from));
        }
    }
    for ((segments, (arena, held)), ns) in made.iter_mut().zip(held_ns) {
        let before = arena.counters().clone();
        let anywhere = best(|| replace(arena, held, 0));
        let after = arena.counters();
        let search = (after.search - before.search) as f64 / (after.alloc - before.alloc) as f64;
        let lookup = (after.lookup - before.lookup) as f64 / (after.free - before.free) as f64;
        println!("{segments:>10} {ns:>8.1} {anywhere:>10.1} {search:>14.3} {lookup:>14.3}");
    }
    let growth = held_ns[3] / held_ns[0];
    println!("10^3 to 10^6 segments: held x {growth:.2}");
    growth
}

fn late_by_early() -> f64 {
    println!("chain steps while {BUFFERS} buffers are freed (published: {} late, {} early)", PUBLISHED.0, PUBLISHED.1);
    let early = start_and_stop(256, Update::Every(50_000));
    println!(
        "early {:>15} ({:.3} of the published), {} buckets",
        early.steps,
        early.steps as f64 / PUBLISHED.1 as f64,
        early.buckets
    );
    let began = Instant::now();
    let late = start_and_stop(256, Update::Late);
    let took_s = began.elapsed().as_secs();
    println!(
        "late  {:>15} ({:.4} of the published), {} buckets, {took_s} s",
        late.steps,
        late.steps as f64 / PUBLISHED.0 as f64,
        late.buckets
    );
    let ratio = late.steps as f64 / early.steps as f64;
    println!("late / early: {ratio:.3e}; published: {:.3e}", PUBLISHED.0 as f64 / PUBLISHED.1 as f64);
    ratio
}
