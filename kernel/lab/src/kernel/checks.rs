//! Checks that the kernel makes of itself (`check=`). Each prints a verdict on the console.

use crate::console::kprintln;
use crate::phys::{self, MemoryType};
use crate::sysinit::{Subsystem, sysinit};
use crate::{boot, cpu, memory, signal_check, thread, tlb_check};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use lab::memory_map::FRAME_BYTES;
use lab::ownership::{Refused, Seen};
use lab::switches::Check;
use lab::verdict::{Checked, Verdict};

sysinit!(check, Subsystem::Smp, 2, run);

fn run() {
    match boot::switches().check {
        Check::None => {}
        Check::FrameOwnership => check_frame_ownership(),
        Check::TlbShootdown => tlb_check::run(),
        Check::SignalExit => signal_check::run(),
    }
}

/// Number of frames that a driver takes for its device.
const RING_FRAMES: u64 = 16;
/// Number of frames that other owners take afterwards. If the ring's frames were free, these would include them.
const OTHERS: usize = 64;
const WRITTEN: u64 = 0x6472_6976_6572;

/// Number of frames that another CPU's thread has taken during the check.
static TAKEN_MEANWHILE: AtomicU64 = AtomicU64::new(0);
/// True when the check is over, so that the thread may free its frames.
static IS_CHECKED: AtomicBool = AtomicBool::new(false);

/// Runs the check. If there is another CPU, a thread on it takes frames while drivers take theirs.
fn check_frame_ownership() {
    if cpu::running() > 1 {
        thread::create_on(1, "frames/other", take_meanwhile, 0);
        while TAKEN_MEANWHILE.load(Ordering::Acquire) == 0 {
            core::hint::spin_loop();
        }
    }
    let before = TAKEN_MEANWHILE.load(Ordering::Acquire);
    let seen = frame_ownership();
    let meanwhile = TAKEN_MEANWHILE.load(Ordering::Acquire) - before;
    IS_CHECKED.store(true, Ordering::Release);
    kprintln!("checks: another CPU took {meanwhile} frames meanwhile");
    kprintln!("{}", Checked { name: "frame-ownership", verdict: Verdict::of(seen.is_correct()), counted: seen });
}

/// Takes one frame after the other while the check runs.
fn take_meanwhile(_: usize) {
    let mut frames = [0; OTHERS];
    for frame in &mut frames {
        *frame = memory::allocate_frame();
        TAKEN_MEANWHILE.fetch_add(1, Ordering::AcqRel);
        thread::yield_now();
    }
    while !IS_CHECKED.load(Ordering::Acquire) {
        thread::yield_now();
    }
    frames.into_iter().for_each(|phys| memory::free_frames(phys, 1));
}

/// The check: a driver takes memory for its device, shares it, and frees it. Another driver maps a frame of another owner.
///
/// Frames are counted by the thread that takes them, so other CPUs may take and free frames meanwhile. Only `given_twice` can
/// then be too low, if another CPU takes the frame that `others_get` looks for.
#[inline(never)]
fn frame_ownership() -> Seen {
    let _scope = tslog::scope!("check_frame_ownership");
    let held = || memory::held_by(cpu::this().current.get());
    let before = held();
    let mut seen = Seen::default();
    for memory_type in [MemoryType::WriteBack, MemoryType::Uncacheable] {
        let before_ring = held();
        let ring = phys::contiguous(RING_FRAMES * FRAME_BYTES, memory_type).expect("checks: there are free frames");
        seen.taken += held() - before_ring;
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
            // The frame is free already.
            return Seen { kept: held() - before, ..seen };
        }
    }
    memory::free_frames(somebodys, 1);
    Seen { kept: held() - before, ..seen }
}

/// Takes frames and frees them. Returns the number of frames that a driver has mapped too.
fn others_get(driver_has: impl Fn(u64) -> bool) -> u64 {
    let mut frames = [0; OTHERS];
    frames.fill_with(memory::allocate_frame);
    let twice = frames.iter().filter(|&&phys| driver_has(phys)).count() as u64;
    frames.into_iter().for_each(|phys| memory::free_frames(phys, 1));
    twice
}

fn read(address: u64) -> u64 {
    // SAFETY: the address is in a driver's mapping, or in a frame that was allocated here.
    unsafe { (address as *const u64).read_volatile() }
}

fn write(address: u64, value: u64) {
    // SAFETY: the address is in a driver's mapping of frames that were allocated here.
    unsafe { (address as *mut u64).write_volatile(value) }
}
