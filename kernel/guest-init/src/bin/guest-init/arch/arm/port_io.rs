//! The channel to the host, and the counter: the machine access that process 1 needs besides its entry.
//!
//! The host's configuration selects the channel: on a board a serial port ([`serial_port`]), otherwise the virtio
//! console of QEMU's `virt`.

use super::entry::has_counter;
use super::serial_port;
use crate::arch::virtio_console::{self, Place};
use guest_init::config::Config;
use guest_init::cpio::CONFIG_PATH;
use guest_init::messages::ARM64_REGISTERS;
use rustix::time::{ClockId, clock_gettime};
use std::sync::OnceLock;

/// The machine has the layout of arm64's. The kernel's pages have 4 KiB.
const CONSOLE: Place = Place { address: ARM64_REGISTERS, page_bytes: 4 << 10 };

/// The virtual counter if the kernel uses it, otherwise its clock in ns. It is read after everything that precedes this
/// call is done.
pub fn tsc() -> u64 {
    if !has_counter() {
        let now = clock_gettime(ClockId::Monotonic);
        return now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
    }
    let (low, high): (u32, u32);
    // SAFETY: reads a register that Linux lets programs read if it uses that counter; it touches no memory.
    unsafe {
        std::arch::asm!("isb", "mrrc p15, 1, {}, {}, c14", out(reg) low, out(reg) high, options(nomem, nostack, preserves_flags))
    };
    u64::from(high) << 32 | u64::from(low)
}

/// The rate of the counter in Hz, from its own register; or the rate of the clock.
pub fn counter_hz() -> u64 {
    if !has_counter() {
        return 1_000_000_000;
    }
    let hz: u32;
    // SAFETY: as above. The register can be read where the counter can.
    unsafe { std::arch::asm!("mrc p15, 0, {}, c14, c0, 0", out(reg) hz, options(nomem, nostack, preserves_flags)) };
    hz.into()
}

/// The registers of the serial port that is the channel to the host, if there is one.
fn serial() -> Option<u64> {
    static SERIAL: OnceLock<Option<u64>> = OnceLock::new();
    *SERIAL.get_or_init(|| Config::parse(&std::fs::read_to_string(CONFIG_PATH).unwrap_or_default()).0.serial)
}

/// Sends bytes unchanged. Sends nothing before the registers are mapped.
pub fn put(bytes: &[u8]) {
    match serial() {
        Some(_) => serial_port::put(bytes),
        None => virtio_console::put(bytes),
    }
}

/// Gets the right to use the registers.
pub fn allow_ports(allow: bool) {
    match serial() {
        Some(address) if allow => drop(serial_port::open_at(address)),
        Some(_) => {}
        None => virtio_console::allow(&CONSOLE, allow),
    }
}

/// Maps the registers. The error is the reason why they are unavailable.
pub fn open_port() -> Result<(), String> {
    match serial() {
        Some(address) => serial_port::open_at(address),
        None => virtio_console::open_at(&CONSOLE),
    }
}
