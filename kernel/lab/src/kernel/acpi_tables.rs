//! What the firmware's ACPI tables say: which CPUs there are, and how the machine is switched off.

use crate::boot;
use acpi::fadt::Fadt;
use acpi::madt::{Madt, MadtEntry};
use acpi::{AcpiHandler, AcpiTables, PhysicalMapping};
use core::ptr::NonNull;

/// Memory is mapped onto itself: nothing to map.
#[derive(Clone)]
struct Identity;

impl AcpiHandler for Identity {
    unsafe fn map_physical_region<T>(&self, phys: usize, bytes: usize) -> PhysicalMapping<Self, T> {
        let pointer = NonNull::new(phys as *mut T).expect("acpi_tables: a table at address 0");
        // SAFETY: the caller says that a T is there, and it is mapped for ever.
        unsafe { PhysicalMapping::new(phys, pointer, bytes, bytes, Identity) }
    }

    fn unmap_physical_region<T>(_: &PhysicalMapping<Self, T>) {}
}

fn tables() -> Option<AcpiTables<Identity>> {
    let rsdp = boot::rsdp_phys();
    if rsdp == 0 {
        return None;
    }
    // SAFETY: the boot information says that it is there; its checksum is looked at.
    unsafe { AcpiTables::from_rsdp(Identity, rsdp as usize) }.ok()
}

/// Calls `each` with the local APIC's number of every CPU that can be used. Without ACPI with none.
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

/// The port that puts the machine to sleep, if it has one.
pub fn sleep_port() -> Option<u16> {
    let fadt = tables()?.find_table::<Fadt>().ok()?;
    let block = fadt.pm1a_control_block().ok()?;
    u16::try_from(block.address).ok().filter(|&port| port != 0)
}
