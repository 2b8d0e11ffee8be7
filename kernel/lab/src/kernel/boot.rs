//! What the loader hands over: command line, memory map, initrd, and where the ACPI tables are.
//!
//! PVH's start_info and all it points to lie somewhere in low memory that nobody has reserved, so everything is copied
//! before anything else is done. The initrd stays where it is and is cut out of free memory.

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

/// Copies everything. Without boot information there is nothing to boot with.
pub fn take(start_info: u64) {
    let _scope = tslog::scope!("boot_take");
    // SAFETY: PVH leaves the physical address of a start_info in EBX, and memory is mapped onto itself; that it is one
    // is checked next. `BOOT` is this function's alone now.
    let (info, boot) = unsafe { (&*(start_info as *const StartInfo), &mut *BOOT.0.get()) };
    assert!(info.magic == START_INFO_MAGIC && info.version >= 1, "boot::take: magic {:#x}", info.magic);
    boot.rsdp_phys = info.rsdp_phys;
    boot.command_line_bytes = copy_line(info.command_line_phys, &mut boot.command_line);
    boot.command_line_cut = boot.command_line_bytes == LINE_BYTES_MAX;
    boot.map_entries_wanted = info.memory_map_entries as usize;
    // SAFETY: the boot information says so many entries are there.
    let entries: &[MapEntry] = unsafe { table(info.memory_map_phys, info.memory_map_entries as usize) };
    for (place, entry) in boot.map.iter_mut().zip(entries) {
        *place = Region { from: entry.from, bytes: entry.bytes, kind: entry.kind };
        boot.map_entries += 1;
    }
    boot.ram = Ram::of(&boot.map[..boot.map_entries]);
    // SAFETY: likewise.
    let modules: &[Module] = unsafe { table(info.modules_phys, info.modules as usize) };
    if let Some(initrd) = modules.first() {
        boot.initrd = initrd.phys..initrd.phys + initrd.bytes;
    }
    let line: &'static [u8] = &boot.command_line[..boot.command_line_bytes];
    boot.switches = Switches::parse(core::str::from_utf8(line).unwrap_or_default());
}

/// # Safety
/// There are so many of them at that physical address, or there are none.
unsafe fn table<T>(phys: u64, count: usize) -> &'static [T] {
    match (phys, count) {
        (0, _) | (_, 0) => &[],
        // SAFETY: the caller's promise.
        _ => unsafe { core::slice::from_raw_parts(phys as *const T, count) },
    }
}

/// Copies up to the NUL; what is longer than there is room for is cut.
fn copy_line(phys: u64, line: &mut [u8]) -> usize {
    if phys == 0 {
        return 0;
    }
    for (at, byte) in line.iter_mut().enumerate() {
        // SAFETY: the boot information says that a string is there.
        *byte = unsafe { (phys as *const u8).add(at).read() };
        if *byte == 0 {
            return at;
        }
    }
    line.len()
}

fn boot() -> &'static Boot {
    // SAFETY: nobody writes it any more.
    unsafe { &*BOOT.0.get() }
}

/// What the command line decides.
pub fn switches() -> &'static Switches<'static> {
    &boot().switches
}

pub fn map() -> &'static [Region] {
    &boot().map[..boot().map_entries]
}

/// What memory there is, the kernel and the initrd included.
pub fn ram() -> &'static Ram {
    &boot().ram
}

/// Where the initrd lies; empty if there is none.
pub fn initrd() -> Range<u64> {
    boot().initrd.clone()
}

/// Where the ACPI tables begin; 0 if there are none.
pub fn rsdp_phys() -> u64 {
    boot().rsdp_phys
}

/// Says what was not understood: it is no reason not to boot.
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
