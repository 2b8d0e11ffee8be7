//! The way to the host on the i.MX6: a serial port that the board's device tree leaves switched off, so that no driver has its registers
//! (i.MX 6Dual/6Quad Reference Manual, chapter 64).
//!
//! QEMU's ports send at once whatever is written. A board's would have to be clocked first, and waited for.

use crate::arch::physical::map;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

const PAGE_BYTES: u64 = 4 << 10;
const BYTES: usize = 0x100;
/// A byte that is written here is sent.
const TRANSMIT: usize = 0x40;
/// Control register 2.
const CONTROL: usize = 0x84;
/// In it: out of reset, and may transmit.
const RUNS: u32 = 1;
const TRANSMITS: u32 = 1 << 2;

/// Where the registers are mapped; null until they are.
static MAPPED: AtomicPtr<u8> = AtomicPtr::new(null_mut());

/// Sends bytes as they are; none before the registers are mapped.
pub fn put(bytes: &[u8]) {
    let mapped = MAPPED.load(Ordering::Relaxed);
    if mapped.is_null() {
        return;
    }
    for &byte in bytes {
        // SAFETY: `MAPPED` is null or what `map` has mapped and never unmaps; the register is inside, and aligned.
        unsafe { mapped.add(TRANSMIT).cast::<u32>().write_volatile(byte.into()) };
    }
}

/// Maps the registers at this address and lets the port transmit; or says why it cannot.
pub fn open_at(address: u64) -> Result<(), String> {
    if !MAPPED.load(Ordering::Relaxed).is_null() {
        return Ok(());
    }
    let mapped = map(address, PAGE_BYTES, BYTES)
        .map_err(|e| format!("the serial port's registers at {address:#x} cannot be mapped: {e}"))?;
    // SAFETY: the register is inside of what was just mapped, and aligned. Nobody else uses the port, or the kernel had not given it.
    unsafe {
        let control = mapped.add(CONTROL).cast::<u32>();
        control.write_volatile(control.read_volatile() | RUNS | TRANSMITS);
    }
    MAPPED.store(mapped, Ordering::Relaxed);
    Ok(())
}
