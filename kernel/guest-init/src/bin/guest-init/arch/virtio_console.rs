//! The way to the host on machines without I/O ports: QEMU's `virt` of several architectures.
//!
//! It is the emergency register of a virtio console, which prints a byte without a driver or a queue (Virtio 1.2, 5.3.4).

use crate::arch::physical::map;
use guest_init::messages::registers;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Where an architecture has the console.
pub struct Place {
    /// Its registers' physical address.
    pub address: u64,
    /// What is mapped begins at a multiple of this: the largest page that such a kernel has.
    pub page_bytes: u64,
}

/// Where the registers are mapped; null until they are.
static MAPPED: AtomicPtr<u8> = AtomicPtr::new(null_mut());

/// Sends bytes as they are; none before the registers are mapped.
pub fn put(bytes: &[u8]) {
    let mapped = MAPPED.load(Ordering::Relaxed);
    if mapped.is_null() {
        return;
    }
    for &byte in bytes {
        // A word of zeros is ignored, and the lowest byte of a word is printed.
        let word = registers::NOT_ZERO | u32::from(byte);
        // SAFETY: `MAPPED` is null or what `map` has mapped and never unmaps; the register is inside, and aligned.
        unsafe { mapped.add(registers::EMERGENCY).cast::<u32>().write_volatile(word.to_le()) };
    }
}

/// Takes the right to use the registers. There is none to give up: no program that follows inherits what is mapped.
pub fn allow(place: &Place, allow: bool) {
    if allow && MAPPED.load(Ordering::Relaxed).is_null() {
        // Its failure leaves things as they are: nothing is heard.
        let _ = open_at(place);
    }
}

/// Maps the registers; or says why they cannot be had.
pub fn open_at(place: &Place) -> Result<(), String> {
    let at = place.address;
    let mapped = map(at, place.page_bytes, registers::BYTES)
        .map_err(|e| format!("the registers at {at:#x} cannot be mapped: {e}"))?;
    // SAFETY: both registers are inside of what was just mapped, and aligned.
    let read = |register: usize| u32::from_le(unsafe { mapped.add(register).cast::<u32>().read_volatile() });
    let found = (read(registers::MAGIC), read(registers::DEVICE));
    if found != (registers::IS_VIRTIO, registers::IS_CONSOLE) {
        return Err(format!("nobody listens at {at:#x} (it reads {:#x}, {:#x})", found.0, found.1));
    }
    MAPPED.store(mapped, Ordering::Relaxed);
    Ok(())
}
