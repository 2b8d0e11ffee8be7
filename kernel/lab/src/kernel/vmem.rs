//! The kernel's addresses above all memory that is mapped onto itself: an arena of `kernel/vmem`, and the thread that keeps
//! its hash as large as it should be.
//!
//! Thread stacks, the disk cache and drivers' buffers get their addresses here; who takes some maps them. The arena begins
//! with tags in the kernel's image, and gets as many again from the heap whenever none is left.
//!
//! The thread looks 10 ms after the hash has become too small or too large. `vmem_rescale=late` starts it once all drivers
//! have attached, as illumos did; `early` before they do; `once` instead looks a single time that early, when there is
//! nothing to see yet, and then no sooner than `late`.

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

// SAFETY: `start` takes them, once.
unsafe impl Sync for FirstTags {}

static TAGS: FirstTags = FirstTags(UnsafeCell::new([const { Tag::new() }; FIRST_TAGS]));

static ARENA: Shared<Arena<'static>> = Shared::new(match Arena::new(FRAME_BYTES) {
    Ok(arena) => arena,
    Err(_) => panic!("a frame's size is a power of two"),
});

/// How many segments were passed in chains so far: the arena's counter, with a symbol for debuggers, which the compiler would
/// change.
#[used]
static CHAIN_STEPS: AtomicU64 = AtomicU64::new(0);

/// From now on there are addresses.
pub fn start() {
    // SAFETY: called once, before there is another CPU, and nobody else looks at them.
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
        // SAFETY: the arena has no table but those that were leaked just here, and does not use this one any more.
        drop(unsafe { Box::from_raw(old) });
    }
}

/// Addresses for so many bytes, from the start of a page on.
pub fn allocate(bytes: u64) -> u64 {
    loop {
        match change(|arena| arena.allocate(&Request::new(bytes))) {
            Ok(address) => return address,
            Err(Error::NoTags) => give_tags(),
            Err(error) => panic!("vmem::allocate: {bytes} bytes: {error}"),
        }
    }
}

/// As they were allocated.
pub fn free(address: u64, bytes: u64) {
    let freed = change(|arena| arena.free(address, bytes));
    freed.unwrap_or_else(|error| panic!("vmem::free: {error}"));
}

/// How many segments were passed in chains so far.
pub fn steps() -> u64 {
    CHAIN_STEPS.load(Ordering::Relaxed)
}

/// Wakes the thread if the hash has become too small or too large.
fn change<R>(change: impl FnOnce(&mut Arena<'static>) -> R) -> R {
    let (result, is_to_be_updated) = ARENA.change_unawaited(|arena| {
        let was_well = arena.wanted_buckets().is_none();
        let result = change(arena);
        CHAIN_STEPS.store(arena.counters().lookup, Ordering::Relaxed);
        (result, was_well && arena.wanted_buckets().is_some())
    });
    if is_to_be_updated {
        ARENA.change(|_| ());
    }
    result
}

/// As many tags again as there are.
fn give_tags() {
    let tags = ARENA.change_unawaited(|arena| arena.tags());
    let more = Box::leak(vec![Tag::new(); tags].into_boxed_slice());
    ARENA.change_unawaited(|arena| arena.add_tags(more)).unwrap_or_else(|error| panic!("vmem::give_tags: {error}"));
}
