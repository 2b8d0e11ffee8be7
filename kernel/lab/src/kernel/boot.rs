//! The boot information from the loader: command line, memory map, initrd, and the address of the ACPI tables.
//!
//! PVH's start_info and all it points to lie in low memory that is not reserved, so the kernel copies everything first. The
//! initrd stays in place and is cut out of free memory.

use crate::console::kprintln;
use core::cell::UnsafeCell;
use core::ops::Range;
use lab::memory_map::{REGIONS_MAX, Ram, Region};
use lab::switches::{LINE_BYTES_MAX, Switches};

const START_INFO_MAGIC: u32 = 0x336e_c578;

/// Xen's `struct hvm_start_info`, version 1.
#[repr(C)]
struct StartInfo {
    magic: u32,
    version: u32,
    flags: u32,
    modules: u32,
    modules_phys: u64,
    command_line_phys: u64,
    rsdp_phys: u64,
    memory_map_phys: u64,
    memory_map_entries: u32,
    reserved: u32,
}

const _: () = assert!(size_of::<StartInfo>() == 56);

/// `struct hvm_modlist_entry`: a file that was loaded with the kernel.
#[repr(C)]
struct Module {
    phys: u64,
    bytes: u64,
    command_line_phys: u64,
    reserved: u64,
}

/// `struct hvm_memmap_table_entry`.
#[repr(C)]
struct MapEntry {
    from: u64,
    bytes: u64,
    kind: u32,
    reserved: u32,
}

pub struct Boot {
    command_line: [u8; LINE_BYTES_MAX],
    command_line_bytes: usize,
    command_line_cut: bool,
    switches: Switches<'static>,
    map: [Region; REGIONS_MAX],
    map_entries: usize,
    map_entries_wanted: usize,
    ram: Ram,
    initrd: Range<u64>,
    rsdp_phys: u64,
}

struct Taken(UnsafeCell<Boot>);

// SAFETY: written once, by `take`, before there is a second CPU or a thread.
unsafe impl Sync for Taken {}

static BOOT: Taken = Taken(UnsafeCell::new(Boot {
    command_line: [0; LINE_BYTES_MAX],
    command_line_bytes: 0,
    command_line_cut: false,
    switches: Switches::new(),
    map: [Region { from: 0, bytes: 0, kind: 0 }; REGIONS_MAX],
    map_entries: 0,
    map_entries_wanted: 0,
    ram: Ram::NONE,
    initrd: 0..0,
    rsdp_phys: 0,
}));

/// Copies the boot information. Without it the kernel cannot boot, and panics.
pub fn take(start_info: u64) {
    let _scope = tslog::scope!("boot_take");
    // SAFETY: PVH leaves the physical address of a start_info in EBX, and memory is identity mapped. The magic is checked next.
    // Only this function uses `BOOT` now.
    let (info, boot) = unsafe { (&*(start_info as *const StartInfo), &mut *BOOT.0.get()) };
    assert!(info.magic == START_INFO_MAGIC && info.version >= 1, "boot::take: magic {:#x}", info.magic);
    boot.rsdp_phys = info.rsdp_phys;
    boot.command_line_bytes = copy_line(info.command_line_phys, &mut boot.command_line);
    boot.command_line_cut = boot.command_line_bytes == LINE_BYTES_MAX;
    boot.map_entries_wanted = info.memory_map_entries as usize;
    // SAFETY: the boot information has the address and the number of the entries.
    let entries: &[MapEntry] = unsafe { table(info.memory_map_phys, info.memory_map_entries as usize) };
    for (place, entry) in boot.map.iter_mut().zip(entries) {
        *place = Region { from: entry.from, bytes: entry.bytes, kind: entry.kind };
        boot.map_entries += 1;
    }
    boot.ram = Ram::of(&boot.map[..boot.map_entries]);
    // SAFETY: as above.
    let modules: &[Module] = unsafe { table(info.modules_phys, info.modules as usize) };
    if let Some(initrd) = modules.first() {
        boot.initrd = initrd.phys..initrd.phys + initrd.bytes;
    }
    let line: &'static [u8] = &boot.command_line[..boot.command_line_bytes];
    boot.switches = Switches::parse(core::str::from_utf8(line).unwrap_or_default());
}

/// The table of `count` entries at a physical address; empty if either is 0.
///
/// # Safety
/// If neither is 0, `count` entries are at the address.
unsafe fn table<T>(phys: u64, count: usize) -> &'static [T] {
    match (phys, count) {
        (0, _) | (_, 0) => &[],
        // SAFETY: the caller promises it.
        _ => unsafe { core::slice::from_raw_parts(phys as *const T, count) },
    }
}

/// Copies a string up to its NUL, cut to the room in `line`. Returns its length.
fn copy_line(phys: u64, line: &mut [u8]) -> usize {
    if phys == 0 {
        return 0;
    }
    for (at, byte) in line.iter_mut().enumerate() {
        // SAFETY: the boot information has the address of the string.
        *byte = unsafe { (phys as *const u8).add(at).read() };
        if *byte == 0 {
            return at;
        }
    }
    line.len()
}

fn boot() -> &'static Boot {
    // SAFETY: no code writes it after `take`.
    unsafe { &*BOOT.0.get() }
}

/// The choices of the command line.
pub fn switches() -> &'static Switches<'static> {
    &boot().switches
}

pub fn map() -> &'static [Region] {
    &boot().map[..boot().map_entries]
}

/// The memory of the machine, including that of the kernel and the initrd.
pub fn ram() -> &'static Ram {
    &boot().ram
}

/// Addresses of the initrd; empty if there is no initrd.
pub fn initrd() -> Range<u64> {
    boot().initrd.clone()
}

/// Address of the first ACPI table; 0 without ACPI.
pub fn rsdp_phys() -> u64 {
    boot().rsdp_phys
}

/// Prints the unknown and cut parts of the boot information. The boot goes on.
pub fn report() {
    let line = &boot().command_line[..boot().command_line_bytes];
    if core::str::from_utf8(line).is_err() {
        kprintln!("command line: not UTF-8, ignored");
    }
    if boot().command_line_cut {
        kprintln!("command line: cut after {LINE_BYTES_MAX} bytes");
    }
    if boot().map_entries_wanted > boot().map_entries {
        kprintln!("memory map: {} entries, {} are used", boot().map_entries_wanted, boot().map_entries);
    }
    for word in switches().unknown() {
        kprintln!("command line: not understood: {word}");
    }
    let more = switches().unknown_count() - switches().unknown().count();
    if more > 0 {
        kprintln!("command line: and {more} words more");
    }
}
