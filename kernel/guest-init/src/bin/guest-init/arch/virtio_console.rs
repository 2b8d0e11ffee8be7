//! The channel to the host on machines without I/O ports: QEMU's `virt` of several architectures.
//!
//! It is the emergency register of a virtio console, which prints a byte without a driver or a queue (Virtio 1.2,
//! 5.3.4).

use crate::arch::physical::map;
use guest_init::messages::registers;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The console's place on an architecture.
pub struct Place {
    /// The physical address of its registers.
    pub address: u64,
    /// The mapping begins at a multiple of this: the largest page of such kernels.
    pub page_bytes: u64,
}

/// The mapped registers; null before they are mapped.
static MAPPED: AtomicPtr<u8> = AtomicPtr::new(null_mut());

/// Sends bytes unchanged. Sends nothing before the registers are mapped.
pub fn put(bytes: &[u8]) {
    let mapped = MAPPED.load(Ordering::Relaxed);
    if mapped.is_null() {
        return;
    }
    for &byte in bytes {
        // The device ignores a word of zeros, and prints the lowest byte of any other word.
        let word = registers::NOT_ZERO | u32::from(byte);
        // SAFETY: `MAPPED` is null or a mapping that `map` made and that is never unmapped; the register is inside, and
        // aligned.
        unsafe { mapped.add(registers::EMERGENCY).cast::<u32>().write_volatile(word.to_le()) };
    }
}

/// Gets the right to use the registers. There is nothing to give up: no later program inherits the mapping.
pub fn allow(place: &Place, allow: bool) {
    if allow && MAPPED.load(Ordering::Relaxed).is_null() {
        // A failure changes nothing: the host then receives nothing.
        let _ = open_at(place);
    }
}

/// Maps the registers. The error is the reason why they are unavailable.
pub fn open_at(place: &Place) -> Result<(), String> {
    let at = place.address;
    let mapped = map(at, place.page_bytes, registers::BYTES)
        .map_err(|e| format!("the registers at {at:#x} cannot be mapped: {e}"))?;
    // SAFETY: both registers are inside the new mapping, and aligned.
    let read = |register: usize| u32::from_le(unsafe { mapped.add(register).cast::<u32>().read_volatile() });
    let found = (read(registers::MAGIC), read(registers::DEVICE));
    if found != (registers::IS_VIRTIO, registers::IS_CONSOLE) {
        return Err(format!("nobody listens at {at:#x} (it reads {:#x}, {:#x})", found.0, found.1));
    }
    MAPPED.store(mapped, Ordering::Relaxed);
    Ok(())
}
