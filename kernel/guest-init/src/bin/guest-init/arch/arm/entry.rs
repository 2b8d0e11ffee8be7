//! The mark "kernel handed over": the very first instructions of the program.
//!
//! `guest_init_entry` is the entry point of the binary (build.rs). It runs before libc, reads the counter and stores
//! it. Some CPUs have no counter (Cortex-A9, as in the i.MX6), and reading it there would end the program. The kernel's
//! auxiliary vector (`AT_HWCAP`), after a program's arguments and environment, shows if the kernel uses a counter. If
//! not, the kernel's clock is read, with one system call. The channel to the host takes several, so it is opened later,
//! and [`finish_mark`] sends the whole line. The host stamps that line some tens of microseconds late. The fit of the
//! clocks allows for this: the mark is the tick.
//!
//! A program started by its other name does not mark yet ([`leaves_mark_to_second_start`]).

pub use crate::arch::mark::leaves_mark_to_second_start;
use crate::arch::port_io::{counter_hz, open_port};
use crate::arch::{Port, mark};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// `HWCAP_EVTSTRM`: the kernel uses the CPU's own counter (the generic timer's), and lets programs read it.
const EVENT_STREAM: u32 = 1 << 21;

/// The counter at the program's start.
static TICK: AtomicU64 = AtomicU64::new(0);
/// The kernel's capability bits of the CPU.
static HWCAP: AtomicU32 = AtomicU32::new(0);

/// True if the counter is the CPU's; else it is the kernel's clock.
pub fn has_counter() -> bool {
    HWCAP.load(Ordering::Relaxed) & EVENT_STREAM != 0
}

// SAFETY: this runs once, alone, before any Rust code. At a program's entry only the stack pointer and r0 have a
// meaning, and both are unchanged when libc's entry runs. Argument count, arguments, environment and auxiliary vector
// start at the stack pointer, and each list has an end, so all reads are inside them. The system call writes 8 bytes
// below the original stack pointer while it is lowered by 8. The statics are an aligned pair of words and a word that
// no other code has read yet. Linux lets programs read the counter that it uses.
std::arch::global_asm!(
    ".pushsection .text.guest_init_entry, \"ax\"",
    ".arm",
    ".globl guest_init_entry",
    ".type guest_init_entry, %function",
    "guest_init_entry:",
    "mov r4, r0",
    // Behind the count, the arguments and the zero behind them.
    "ldr r5, [sp]",
    "add r5, sp, r5, lsl #2",
    "add r5, r5, #8",
    "1: ldr r6, [r5], #4",
    "cmp r6, #0",
    "bne 1b",
    // Pairs of what a fact is about and its value, until one about AT_HWCAP or AT_NULL.
    "2: ldr r6, [r5], #4",
    "ldr r7, [r5], #4",
    "cmp r6, #16",
    "cmpne r6, #0",
    "bne 2b",
    "cmp r6, #0",
    "moveq r7, #0",
    "movw r5, #:lower16:{hwcap}",
    "movt r5, #:upper16:{hwcap}",
    "str r7, [r5]",
    "tst r7, #{event_stream}",
    "beq 3f",
    "isb",
    // CNTVCT
    "mrrc p15, 1, r2, r3, c14",
    "b 4f",
    // clock_gettime(CLOCK_MONOTONIC): two words, seconds and ns.
    "3: sub sp, sp, #8",
    "mov r0, #1",
    "mov r1, sp",
    "movw r7, #263",
    "svc #0",
    "pop {{r0, r1}}",
    "movw r2, #{second_low}",
    "movt r2, #{second_high}",
    "umull r2, r3, r0, r2",
    "adds r2, r2, r1",
    "adc r3, r3, #0",
    "4: movw r5, #:lower16:{tick}",
    "movt r5, #:upper16:{tick}",
    "strd r2, r3, [r5]",
    "mov r0, r4",
    "b _start",
    ".popsection",
    tick = sym TICK,
    hwcap = sym HWCAP,
    event_stream = const EVENT_STREAM,
    second_low = const 1_000_000_000_u32 & 0xffff,
    second_high = const 1_000_000_000_u32 >> 16,
);

/// Sends the mark. If there is no host, prints the reason to the console.
pub fn finish_mark() -> Port {
    mark::send(TICK.load(Ordering::Relaxed), open_port().map(|()| counter_hz()))
}
