//! The way to the host and the counter: what process 1 needs of the machine beside its entry.

use crate::arch::virtio_console::{self, Place};
use guest_init::messages::ARM64_REGISTERS;

pub use crate::arch::virtio_console::put;

const CONSOLE: Place = Place { address: ARM64_REGISTERS, page_bytes: 64 << 10 };

/// The system counter, not before everything that precedes this call is done.
pub fn tsc() -> u64 {
    let ticks;
    // SAFETY: reads a register that Linux lets programs read; no memory.
    unsafe { std::arch::asm!("isb", "mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags)) };
    ticks
}

/// How many ticks the system counter has in a second, by its own register.
pub fn counter_hz() -> u64 {
    let hz;
    // SAFETY: as above.
    unsafe { std::arch::asm!("mrs {}, cntfrq_el0", out(reg) hz, options(nomem, nostack, preserves_flags)) };
    hz
}

/// Takes the right to use the registers.
pub fn allow_ports(allow: bool) {
    virtio_console::allow(&CONSOLE, allow);
}

/// Maps the registers; or says why they cannot be had.
pub fn open_port() -> Result<(), String> {
    virtio_console::open_at(&CONSOLE)
}
