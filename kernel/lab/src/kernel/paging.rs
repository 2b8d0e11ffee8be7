//! Page tables: the mappings and their protection.
//!
//! ```text
//! 0x0000_0000_0000_0000  one unmapped page, so that a null pointer faults
//! 0x0000_0000_0000_1000  memory and devices, each at its physical address, to the end of memory or 4 GiB:
//!                          0x8000  the trampoline of application processors: executable
//!                        0x200000  the kernel: text executable, constants read-only, the rest data
//!                                  above it, outside of memory: devices, uncached
//! 0x0000_0080_0000_0000  the user process
//! 0xffff_c000_0000_0000  addresses that the arena hands out (`vmem.rs`):
//!                          thread stacks, of 64 KiB each, the lower half unmapped: an overflow faults
//!                          cached pages of disks (`cache.rs`)
//!                          buffers of the network driver, unmapped (`em.rs`)
//!                          memory and registers that drivers map (`phys.rs`)
//! ```

use crate::lock::SpinLock;
use crate::memory::{self, kernel_image};
use crate::{boot, shootdown};
use lab::memory_map::FRAME_BYTES;
use x86_64::PhysAddr;
use x86_64::registers::control::{Cr3, Cr3Flags};
use x86_64::structures::paging::{PageTable, PageTableFlags as Flags, PhysFrame};

pub const USER_BASE: u64 = 0x80_0000_0000;
pub const KERNEL_BASE: u64 = 0xffff_c000_0000_0000;
/// Number of addresses in the arena.
pub const KERNEL_ADDRESSES: u64 = 1 << 44;
pub const HUGE_BYTES: u64 = 2 << 20;
const FOUR_GIB: u64 = 1 << 32;

pub const DATA: Flags = Flags::PRESENT.union(Flags::WRITABLE).union(Flags::NO_EXECUTE);
const DEVICE: Flags = DATA.union(Flags::NO_CACHE).union(Flags::WRITE_THROUGH);
const TEXT: Flags = Flags::PRESENT;
const CONSTANTS: Flags = Flags::PRESENT.union(Flags::NO_EXECUTE);

/// The root of the page tables. It is in the kernel's image, below 4 GiB, because application processors load it before they
/// can reach higher addresses.
static ROOT: SpinLock<PageTable> = SpinLock::new(PageTable::new());

unsafe extern "C" {
    static rodata_start: u8;
    static data_start: u8;
}

/// Maps memory and devices, and switches to the new tables.
pub fn start() {
    let _scope = tslog::scope!("paging_start");
    let mut root = ROOT.lock();
    let end = memory::end().max(FOUR_GIB).next_multiple_of(HUGE_BYTES);
    let small = (&raw const data_start).addr() as u64;
    let small = small.next_multiple_of(HUGE_BYTES);
    for phys in (FRAME_BYTES..small).step_by(FRAME_BYTES as usize) {
        set(&mut root, phys, phys, flags_of_low_page(phys));
    }
    for phys in (small..end).step_by(HUGE_BYTES as usize) {
        set_huge(&mut root, phys, if is_memory(phys) { DATA } else { DEVICE });
    }
    let phys = PhysAddr::new(core::ptr::from_ref(&*root).addr() as u64);
    // SAFETY: the tables map all that was mapped before, including this code and its stack.
    unsafe { Cr3::write(PhysFrame::containing_address(phys), Cr3Flags::empty()) };
}

/// Protection of a page below the first 2 MiB boundary after the kernel's constants.
fn flags_of_low_page(phys: u64) -> Flags {
    let (rodata, data) = ((&raw const rodata_start).addr() as u64, (&raw const data_start).addr() as u64);
    match phys {
        crate::smp::TRAMPOLINE => Flags::PRESENT | Flags::WRITABLE,
        _ if phys >= kernel_image().start && phys < rodata => TEXT,
        _ if phys >= rodata && phys < data => CONSTANTS,
        _ => DATA,
    }
}

fn is_memory(phys: u64) -> bool {
    boot::map().iter().any(|r| r.kind == 1 && r.from < phys + HUGE_BYTES && r.from.saturating_add(r.bytes) > phys)
}

/// Maps one page.
pub fn map(virt: u64, phys: u64, flags: Flags) {
    set(&mut ROOT.lock(), virt, phys, flags);
}

/// Unmaps one page, and returns its frame. After that no CPU reaches the frame by this page.
pub fn unmap(virt: u64) -> Option<u64> {
    let phys = take_entry(virt);
    shootdown::forget(virt);
    phys
}

fn take_entry(virt: u64) -> Option<u64> {
    let mut root = ROOT.lock();
    let level2 = next(next(&mut root, virt, 39), virt, 30);
    let entry = &mut next(level2, virt, 21)[index(virt, 12)];
    let phys = (!entry.is_unused()).then(|| entry.addr().as_u64());
    entry.set_unused();
    phys
}

/// Physical address of the root.
pub fn root_phys() -> u64 {
    Cr3::read().0.start_address().as_u64()
}

fn set(root: &mut PageTable, virt: u64, phys: u64, flags: Flags) {
    let level2 = next(next(root, virt, 39), virt, 30);
    next(level2, virt, 21)[index(virt, 12)].set_addr(PhysAddr::new(phys), flags);
}

fn set_huge(root: &mut PageTable, phys: u64, flags: Flags) {
    next(next(root, phys, 39), phys, 30)[index(phys, 21)].set_addr(PhysAddr::new(phys), flags | Flags::HUGE_PAGE);
}

fn index(virt: u64, shift: u32) -> usize {
    (virt >> shift & 511) as usize
}

/// The next lower table. If it is missing, creates it for ever. Only the last table decides the protection of a page.
fn next(table: &mut PageTable, virt: u64, shift: u32) -> &mut PageTable {
    let entry = &mut table[index(virt, shift)];
    if entry.is_unused() {
        let flags = Flags::PRESENT | Flags::WRITABLE | Flags::USER_ACCESSIBLE;
        entry.set_addr(PhysAddr::new(memory::allocate_frame_for_ever()), flags);
    }
    assert!(!entry.flags().contains(Flags::HUGE_PAGE), "paging::next: {virt:#x} is in a huge page");
    // SAFETY: the entry points at a table that only these functions use, and memory is identity mapped.
    unsafe { &mut *(entry.addr().as_u64() as *mut PageTable) }
}
