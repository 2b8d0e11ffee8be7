//! Finds where each stage of an x86 boot first ran, from the addresses of the code.
//!
//! Checked on boots of QEMU's own loader (`-kernel`) with SeaBIOS and OVMF on pc and q35, with qboot on microvm, of a
//! bzImage with and without KASLR and of a PVH ELF kernel:
//! - The **firmware** runs first (`0xfffffff0`). It moves itself (SeaBIOS: low ROM, top of RAM), so it has no range of
//!   addresses: it lasts until another stage is recognised.
//! - An **option ROM** is initialised by a far call of its byte 3; images begin at multiples of 2 KiB. SeaBIOS's own
//!   code lies in the same range until it has moved to RAM above 1 MiB, so only later code is a ROM's.
//! - The **loader** is the last entry into ROM code that is neither an initialisation nor a return into it (QEMU's
//!   linuxboot, multiboot or pvh ROM fetches the kernel from there), or a boot sector at 0x7c00. qboot has no loader:
//!   it loads the kernel itself.
//! - The kernel's real-mode **setup code** is entered 512 bytes into the segment that it is loaded to.
//! - The **decompressor** starts at 1 MiB (64-bit entry: 512 bytes further). A boot sector's loader (GRUB) uses that
//!   place itself, so there the decompressor is only recognised after it has moved away from the place that it unpacks
//!   to. UEFI starts a kernel as a program, wherever there is room: its stub is the first code that runs near the jump
//!   to the kernel.
//! - The **early kernel** runs identity mapped, from `startup_64` on: the last target of a far indirect jump before the
//!   first block in the upper half of the address space. It lies at the image's start (6.1), a little after it (6.12)
//!   or 40 MB into it (7.2); images are loaded at multiples of 2 MiB. A PVH kernel is entered in its image, before
//!   `startup_64`.
//! - The **kernel** is the upper half. **User space** is the lower half after that, from 1 MiB on (below it lies the
//!   code that starts further CPUs). Its first block may belong to a helper that the kernel ran before process 1.
//!
//! Not covered: the parts of UEFI firmware, 32-bit kernels, PVH kernels whose entry is 2 MiB or more into the image
//! (their identity-mapped code gets wrong names), other architectures. Code that is not recognised is left out, never
//! guessed.

use crate::boot::stage::{Region, Stage};
use crate::formats::first_executions::{Block, Ending, FirstExecutions};
use ::arch::x86_64::UPPER_HALF;

const MIB: u64 = 1 << 20;
/// Kernels are loaded at multiples of this (`CONFIG_PHYSICAL_ALIGN` is at least this in 64-bit kernels), and
/// `startup_64` is less than this from the start.
const IMAGE_ALIGN: u64 = 2 * MIB;
/// Shorter jumps stay within a program.
const FAR: u64 = MIB / 8;
/// The code of the stub and the decompressor is contiguous, and shorter than this.
const STUB_MAX: u64 = MIB / 2;
/// No kernel image is longer than this, nor further from the code that unpacks it.
const IMAGE_MAX: u64 = 256 * MIB;
/// The firmware's ROM below 4 GiB.
const RESET_ROM: u64 = 0xff00_0000;
const BOOT_SECTOR: u64 = 0x7c00;
const DECOMPRESSOR: [u64; 2] = [MIB, MIB + 0x200];
/// The addresses at which the setup code is entered, in the segments that QEMU and older loaders use.
const SETUP_CODE: [u64; 2] = [0x1_0200, 0x9_0200];

