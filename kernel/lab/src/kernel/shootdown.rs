//! TLB shootdown: no CPU goes on with a translation that another has taken away.
//!
//! A CPU remembers translations, and no other can make it forget one. So who unmaps a page interrupts each of the others,
//! which forgets it and says so; only when all have is the page gone, and its frame may be somebody else's. One shootdown
//! is under way at a time. Who waits for its own turn answers meanwhile, or two CPUs would wait for each other for ever;
//! and nobody waits here with a lock held, for which another CPU could be waiting with interrupts off.

use crate::{apic, boot, cpu, trap};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use lab::switches::Shootdown;
use x86_64::VirtAddr;
use x86_64::instructions::{interrupts, tlb};

/// A bit for each CPU that may remember a translation.
static JOINED: AtomicU32 = AtomicU32::new(1);
/// Whether one is under way.
static BUSY: AtomicBool = AtomicBool::new(false);
/// The page that is to be forgotten, and a bit for each CPU that has not yet.
static PAGE: AtomicU64 = AtomicU64::new(0);
static PENDING: AtomicU32 = AtomicU32::new(0);

/// This CPU takes part from now on. Of what was unmapped before it remembers nothing.
pub fn join() {
    JOINED.fetch_or(1 << cpu::this().index.get(), Ordering::SeqCst);
    tlb::flush_all();
}

/// Has every CPU forget a page that is no longer mapped.
pub fn forget(virt: u64) {
    tlb::flush(VirtAddr::new(virt));
    let others = JOINED.load(Ordering::SeqCst) & !(1 << cpu::this().index.get());
    if others == 0 || boot::switches().shootdown == Shootdown::None {
        return;
    }
    let held = cpu::this().locks_held.get();
    assert!(held == 0, "shootdown::forget: {virt:#x}: {held} locks held");
    while BUSY.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
        interrupts::without_interrupts(answer);
        core::hint::spin_loop();
    }
    PAGE.store(virt, Ordering::Relaxed);
    PENDING.store(others, Ordering::Release);
    for other in (0..cpu::CPUS_MAX as u32).filter(|other| others >> other & 1 == 1) {
        // An interrupt's handler may write the same command register.
        interrupts::without_interrupts(|| apic::interrupt(cpu::apic_id_of(other), trap::SHOOTDOWN));
    }
    while PENDING.load(Ordering::Acquire) != 0 {
        core::hint::spin_loop();
    }
    BUSY.store(false, Ordering::Release);
}

/// Forgets what another CPU asks for. With interrupts off: one in between would answer first, and the answer here be for
/// the next page.
pub fn answer() {
    let bit = 1 << cpu::this().index.get();
    if PENDING.load(Ordering::Acquire) & bit != 0 {
        tlb::flush(VirtAddr::new(PAGE.load(Ordering::Relaxed)));
        PENDING.fetch_and(!bit, Ordering::Release);
    }
}
