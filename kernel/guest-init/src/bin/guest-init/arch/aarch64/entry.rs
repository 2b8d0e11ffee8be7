//! The mark "kernel handed over": the very first instructions of the program.
//!
//! `guest_init_entry` is the entry point of the binary (build.rs). It runs before libc, reads the counter and stores
//! it. The channel to the host takes four system calls, so it is opened later, and [`finish_mark`] sends the whole
//! line. The host stamps that line some tens of microseconds late. The fit of the clocks allows for this: the mark is
//! the tick.
//!
//! A program started by its other name does not mark yet ([`leaves_mark_to_second_start`]).

pub use crate::arch::mark::leaves_mark_to_second_start;
use crate::arch::port_io::{counter_hz, open_port};
use crate::arch::{Port, mark};
use std::sync::atomic::{AtomicU64, Ordering};

/// The counter at the program's start.
static TICK: AtomicU64 = AtomicU64::new(0);

// SAFETY: this runs once, alone, before any Rust code. At a program's entry only the stack pointer and x0 have a
// meaning, and neither is changed. The static is an aligned word that no other code has read yet. Linux lets programs
// read the counter.
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

/// Sends the mark. If there is no host, prints the reason to the console.
pub fn finish_mark() -> Port {
    mark::send(TICK.load(Ordering::Relaxed), open_port().map(|()| counter_hz()))
}