/// The recognised stages after the firmware's first block, in no order.
pub(super) fn stages(run: &FirstExecutions) -> Vec<Region> {
    let upper = run.blocks.addresses().iter().position(|&address| address >= UPPER_HALF);
    // All stages are found among these blocks, except user space, which begins later.
    let blocks: Vec<Block> = run.blocks.iter().take(upper.map_or(usize::MAX, |upper| upper + 1)).collect();
    let mut found = Vec::new();
    let mut add = |stage, i: usize, why: &str| found.push(Region::of(stage, &run.blocks.get(i), why));
    let kernel = upper.unwrap_or(blocks.len());
    let boot_sector = blocks[..kernel].iter().position(|b| b.address == BOOT_SECTOR);
    let image = upper.and_then(|_| startup(&blocks[..kernel]));
    let image_at = image.unwrap_or(kernel);

    let (decompressor, why) = match boot_sector {
        Some(_) => (image.and_then(|i| moved_decompressor(&blocks[..i])), "the decompressor, when it has moved"),
        None => match blocks[..image_at].iter().position(|b| DECOMPRESSOR.contains(&b.address)) {
            None => (image.and_then(|i| efi_stub(&blocks, i)), "the kernel's EFI stub, which unpacks it"),
            found => (found, "entry of the decompressor"),
        },
    };
    let early = match (image, decompressor) {
        (Some(i), None) => Some(entry_in_image(&blocks, i)),
        (image, _) => image,
    };
    let loaded = decompressor.or(early).unwrap_or(kernel);
    let setup = blocks[..loaded].iter().position(|b| SETUP_CODE.contains(&b.address));
    let firmware = &blocks[..setup.unwrap_or(loaded)];

    let entries = rom_entries(firmware);
    if let Some(&i) = entries.iter().find(|&&i| is_rom_init(&blocks[i])) {
        add(Stage::OptionRom, i, "initialisation of the first option ROM");
    }
    if let Some(i) = boot_sector {
        add(Stage::Loader, i, "boot sector");
    } else if let Some(&i) = entries.last().filter(|&&i| !is_rom_init(&blocks[i])) {
        add(Stage::Loader, i, "last entry into option ROM code before the kernel's");
    }
    if let Some(i) = setup {
        add(Stage::SetupCode, i, "entry of the kernel's real-mode code");
    }
    if let Some(i) = decompressor {
        add(Stage::Decompressor, i, why);
    }
    if let Some(i) = early {
        let why = if Some(i) == image { "entry of the kernel" } else { "entry in the kernel's image" };
        add(Stage::EarlyKernel, i, why);
    }
    if let Some(i) = upper {
        add(Stage::Kernel, i, "first block in the upper half of the address space");
        // A PVH kernel goes to the upper half and back before it stays there.
        let image = image.map(|i| image_start(&blocks[i])).map_or(0..0, |start| start..start + IMAGE_MAX);
        let is_user = |address: &u64| (MIB..UPPER_HALF).contains(address) && !image.contains(address);
        if let Some(u) = run.blocks.addresses()[i..].iter().position(is_user) {
            add(Stage::UserSpace, i + u, "first block in the lower half after the kernel's");
        }
    }
    if let (Some(i), Some(early)) = (image, found.iter_mut().find(|r| r.stage == Stage::EarlyKernel)) {
        early.startup = Some(blocks[i].address);
    }
    found
}

fn image_start(startup: &Block) -> u64 {
    startup.address - startup.address % IMAGE_ALIGN
}

/// The index of the block of `startup_64`, among the blocks before the first one in the upper half.
fn startup(before: &[Block]) -> Option<usize> {
    (1..before.len()).rev().take_while(|&i| before[i].address >= MIB).find(|&i| {
        let from = &before[i - 1];
        from.ending == Ending::JumpIndirect && from.address.abs_diff(before[i].address) >= FAR
    })
}

fn is_rom(address: u64) -> bool {
    (0xc_0000..0xe_0000).contains(&address)
}

/// The indices of blocks that enter ROM code from outside, except by returning into it, in order.
fn rom_entries(blocks: &[Block]) -> Vec<usize> {
    let moved = blocks.iter().position(|b| (MIB..RESET_ROM).contains(&b.address)).unwrap_or(blocks.len());
    let mut entries = Vec::new();
    let mut ends: Vec<u64> = Vec::new();
    for i in moved + 1..blocks.len() {
        let b = &blocks[i];
        if is_rom(b.address) {
            if !is_rom(blocks[i - 1].address) && !ends.contains(&b.address) {
                entries.push(i);
            }
            ends.push(b.end());
        }
    }
    entries
}

