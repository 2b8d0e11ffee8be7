//! Intel's 82540 network card (QEMU's `e1000`). The driver does only what a boot needs to find a card by its address: it opens
//! the card, reads the address, and closes the card.
//!
//! Opening allocates a buffer for every descriptor of every ring, and closing frees all of them in the same order. The arena
//! determines the cost (`vmem.rs`). The buffers are addresses only, and the card never gets them.
//!
//! Opened or not, the driver may reset the card when it attaches, and wait for that (`pci_wait=`): 20 ms for each card.
//!
//! Only a kernel that was loaded over the network looks for a card this way (`netboot=yes`): it reads the address of each card,
//! to find the one it was loaded by. That happens while drivers attach, before `vmem_update` has been started.

use crate::console::kprintln;
use crate::device::{Device, Failure, Fit, Location, driver};
use crate::{boot, clock, cpu, pci, thread, vmem};
use alloc::vec::Vec;
use lab::switches::{DmaBuffers, Netboot, PciWait};
use lab::vmem::CHAIN_STEPS;

driver!(em, on pci, probe, attach);

const INTEL: u16 = 0x8086;
const I82540EM: u16 = 0x100e;

/// Registers, from Intel's manual of the 8254x family.
const CONTROL: u64 = 0x0000;
const RECEIVE_ADDRESS_LOW: u64 = 0x5400;
const RECEIVE_ADDRESS_HIGH: u64 = 0x5404;
const RESET: u32 = 1 << 26;
const AFTER_RESET_US: u64 = 20_000;
const ROUNDS_BETWEEN_POLLS: u32 = 100;

/// Number of rings for `dma_buffers=many`. In illumos bug 12262 an i40e card had 256 rings of 1024 + 1024 + 1536 buffers.
const RINGS_MANY: usize = 8;
const BUFFERS_PER_RING: usize = 1024 + 1024 + 1536;
const BUFFER_BYTES: u64 = 2048;

fn probe(device: &Device) -> Option<Fit> {
    let Location::Pci(function) = device.location else { return None };
    ((function.vendor, function.device) == (INTEL, I82540EM)).then_some(Fit::Exact)
}

fn attach(device: &Device) -> Result<(), Failure> {
    let Location::Pci(function) = device.location else { return Err(Failure("not on PCI")) };
    let registers = pci::memory_of(&function).ok_or(Failure("its registers are nowhere, or above 4 GiB"))?;
    match boot::switches().pci_wait {
        PciWait::None => {}
        wait => reset(registers, wait),
    }
    if boot::switches().netboot == Netboot::No {
        kprintln!("{}: not opened, 0{CHAIN_STEPS}", device.name);
        return Ok(());
    }
    let buffers = start(registers);
    let address = [RECEIVE_ADDRESS_LOW, RECEIVE_ADDRESS_HIGH].map(|register| read(registers, register));
    let before = vmem::steps();
    stop(buffers);
    let [low, high] = address.map(u32::swap_bytes);
    kprintln!("{}: {low:08x}{:04x}, {}{CHAIN_STEPS}", device.name, high >> 16, vmem::steps() - before);
    Ok(())
}

/// Resets the card, and leaves it alone for the required time.
#[inline(never)]
fn reset(registers: u64, wait: PciWait) {
    let _scope = tslog::scope!("em_reset");
    write(registers, CONTROL, RESET);
    if wait == PciWait::Sleep {
        return thread::sleep_us(AFTER_RESET_US);
    }
    let until_ns = clock::now_ns() + AFTER_RESET_US * 1000;
    while clock::now_ns() < until_ns {
        cpu::spin(ROUNDS_BETWEEN_POLLS);
        // If CPUs take turns, this gives the next CPU its turn.
        core::hint::spin_loop();
    }
}

#[inline(never)]
fn start(registers: u64) -> Vec<u64> {
    let _scope = tslog::scope!("em_start");
    let rings = if boot::switches().dma_buffers == DmaBuffers::Many { RINGS_MANY } else { 1 };
    let buffers = (0..rings * BUFFERS_PER_RING).map(|_| vmem::allocate(BUFFER_BYTES)).collect();
    write(registers, CONTROL, RESET);
    thread::sleep_us(AFTER_RESET_US);
    buffers
}

#[inline(never)]
fn stop(buffers: Vec<u64>) {
    let _scope = tslog::scope!("em_stop");
    buffers.into_iter().for_each(free);
}

/// Frees a buffer. Each call is in the log, because the experiment shows its cost and how that changes from call to call. The
/// two events take 64 of about 20 000 instructions. The events of all calls fill a quarter of the log.
fn free(buffer: u64) {
    let _scope = tslog::scope!("vmem_free");
    vmem::free(buffer, BUFFER_BYTES);
}

fn read(registers: u64, register: u64) -> u32 {
    // SAFETY: `pci::memory_of` returned the address of the device's registers, and devices are mapped uncached.
    unsafe { ((registers + register) as *const u32).read_volatile() }
}

fn write(registers: u64, register: u64, value: u32) {
    // SAFETY: as above. The card has no address of memory.
    unsafe { ((registers + register) as *mut u32).write_volatile(value) }
}
