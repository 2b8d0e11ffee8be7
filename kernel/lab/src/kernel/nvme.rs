//! NVMe controllers. The driver resets a controller by the specification, and never sends a command.
//!
//! The firmware may leave a controller enabled or disabled, and does not report which, so the driver resets it twice. Each time
//! it waits 100 ms first, and 5 ms after each of the two steps that enable the controller, as FreeBSD's driver does. Then it
//! polls the ready bit. With `reset=wait` all of that is in attach, so that attach can fail. With `reset=async` a thread does
//! it, asleep in between. The thread delays only a root mount that waits for every disk.

use crate::boot;
use crate::console::{kprintln, verbose};
use crate::device::{Device, Failure, Fit, Location, driver};
use crate::hold::ROOT_MOUNT;
use crate::phys::{self, Mapping, MemoryType};
use crate::{clock, pci, thread};
use lab::memory_map::FRAME_BYTES;
use lab::switches::Reset;

driver!(nvme, on pci, probe, attach);

const CLASS_STORAGE: u8 = 1;
const SUBCLASS_NVM: u8 = 8;

/// Registers, from the NVM Express base specification, section 3.1.
const CAPABILITIES: u64 = 0x00;
const CONFIGURATION: u64 = 0x14;
const STATUS: u64 = 0x1c;
const ADMIN_QUEUE_ATTRIBUTES: u64 = 0x24;
const ADMIN_SUBMISSION_QUEUE: u64 = 0x28;
const ADMIN_COMPLETION_QUEUE: u64 = 0x30;
const ENABLE: u32 = 1;
/// Submission entries of 2^6 bytes, completion entries of 2^4.
const ENTRY_SIZES: u32 = 6 << 16 | 4 << 20;
const READY: u32 = 1;
const FATAL: u32 = 2;
const ADMIN_ENTRIES: u32 = 64;

const RESETS: u32 = 2;
const BEFORE_RESET_US: u64 = 100_000;
const SETTLE_US: u64 = 5_000;
const POLL_US: u64 = 1_000;
/// Size of the used registers, without the doorbells.
const REGISTERS_BYTES: u64 = 0x1000;
/// Unit of the controller's time limit (CAP.TO).
const TIMEOUT_UNIT_US: u64 = 500_000;

/// A controller, by the mapping of its registers.
struct Controller(Mapping);

/// The queues whose addresses a controller gets.
struct Queues {
    submission: Mapping,
    completion: Mapping,
}

fn probe(device: &Device) -> Option<Fit> {
    let Location::Pci(function) = device.location else { return None };
    ((function.class, function.subclass) == (CLASS_STORAGE, SUBCLASS_NVM)).then_some(Fit::Class)
}

fn attach(device: &Device) -> Result<(), Failure> {
    let Location::Pci(function) = device.location else { return Err(Failure("not on PCI")) };
    let registers = pci::memory_of(&function).ok_or(Failure("its registers are nowhere, or above 4 GiB"))?;
    match boot::switches().reset {
        Reset::Wait => reset(registers, clock::delay_us),
        Reset::Async => {
            ROOT_MOUNT.hold();
            thread::create(device.name, finish, registers as usize);
            Ok(())
        }
    }
}

/// The thread that does the reset for attach. It is too late for attach to fail.
fn finish(registers: usize) {
    if let Err(Failure(why)) = reset(registers as u64, |us| thread::sleep_ns(us * 1000)) {
        kprintln!("nvme: lost: {why}");
    }
    ROOT_MOUNT.release();
}

/// Resets the controller. After that the controller keeps its queues for ever. If the reset fails, it is switched off and the
/// queues are unmapped.
fn reset(registers: u64, pause_us: impl Fn(u64)) -> Result<(), Failure> {
    let registers = phys::borrow(registers, REGISTERS_BYTES, MemoryType::Uncacheable);
    let controller = Controller(registers.map_err(|_| Failure("its registers are where memory is"))?);
    let queue = || phys::contiguous(FRAME_BYTES, MemoryType::WriteBack).ok_or(Failure("no memory for its queues"));
    let queues = Queues { submission: queue()?, completion: queue()? };
    let result = controller.reset(&queues, &pause_us);
    match result {
        // The mappings last as long as the machine is on.
        Ok(()) => core::mem::forget((controller, queues)),
        Err(_) => {
            controller.write(CONFIGURATION, 0);
            // Until the controller reports that it is off, it may write to the queues.
            if controller.wait_until_ready_is(0, &pause_us).is_err() {
                core::mem::forget(queues);
            }
        }
    }
    result
}

impl Controller {
    fn reset(&self, queues: &Queues, pause_us: impl Fn(u64)) -> Result<(), Failure> {
        const { assert!(ADMIN_ENTRIES as u64 * 64 <= FRAME_BYTES) };
        for _ in 0..RESETS {
            pause_us(BEFORE_RESET_US);
            self.write(CONFIGURATION, 0);
            self.wait_until_ready_is(0, &pause_us)?;
            self.write(ADMIN_QUEUE_ATTRIBUTES, (ADMIN_ENTRIES - 1) << 16 | (ADMIN_ENTRIES - 1));
            self.write_64(ADMIN_SUBMISSION_QUEUE, queues.submission.phys());
            self.write_64(ADMIN_COMPLETION_QUEUE, queues.completion.phys());
            pause_us(SETTLE_US);
            self.write(CONFIGURATION, ENABLE | ENTRY_SIZES);
            pause_us(SETTLE_US);
            self.wait_until_ready_is(READY, &pause_us)?;
        }
        verbose!("nvme: ready after {RESETS} resets");
        Ok(())
    }

    fn wait_until_ready_is(&self, wanted: u32, pause_us: &impl Fn(u64)) -> Result<(), Failure> {
        let timeout_us = u64::from(self.read(CAPABILITIES) >> 24).max(1) * TIMEOUT_UNIT_US;
        for _ in 0..timeout_us / POLL_US {
            match self.read(STATUS) {
                status if status & FATAL != 0 => return Err(Failure("the controller says that it is broken")),
                status if status & READY == wanted => return Ok(()),
                _ => pause_us(POLL_US),
            }
        }
        Err(Failure("the controller does not get ready"))
    }

    fn read(&self, register: u64) -> u32 {
        // SAFETY: `pci::memory_of` returned the address of the device's registers, and they are mapped uncached.
        unsafe { ((self.0.virt() + register) as *const u32).read_volatile() }
    }

    fn write(&self, register: u64, value: u32) {
        // SAFETY: as above. The controller's queues are mapped, so the allocator does not hand out their frames.
        unsafe { ((self.0.virt() + register) as *mut u32).write_volatile(value) }
    }

    fn write_64(&self, register: u64, value: u64) {
        self.write(register, value as u32);
        self.write(register + 4, (value >> 32) as u32);
    }
}