fn is_rom_init(b: &Block) -> bool {
    b.address % 0x800 == 3
}

/// The index at which a kernel without a decompressor is entered: the first of the consecutive blocks in its image that
/// lead up to `startup_64`.
fn entry_in_image(blocks: &[Block], image: usize) -> usize {
    let start = image_start(&blocks[image]);
    let inside = |b: &Block| (start..start + IMAGE_MAX).contains(&b.address);
    image - blocks[..image].iter().rev().take_while(|b| inside(b)).count()
}

/// The stub of a kernel that UEFI started, which unpacks the kernel: near the jump to the kernel's `image`. UEFI lies
/// above 1 MiB. Code that starts a kernel without a decompressor (QEMU's PVH ROM, qboot) lies below.
fn efi_stub(blocks: &[Block], image: usize) -> Option<usize> {
    let from = blocks[entry_in_image(blocks, image).checked_sub(1)?].address;
    let last = blocks[image - 1].address;
    let stub = || blocks[..image].iter().position(|b| b.address.abs_diff(last) < STUB_MAX);
    (from >= MIB).then(stub).flatten()
}

/// The first of the consecutive blocks above 1 MiB that lead up to the kernel and lie near the last of them.
fn moved_decompressor(before: &[Block]) -> Option<usize> {
    let last = before.last()?.address;
    let n = before.iter().rev().take_while(|b| b.address >= MIB && b.address.abs_diff(last) < IMAGE_MAX).count();
    (n > 0).then(|| before.len() - n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::regions::regions;
    use crate::formats::first_executions::tests::blocks;
    use Ending::*;

    fn check(addresses: &[(u64, Ending)], expected: &[(Stage, u64)]) {
        let rows: Vec<_> = (0i64..).zip(addresses).map(|(us, &(a, ending))| (us, a, 4, ending, 0, 1)).collect();
        let got: Vec<_> = regions(&blocks(&rows)).iter().map(|r| (r.stage, r.address)).collect();
        assert_eq!(got, expected);
    }

    const HIGH: u64 = 0xffff_ffff_9f20_00d3;

    /// As seen on `-M pc -kernel bzImage` with KASLR: SeaBIOS before and after it moved (0xd4003 looks like a ROM's
    /// initialisation), two ROMs initialised, the second one's boot entry, BIOS calls in between.
    #[test]
    fn seabios_and_linuxboot() {
        check(
            &[
                (0xffff_fff0, JumpIndirect),
                (0xf_e05b, Other),
                (0xe_7c97, Jump),
                (0xd_4003, Call),
                (0x1eff_bab6, Return),
                (0xe_e410, CallIndirect),
                (0xc_0003, Return),
                (0xe_e495, CallIndirect),
                (0xc_0803, Return),
                (0xf_cf85, InterruptReturn),
                (0xc_0054, Trap),
                (0xf_f859, InterruptReturn),
                (0xc_0058, JumpIndirect),
                (0x1_0200, Jump),
                (0xf_7047, InterruptReturn),
                (0x10_0000, Call),
                (0xe6_5850, Return),
                (0x431_9950, JumpIndirect),
                (0xfe0_0000, Jump),
                (0x10c0_1ef0, Return),
                (HIGH, Call),
                (0x9_a000, Jump),
                (0x40_1670, Call),
            ],
            &[
                (Stage::Firmware, 0xffff_fff0),
                (Stage::OptionRom, 0xc_0003),
                (Stage::Loader, 0xc_0054),
                (Stage::SetupCode, 0x1_0200),
                (Stage::Decompressor, 0x10_0000),
                (Stage::EarlyKernel, 0xfe0_0000),
                (Stage::Kernel, HIGH),
                (Stage::UserSpace, 0x40_1670),
            ],
        );
    }

    #[test]
    fn qboot_loads_the_kernel_itself() {
        check(
            &[
                (0xffff_fff0, Jump),
                (0xf_001a, Call),
                (0x1_0200, Jump),
                (0x10_0000, JumpIndirect),
                (0x100_0c43, Jump),
                (HIGH, Call),
            ],
            &[
                (Stage::Firmware, 0xffff_fff0),
                (Stage::SetupCode, 0x1_0200),
                (Stage::Decompressor, 0x10_0000),
                (Stage::EarlyKernel, 0x100_0c43),
                (Stage::Kernel, HIGH),
            ],
        );
    }

    #[test]
    fn a_pvh_kernel_has_no_decompressor() {
        check(
            &[
                (0xffff_fff0, Jump),
                (0x1eff_bab6, Return),
                (0xe_e410, CallIndirect),
                (0xc_0003, Return),
                (0xe_e410, Return),
                (0xc_0059, JumpIndirect),
                (0x100_0850, Call),
                (0x100_08a0, Call),
                (HIGH, Return),
                (0x100_08cb, JumpIndirect),
                (0x100_0000, Jump),
                (HIGH + 0x100, Call),
            ],
            &[
                (Stage::Firmware, 0xffff_fff0),
                (Stage::OptionRom, 0xc_0003),
                (Stage::Loader, 0xc_0059),
                (Stage::EarlyKernel, 0x100_0850),
                (Stage::Kernel, HIGH),
            ],
        );
    }

    /// As seen with OVMF and KASLR, much shortened: the stub calls the firmware until it no longer needs it.
    #[test]
    fn uefi_starts_the_kernel_as_a_program() {
        check(
            &[
                (0xffff_fff0, Jump),
                (0xfffc_c7be, Call),
                (0x82_4985, Call),
                (0x1ff4_e7b7, CallIndirect),
                (0x1ea2_83d9, Return),
                (0x1bb2_5e97, CallIndirect),
                (0x1e79_9925, Return),
                (0x1bb2_1539, Jump),
                (0x1ff0_0333, Jump),
                (0x1bb2_11f9, JumpIndirect),
                (0x11a0_0000, Jump),
                (0x1280_1ef0, Return),
                (0xffff_ffff_87a0_00d3, Call),
            ],
            &[
                (Stage::Firmware, 0xffff_fff0),
                (Stage::Decompressor, 0x1bb2_5e97),
                (Stage::EarlyKernel, 0x11a0_0000),
                (Stage::Kernel, 0xffff_ffff_87a0_00d3),
            ],
        );
    }

    /// GRUB runs at 1 MiB before the kernel's decompressor does.
    #[test]
    fn a_boot_sector_loads_the_kernel() {
        check(
            &[
                (0xffff_fff0, Jump),
                (0x7c00, Jump),
                (0x8200, Call),
                (0x10_0000, Call),
                (0x1eee_0000, Jump),
                (0x9000, JumpIndirect),
                (0x231_9950, Call),
                (0x231_a000, JumpIndirect),
                (0x100_0000, Jump),
                (HIGH, Call),
            ],
            &[
                (Stage::Firmware, 0xffff_fff0),
                (Stage::Loader, 0x7c00),
                (Stage::Decompressor, 0x231_9950),
                (Stage::EarlyKernel, 0x100_0000),
                (Stage::Kernel, HIGH),
            ],
        );
    }

    #[test]
    fn missing_stages_are_left_out() {
        check(&[], &[]);
        check(
            &[(0xffff_fff0, Jump), (0x10_0000, Call)],
            &[(Stage::Firmware, 0xffff_fff0), (Stage::Decompressor, 0x10_0000)],
        );
        check(&[(HIGH, Jump)], &[(Stage::Firmware, HIGH), (Stage::Kernel, HIGH)]);
    }
}
