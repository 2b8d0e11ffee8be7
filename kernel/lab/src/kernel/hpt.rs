//! Three drivers for RAID controllers that the machine does not have, like FreeBSD's `hpt*`.
//!
//! A probe should only check that the hardware is there. `hpt=in-probe` sets up the command blocks first. That work belongs in
//! attach. In the probe, every driver does it in every boot, even on machines without a controller.

use crate::boot;
use crate::device::{Device, Failure, Fit, Location, driver};
use alloc::vec::Vec;
use lab::switches::Hpt;

driver!(hptnr, on pci, probe, attach);
driver!(hptrr, on pci, probe, attach);
driver!(hpt27xx, on pci, probe, attach);

const HIGHPOINT: u16 = 0x1103;
const CLASS_STORAGE: u8 = 1;
const COMMANDS: usize = 2048;
const SEGMENTS: usize = 16;
/// Number of adapters that such a driver prepares for.
const ADAPTERS: usize = 256;

/// A command for a controller, with its scatter list.
struct Command {
    next: u32,
    segments: [(u64, u32); SEGMENTS],
    checksum: u32,
}

/// Sets up the command blocks of all possible adapters. The checksum of a command is over its scatter list.
#[inline(never)]
fn initialise() -> u32 {
    let _scope = tslog::scope!("hpt_initialise");
    (0..ADAPTERS as u32).map(initialise_adapter).fold(0, u32::wrapping_add)
}

fn initialise_adapter(adapter: u32) -> u32 {
    let mut commands: Vec<Command> = Vec::with_capacity(COMMANDS);
    for number in 0..COMMANDS as u32 {
        let segments = core::array::from_fn(|i| (u64::from(number) << 12, i as u32 * 512 + adapter));
        let checksum = segments
            .iter()
            .fold(0x811c_9dc5, |sum: u32, &(address, bytes)| (sum ^ address as u32 ^ bytes).wrapping_mul(0x0100_0193));
        commands.push(Command { next: number + 1, segments, checksum });
    }
    commands.iter().fold(0, |sum, command| sum ^ command.checksum ^ command.next ^ command.segments[0].1)
}

fn probe(device: &Device) -> Option<Fit> {
    let Location::Pci(function) = device.location else { return None };
    // The bus probes every function. The driver does the work for the storage controllers of all vendors.
    if boot::switches().hpt == Hpt::InProbe && function.class == CLASS_STORAGE {
        core::hint::black_box(initialise());
    }
    (function.vendor == HIGHPOINT).then_some(Fit::Exact)
}

fn attach(_: &Device) -> Result<(), Failure> {
    core::hint::black_box(initialise());
    Ok(())
}
