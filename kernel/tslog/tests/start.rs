//! Starts the log while interrupts record: each event is in the log, or counted as too early. The trap flag interrupts after
//! every single instruction of the start, as in `interrupts.rs`.
#![cfg(target_arch = "x86_64")]

use std::arch::asm;
use std::sync::atomic::{AtomicU64, Ordering};

tslog::kernel!(thread = || 0x77);

static TRAPS: AtomicU64 = AtomicU64::new(0);

extern "C" fn trap(_: i32) {
    tslog::event!("nmi");
    TRAPS.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn no_event_is_lost_uncounted_while_the_log_is_started() {
    const TRAP_FLAG: i32 = 0x100;
    // SAFETY: the handler only uses atomics.
    let before = unsafe { libc::signal(libc::SIGTRAP, trap as *const () as libc::sighandler_t) };
    assert_ne!(before, libc::SIG_ERR);
    // SAFETY: sets the trap flag; the handler runs without it and returns to here.
    unsafe { asm!("pushfq", "or dword ptr [rsp], {flag}", "popfq", flag = const TRAP_FLAG) };
    tslog::start!(records = 100_000, arena_bytes = 0);
    // SAFETY: clears the trap flag.
    unsafe { asm!("pushfq", "and dword ptr [rsp], {mask}", "popfq", mask = const !TRAP_FLAG) };

    let (traps, counts) = (TRAPS.load(Ordering::Relaxed), tslog::log().expect("it was started").counts());
    println!("{traps} interrupts, {} of them before there was a log", counts.before_start);
    assert!(counts.before_start > 0 && counts.reserved > 0, "both sides of the start were interrupted: {counts:?}");
    assert_eq!(counts.before_start + counts.reserved, traps);
}
