//! Reads the firmware's ACPI tables: the CPUs, and the way to switch the machine off.

use crate::boot;
use crate::cpu::outw;
use acpi::address::AddressSpace;
use acpi::fadt::Fadt;
use acpi::madt::{Madt, MadtEntry};
use acpi::{AcpiHandler, AcpiTables, PhysicalMapping};
use core::ptr::NonNull;

/// PM1 control: sleep enabled, and type 0, which is S5 on QEMU's machines.
const PM1_SLEEP_S5: u16 = 1 << 13;
/// The sleep control register: sleep enabled, type 5.
const SLEEP_CONTROL_S5: u8 = 1 << 5 | 5 << 2;
const FOUR_GIB: u64 = 1 << 32;

/// Maps nothing, because memory is identity mapped.
#[derive(Clone)]
struct Identity;

impl AcpiHandler for Identity {
    unsafe fn map_physical_region<T>(&self, phys: usize, bytes: usize) -> PhysicalMapping<Self, T> {
        let pointer = NonNull::new(phys as *mut T).expect("acpi_tables: a table at address 0");
        // SAFETY: the caller promises that a T is at the address, and memory stays mapped for ever.
        unsafe { PhysicalMapping::new(phys, pointer, bytes, bytes, Identity) }
    }

    fn unmap_physical_region<T>(_: &PhysicalMapping<Self, T>) {}
}

fn tables() -> Option<AcpiTables<Identity>> {
    let rsdp = boot::rsdp_phys();
    if rsdp == 0 {
        return None;
    }
    // SAFETY: the boot information has the address, and `from_rsdp` checks the checksum.
    unsafe { AcpiTables::from_rsdp(Identity, rsdp as usize) }.ok()
}

/// Calls `each` with the local APIC id of every usable CPU. Without ACPI it calls it for no CPU.
pub fn for_each_cpu(mut each: impl FnMut(u32)) {
    const ENABLED: u32 = 1;
    let Some(madt) = tables().and_then(|tables| tables.find_table::<Madt>().ok()) else { return };
    for entry in madt.get().entries() {
        match entry {
            MadtEntry::LocalApic(cpu) if { cpu.flags } & ENABLED != 0 => each(u32::from(cpu.apic_id)),
            _ => {}
        }
    }
}

/// Switches the machine off (S5), which takes a moment. Returns false if the tables do not describe how.
pub fn sleep_for_ever() -> bool {
    let Some(fadt) = tables().and_then(|tables| tables.find_table::<Fadt>().ok()) else { return false };
    let port = fadt.pm1a_control_block().ok().and_then(|block| u16::try_from(block.address).ok());
    if let Some(port) = port.filter(|&port| port != 0) {
        outw(port, PM1_SLEEP_S5);
        return true;
    }
    // Hardware-reduced ACPI, as on microvm.
    let Ok(Some(control)) = fadt.sleep_control_register() else { return false };
    let in_reach = control.address_space == AddressSpace::SystemMemory && (1..FOUR_GIB).contains(&control.address);
    if in_reach {
        // SAFETY: the tables have the register's address, and devices below 4 GiB are mapped at their addresses.
        unsafe { (control.address as *mut u8).write_volatile(SLEEP_CONTROL_S5) };
    }
    in_reach
}
