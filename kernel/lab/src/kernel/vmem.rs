//! The kernel's addresses above the identity mapping: an arena of `kernel/vmem`, and the thread that adapts the size of its hash.
//!
//! Thread stacks, the disk cache and drivers' buffers get their addresses here. The caller maps them. The arena begins with tags
//! in the kernel's image. Whenever no tag is left, the number of tags is doubled from the heap.
//!
//! The thread acts 10 ms after the hash has become too small or too large. `vmem_rescale=late` starts it after all drivers have
//! attached, as illumos did, and `early` before that. `once` updates a single time that early, when the arena is almost empty,
//! and then starts the thread as `late` does.

use crate::paging::{KERNEL_ADDRESSES, KERNEL_BASE};
use crate::sysinit::{Subsystem, sysinit};
use crate::wait::Shared;
use crate::{boot, thread};
use alloc::boxed::Box;
use alloc::vec;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU64, Ordering};
use lab::memory_map::FRAME_BYTES;
use lab::switches::VmemRescale;
use vmem::{Arena, Bucket, Error, Request, Tag};

sysinit!(vmem_init, Subsystem::Kthreads, 8, init);
sysinit!(vmem_update, Subsystem::Smp, 1, late);

const PERIOD_NS: u64 = 10_000_000;
const FIRST_TAGS: usize = 64;

struct FirstTags(UnsafeCell<[Tag; FIRST_TAGS]>);

// SAFETY: only `start` uses the tags, and it runs once.
unsafe impl Sync for FirstTags {}

static TAGS: FirstTags = FirstTags(UnsafeCell::new([const { Tag::new() }; FIRST_TAGS]));

static ARENA: Shared<Arena<'static>> = Shared::new(match Arena::new(FRAME_BYTES) {
    Ok(arena) => arena,
    Err(_) => panic!("a frame's size is a power of two"),
});

/// Number of chain steps so far. A copy of the arena's counter with a symbol that debuggers can find and the compiler keeps.
#[used]
static CHAIN_STEPS: AtomicU64 = AtomicU64::new(0);

/// Starts the arena.
pub fn start() {
    // SAFETY: this runs once, before there is another CPU, and no other code uses the tags.
    let tags: &'static mut [Tag] = unsafe { &mut *TAGS.0.get() };
    let added = ARENA.change_unawaited(|arena| {
        arena.add_tags(tags)?;
        arena.add(KERNEL_BASE, KERNEL_ADDRESSES)
    });
    added.unwrap_or_else(|error| panic!("vmem::start: {error}"));
}

fn init() {
    match boot::switches().vmem_rescale {
        VmemRescale::Late => {}
        VmemRescale::Once => rescale(),
        VmemRescale::Early => start_updates(),
    }
}

fn late() {
    if boot::switches().vmem_rescale != VmemRescale::Early {
        start_updates();
    }
}

fn start_updates() {
    thread::create("vmem_update", update, 0);
}

fn update(_: usize) {
    loop {
        ARENA.wait_for(|arena| arena.wanted_buckets());
        thread::sleep_ns(PERIOD_NS);
        rescale();
    }
}

#[inline(never)]
fn rescale() {
    let _scope = tslog::scope!("vmem_hash_rescale");
    let wanted = ARENA.change_unawaited(|arena| arena.wanted_buckets());
    let table = wanted.map(|buckets| Box::leak(vec![Bucket::new(); buckets].into_boxed_slice()));
    if let Some(old) = ARENA.change_unawaited(|arena| arena.update(table)) {
        // SAFETY: all tables of the arena were leaked here, and the arena no longer uses this one.
        drop(unsafe { Box::from_raw(old) });
    }
}

/// Allocates addresses for this number of bytes, from the start of a page on.
pub fn allocate(bytes: u64) -> u64 {
    loop {
        match change(|arena| arena.allocate(&Request::new(bytes))) {
            Ok(address) => return address,
            Err(Error::NoTags) => give_tags(),
            Err(error) => panic!("vmem::allocate: {bytes} bytes: {error}"),
        }
    }
}

/// Frees addresses, in the same pieces as they were allocated.
pub fn free(address: u64, bytes: u64) {
    let freed = change(|arena| arena.free(address, bytes));
    freed.unwrap_or_else(|error| panic!("vmem::free: {error}"));
}

/// Number of chain steps so far.
pub fn steps() -> u64 {
    CHAIN_STEPS.load(Ordering::Relaxed)
}

/// Changes the arena. Wakes the thread if the hash has become too small or too large.
fn change<R>(change: impl FnOnce(&mut Arena<'static>) -> R) -> R {
    let (result, needs_update) = ARENA.change_unawaited(|arena| {
        let had_right_size = arena.wanted_buckets().is_none();
        let result = change(arena);
        CHAIN_STEPS.store(arena.counters().lookup, Ordering::Relaxed);
        (result, had_right_size && arena.wanted_buckets().is_some())
    });
    if needs_update {
        ARENA.change(|_| ());
    }
    result
}

/// Doubles the number of tags.
fn give_tags() {
    let tags = ARENA.change_unawaited(|arena| arena.tags());
    let more = Box::leak(vec![Tag::new(); tags].into_boxed_slice());
    ARENA.change_unawaited(|arena| arena.add_tags(more)).unwrap_or_else(|error| panic!("vmem::give_tags: {error}"));
}
