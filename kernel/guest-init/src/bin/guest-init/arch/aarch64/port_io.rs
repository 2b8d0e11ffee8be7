//! The channel to the host, and the counter: the machine access that process 1 needs besides its entry.

use crate::arch::virtio_console::{self, Place};
use guest_init::messages::ARM64_REGISTERS;

pub use crate::arch::virtio_console::put;

const CONSOLE: Place = Place { address: ARM64_REGISTERS, page_bytes: 64 << 10 };

/// The system counter, read after everything that precedes this call is done.
pub fn tsc() -> u64 {
    let ticks;
    // SAFETY: reads a register that Linux lets programs read; it touches no memory.
    unsafe { std::arch::asm!("isb", "mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags)) };
    ticks
}

/// The rate of the system counter in Hz, from its own register.
pub fn counter_hz() -> u64 {
    let hz;
    // SAFETY: as above.
    unsafe { std::arch::asm!("mrs {}, cntfrq_el0", out(reg) hz, options(nomem, nostack, preserves_flags)) };
    hz
}

/// Gets the right to use the registers.
pub fn allow_ports(allow: bool) {
    virtio_console::allow(&CONSOLE, allow);
}

/// Maps the registers. The error is the reason why they are unavailable.
pub fn open_port() -> Result<(), String> {
    virtio_console::open_at(&CONSOLE)
}
