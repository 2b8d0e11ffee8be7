//! The kernel's address arena, and the thread that keeps its hash as large as it should be.
//!
//! The thread looks every 10 ms, as long as anything is allocated. `vmem_rescale=late` starts it once all drivers have
//! attached, as illumos did; `early` before they do; `once` instead looks a single time that early, when there is nothing
//! to see yet, and then no sooner than `late`.

use crate::sysinit::{Subsystem, sysinit};
use crate::wait::Shared;
use crate::{boot, thread};
use alloc::boxed::Box;
use alloc::vec;
use lab::switches::VmemRescale;
use lab::vmem::{Arena, Segment};

sysinit!(vmem_init, Subsystem::Kthreads, 8, init);
sysinit!(vmem_update, Subsystem::Smp, 1, late);

const BASE: u64 = 0xffff_d000_0000_0000;
const PERIOD_NS: u64 = 10_000_000;
/// A power of two.
pub const SEGMENTS_MAX: usize = 32 * 1024;

/// Its tables are made when it is first used: most boots never do.
static ARENA: Shared<Option<Arena<'static>>> = Shared::new(None);

fn init() {
    match boot::switches().vmem_rescale {
        VmemRescale::Late => {}
        VmemRescale::Once => rescale(),
        VmemRescale::Early => start(),
    }
}

fn late() {
    if boot::switches().vmem_rescale != VmemRescale::Early {
        start();
    }
}

fn start() {
    thread::create("vmem_update", update, 0);
}

fn update(_: usize) {
    loop {
        ARENA.wait_for(|arena| (in_use(arena) > 0).then_some(()));
        thread::sleep_ns(PERIOD_NS);
        rescale();
    }
}

fn in_use(arena: &Option<Arena<'static>>) -> usize {
    arena.as_ref().map_or(0, Arena::in_use)
}

#[inline(never)]
fn rescale() {
    let _scope = tslog::scope!("vmem_hash_rescale");
    ARENA.change_unawaited(|arena| arena.iter_mut().for_each(Arena::rescale));
}

/// Addresses for so many bytes.
pub fn allocate(bytes: u64) -> u64 {
    let make = || {
        let segments = Box::leak(vec![Segment::UNUSED; SEGMENTS_MAX].into_boxed_slice());
        Arena::new(BASE, segments, Box::leak(vec![0; SEGMENTS_MAX].into_boxed_slice()))
    };
    let allocate = |arena: &mut Option<Arena<'static>>| {
        (
            in_use(arena) == 0,
            arena.get_or_insert_with(make).allocate(bytes).expect("vmem::allocate: no segment is left"),
        )
    };
    let (was_empty, address) = ARENA.change_unawaited(allocate);
    if was_empty {
        ARENA.change(|_| ());
    }
    address
}

pub fn free(address: u64) {
    let freed = ARENA.change_unawaited(|arena| arena.as_mut().is_some_and(|arena| arena.free(address)));
    assert!(freed, "vmem::free: nothing begins at {address:#x}");
}

/// How many segments were passed in chains so far.
pub fn steps() -> u64 {
    ARENA.change_unawaited(|arena| arena.as_ref().map_or(0, Arena::steps))
}
