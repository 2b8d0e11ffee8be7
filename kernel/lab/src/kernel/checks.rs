//! Checks of the kernel by itself (`check=`), each with a verdict on the console in the place of a time.

use crate::console::kprintln;
use crate::phys::{self, MemoryType};
use crate::sysinit::{Subsystem, sysinit};
use crate::{boot, memory, paging, signal_check, tlb_check};
use lab::memory_map::FRAME_BYTES;
use lab::ownership::{Refused, Seen};
use lab::switches::Check;
use lab::verdict::{Checked, Verdict};

sysinit!(check, Subsystem::Smp, 2, run);

fn run() {
    match boot::switches().check {
        Check::None => {}
        Check::FrameOwnership => {
            let seen = frame_ownership();
            let verdict = Verdict::of(seen.is_correct());
            kprintln!("{}", Checked { name: "frame-ownership", verdict, counted: seen });
        }
        Check::TlbShootdown => tlb_check::run(),
        Check::SignalExit => signal_check::run(),
    }
}

/// What a driver takes for its device, in frames.
const RING_FRAMES: u64 = 16;
/// How many frames others then take, at most: enough that they would get the ring's, were it free.
const OTHERS: usize = 64;
const WRITTEN: u64 = 0x6472_6976_6572;

/// A driver takes memory for its device, shares it, and gives it back; another maps a frame that is somebody's. For one CPU: whatever else
/// took or gave frames meanwhile would be counted.
#[inline(never)]
fn frame_ownership() -> Seen {
    let _scope = tslog::scope!("check_frame_ownership");
    // Tables that are made meanwhile stay.
    let tables = paging::tables();
    let count_free = || memory::count_free() + paging::tables() - tables;
    let mut seen = Seen { free_before: count_free(), ..Seen::default() };
    for memory_type in [MemoryType::WriteBack, MemoryType::Uncacheable] {
        let ring = phys::contiguous(RING_FRAMES * FRAME_BYTES, memory_type).expect("checks: there are free frames");
        let shared = ring.share();
        write(ring.virt(), WRITTEN);
        assert!(read(shared.virt()) == WRITTEN && ring.virt() != shared.virt(), "checks: a ring is at both addresses");
        drop(ring);
        seen.given_twice += others_get(|phys| shared.has(phys));
    }
    let somebodys = memory::allocate_frame();
    match phys::borrow(somebodys, FRAME_BYTES, MemoryType::WriteBack) {
        Err(refused) => assert!(refused == Refused::Owned { frame: somebodys / FRAME_BYTES }, "checks: {refused}"),
        Ok(mapping) => {
            seen.owned_borrowed += 1;
            memory::free_frames(somebodys, 1);
            seen.given_twice += others_get(|phys| {
                write(mapping.virt(), WRITTEN);
                mapping.has(phys) && read(phys) == WRITTEN
            });
            drop(mapping);
            // Nobody has it any more.
            return Seen { free_after: count_free(), ..seen };
        }
    }
    memory::free_frames(somebodys, 1);
    Seen { free_after: count_free(), ..seen }
}

/// Takes frames, and gives them back: how many of them a driver has too.
fn others_get(driver_has: impl Fn(u64) -> bool) -> u64 {
    let mut frames = [0; OTHERS];
    frames.fill_with(memory::allocate_frame);
    let twice = frames.iter().filter(|&&phys| driver_has(phys)).count() as u64;
    frames.into_iter().for_each(|phys| memory::free_frames(phys, 1));
    twice
}

fn read(address: u64) -> u64 {
    // SAFETY: a driver's mapping, or a frame that was allocated here.
    unsafe { (address as *const u64).read_volatile() }
}

fn write(address: u64, value: u64) {
    // SAFETY: a driver's mapping: of frames that were allocated here.
    unsafe { (address as *mut u64).write_volatile(value) }
}
