//! The channel to the host, and the counter: the machine access that process 1 needs besides its entry.

use crate::arch::virtio_console::{self, Place};
use guest_init::messages::RISCV64_REGISTERS;

pub use crate::arch::virtio_console::put;

// The page before holds a serial port, which its driver may have reserved, so no larger page is mapped.
const CONSOLE: Place = Place { address: RISCV64_REGISTERS, page_bytes: 4 << 10 };

/// The time counter, read after everything that precedes this call is done.
pub fn tsc() -> u64 {
    let ticks;
    // SAFETY: reads a register that Linux lets programs read; it touches no memory.
    unsafe { std::arch::asm!("fence", "rdtime {}", out(reg) ticks, options(nostack, preserves_flags)) };
    ticks
}

/// A query to the kernel with its answer (Documentation/arch/riscv/hwprobe.rst); the kernel changes an unknown key to
/// -1.
#[repr(C)]
struct Probe {
    key: i64,
    value: u64,
}

/// The rate of the counter in Hz. No register has it; the kernel reports it since Linux 6.11.
pub fn counter_hz() -> Option<u64> {
    const RISCV_HWPROBE: usize = 258;
    const TIME_CSR_FREQ: i64 = 8;
    let mut probe = Probe { key: TIME_CSR_FREQ, value: 0 };
    let mut result = &raw mut probe as usize;
    // SAFETY: the system call writes only to this one pair, because it gets no set of CPUs.
    unsafe {
        std::arch::asm!(
            "ecall",
            inlateout("a0") result,
            in("a1") 1usize,
            in("a2") 0usize,
            in("a3") 0usize,
            in("a4") 0usize,
            in("a7") RISCV_HWPROBE,
            options(nostack)
        );
    }
    (result == 0 && probe.key == TIME_CSR_FREQ && probe.value > 0).then_some(probe.value)
}

/// Gets the right to use the registers.
pub fn allow_ports(allow: bool) {
    virtio_console::allow(&CONSOLE, allow);
}

/// Maps the registers. The error is the reason why they are unavailable.
pub fn open_port() -> Result<(), String> {
    virtio_console::open_at(&CONSOLE)
}
