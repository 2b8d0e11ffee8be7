//! The mark "kernel handed over": the program's very first instructions.
//!
//! `guest_init_entry` is the entry point of the binary (build.rs) and runs before libc: it reads the counter and keeps it. The way to
//! the host takes four system calls, so it is opened later, and the whole line is said by [`finish_mark`]. The host
//! stamps that line late by some tens of microseconds, which the fit of the clocks allows for: the mark is the tick.
//!
//! Started by its other name, it does not mark yet ([`is_not_yet_the_mark`]).

pub use crate::arch::mark::is_not_yet_the_mark;
use crate::arch::port_io::{counter_hz, open_port};
use crate::arch::{Port, mark};
use std::sync::atomic::{AtomicU64, Ordering};

/// The counter at the program's start.
static TICK: AtomicU64 = AtomicU64::new(0);

// SAFETY: runs once, alone, before any Rust code. At a program's entry only the stack pointer and x0 have a meaning, and neither
// is changed; the static is an aligned word that nobody else has seen yet. Linux lets programs read the counter.
std::arch::global_asm!(
    ".globl guest_init_entry",
    "guest_init_entry:",
    "isb",
    "mrs x9, cntvct_el0",
    "adrp x10, {tick}",
    "str x9, [x10, :lo12:{tick}]",
    "b _start",
    tick = sym TICK,
);

/// Says the mark. Where nobody hears it, the console says why.
pub fn finish_mark() -> Port {
    mark::say(TICK.load(Ordering::Relaxed), open_port().map(|()| counter_hz()))
}
