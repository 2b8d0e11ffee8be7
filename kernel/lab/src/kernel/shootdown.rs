//! TLB shootdown: makes sure that no CPU uses a translation that another CPU has removed.
//!
//! A CPU caches translations, and only that CPU can drop one from its cache. So a CPU that unmaps a page interrupts each of the
//! others, which drops the translation and confirms that. When all have confirmed, the page is unmapped and its frame can get
//! another owner.
//!
//! There is one shootdown at a time. A CPU that waits to begin one answers other shootdowns meanwhile. Otherwise two CPUs would
//! wait for each other for ever. A CPU must not hold a lock here, because another CPU could be waiting for it with interrupts
//! off.

use crate::{apic, boot, cpu, trap};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use lab::switches::Shootdown;
use x86_64::VirtAddr;
use x86_64::instructions::{interrupts, tlb};

/// A bit for each CPU that may cache a translation.
static JOINED: AtomicU32 = AtomicU32::new(1);
/// True while a shootdown is under way.
static BUSY: AtomicBool = AtomicBool::new(false);
/// The page whose translation must be dropped.
static PAGE: AtomicU64 = AtomicU64::new(0);
/// A bit for each CPU that has not dropped it yet.
static PENDING: AtomicU32 = AtomicU32::new(0);

/// Makes this CPU take part from now on. Drops all translations that it has cached.
pub fn join() {
    JOINED.fetch_or(1 << cpu::this().index.get(), Ordering::SeqCst);
    tlb::flush_all();
}

/// Makes every CPU drop the translation of a page that is no longer mapped.
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

/// Answers another CPU's shootdown. Interrupts must be off. An interrupt in between would answer first, and the answer here
/// would then be for the next page.
pub fn answer() {
    let bit = 1 << cpu::this().index.get();
    if PENDING.load(Ordering::Acquire) & bit != 0 {
        tlb::flush(VirtAddr::new(PAGE.load(Ordering::Relaxed)));
        PENDING.fetch_and(!bit, Ordering::Release);
    }
}
