//! The way to the host and the counter: what process 1 needs of the machine beside its entry.

use crate::arch::virtio_console::{self, Place};
use guest_init::messages::RISCV64_REGISTERS;

pub use crate::arch::virtio_console::put;

// The page before holds a serial port, which its driver may keep for itself: no larger page is mapped.
const CONSOLE: Place = Place { address: RISCV64_REGISTERS, page_bytes: 4 << 10 };

/// The time counter, not before everything that precedes this call is done.
pub fn tsc() -> u64 {
    let ticks;
    // SAFETY: reads a register that Linux lets programs read; no memory.
    unsafe { std::arch::asm!("fence", "rdtime {}", out(reg) ticks, options(nostack, preserves_flags)) };
    ticks
}

/// What the kernel is asked, and answers (Documentation/arch/riscv/hwprobe.rst); a key that it does not know becomes -1.
#[repr(C)]
struct Probe {
    key: i64,
    value: u64,
}

/// How many ticks the counter has in a second: no register says it, and the kernel does since Linux 6.11.
pub fn counter_hz() -> Option<u64> {
    const RISCV_HWPROBE: usize = 258;
    const TIME_CSR_FREQ: i64 = 8;
    let mut probe = Probe { key: TIME_CSR_FREQ, value: 0 };
    let mut result = &raw mut probe as usize;
    // SAFETY: the system call writes to the one pair that it is given, and to nothing else: it gets no set of CPUs.
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

/// Takes the right to use the registers.
pub fn allow_ports(allow: bool) {
    virtio_console::allow(&CONSOLE, allow);
}

/// Maps the registers; or says why they cannot be had.
pub fn open_port() -> Result<(), String> {
    virtio_console::open_at(&CONSOLE)
}
