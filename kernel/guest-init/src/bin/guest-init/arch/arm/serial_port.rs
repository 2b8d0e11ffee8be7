//! The channel to the host on the i.MX6: a serial port that the board's device tree disables, so no driver has its
//! registers (i.MX 6Dual/6Quad Reference Manual, chapter 64).
//!
//! QEMU's ports send each written byte at once. A board's port would need a clock, and a wait for each byte.

use crate::arch::physical::map;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

const PAGE_BYTES: u64 = 4 << 10;
const BYTES: usize = 0x100;
/// A byte written here is sent.
const TRANSMIT: usize = 0x40;
/// Control register 2.
const CONTROL: usize = 0x84;
/// Bits of it: out of reset, and may transmit.
const RUNS: u32 = 1;
const TRANSMITS: u32 = 1 << 2;

/// The mapped registers; null before they are mapped.
static MAPPED: AtomicPtr<u8> = AtomicPtr::new(null_mut());

/// Sends bytes unchanged. Sends nothing before the registers are mapped.
pub fn put(bytes: &[u8]) {
    let mapped = MAPPED.load(Ordering::Relaxed);
    if mapped.is_null() {
        return;
    }
    for &byte in bytes {
        // SAFETY: `MAPPED` is null or a mapping that `map` made and that is never unmapped; the register is inside, and
        // aligned.
        unsafe { mapped.add(TRANSMIT).cast::<u32>().write_volatile(byte.into()) };
    }
}

/// Maps the registers at this address and lets the port transmit. The error is the reason why this failed.
pub fn open_at(address: u64) -> Result<(), String> {
    if !MAPPED.load(Ordering::Relaxed).is_null() {
        return Ok(());
    }
    let mapped = map(address, PAGE_BYTES, BYTES)
        .map_err(|e| format!("the serial port's registers at {address:#x} cannot be mapped: {e}"))?;
    // SAFETY: the register is inside the new mapping, and aligned. No driver uses the port, otherwise the kernel would
    // have refused the mapping.
    unsafe {
        let control = mapped.add(CONTROL).cast::<u32>();
        control.write_volatile(control.read_volatile() | RUNS | TRANSMITS);
    }
    MAPPED.store(mapped, Ordering::Relaxed);
    Ok(())
}
