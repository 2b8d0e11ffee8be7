//! Finds where each stage of a 32-bit ARM boot first ran, from the addresses of the code.
//!
//! Checked on boots of QEMU's `virt` and `sabrelite` by its own loader (`-kernel`):
//! - The **firmware** is the few instructions at the start of RAM with which QEMU's loader enters a kernel. It has no
//!   range of addresses: it lasts until another stage is recognised.
//! - The **decompressor** is the zImage's own program, from its header on. It is the last program that is entered at
//!   the beginning of a page and jumps on from there. It moves itself away from the place that it unpacks to.
//! - The **early kernel** runs where it was unpacked, without a mapping, from `stext` on. The decompressor jumps to the
//!   one place that is [`TEXT_OFFSET`] above a multiple of [`IMAGE_ALIGN`] (arch/arm/kernel/head.S).
//! - The **kernel** is the upper part of the addresses. **User space** is the lower part after that, except the image:
//!   its first part starts further CPUs.
//!
//! Not covered: UEFI and the kernel's EFI stub. U-Boot counts as firmware here; only its console lines separate it.
//! Code that is not recognised is left out, never guessed.

use crate::boot::stage::{Region, Stage};
use crate::formats::first_executions::{Block, Ending, FirstExecutions};
use ::arch::arm::KERNEL_HALF;

const MIB: u64 = 1 << 20;
/// No other jump target is [`TEXT_OFFSET`] above a multiple of this.
const IMAGE_ALIGN: u64 = 2 * MIB;
const TEXT_OFFSET: u64 = 0x8000;
/// A zImage is loaded to a multiple of this.
const PAGE: u64 = 0x1000;
/// No kernel image is longer than this.
const IMAGE_MAX: u64 = 128 * MIB;

/// The recognised stages after the firmware's first block, in no order.
pub(super) fn stages(run: &FirstExecutions) -> Vec<Region> {
    let blocks: Vec<Block> = run.blocks.iter().collect();
    let Some(upper) = blocks.iter().position(|b| b.address >= KERNEL_HALF) else { return Vec::new() };
    let mut found =
        vec![Region::of(Stage::Kernel, &blocks[upper], "first block in the upper part of the address space")];
    let entered = entered(&blocks[..upper]);
    if let Some(i) = entered {
        let mut early = Region::of(Stage::EarlyKernel, &blocks[i], "entry of the kernel");
        early.startup = Some(blocks[i].address);
        found.push(early);
        if let Some(loaded) = entered_from_loader(&blocks[..i]) {
            found.push(Region::of(Stage::Decompressor, &blocks[loaded], "the program in the zImage, which unpacks it"));
        }
    }
    let image = entered.map(|i| blocks[i].address);
    found.extend(Region::of_user_space(&blocks[upper..], KERNEL_HALF, image, IMAGE_MAX));
    found
}

/// The index of the block at which the kernel is entered, among the blocks before the first one in the upper part.
fn entered(before: &[Block]) -> Option<usize> {
    (1..before.len()).find(|&i| is_jumped_to(before, i) && before[i].address % IMAGE_ALIGN == TEXT_OFFSET)
}

/// The index of the block at which the loader enters the zImage, among the blocks before the kernel's first.
fn entered_from_loader(before: &[Block]) -> Option<usize> {
    let is_header = |block: &Block| block.address % PAGE == 0 && block.ending == Ending::Jump;
    (1..before.len()).rev().find(|&i| is_jumped_to(before, i) && is_header(&before[i]))
}

/// True if the block before it jumped or called through a register.
fn is_jumped_to(blocks: &[Block], i: usize) -> bool {
    matches!(blocks[i - 1].ending, Ending::JumpIndirect | Ending::CallIndirect)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::arch::tests::check_stages;
    use Ending::*;

    fn check(addresses: &[(u64, Ending)], expected: &[(Stage, u64)], startup: Option<u64>) {
        let addresses: Vec<_> = addresses.iter().map(|&(address, ending)| (address, ending, 0)).collect();
        check_stages("arm", &addresses, expected, startup);
    }

    /// As seen on `-M virt -kernel zImage`, shortened.
    #[test]
    fn qemus_loader_enters_the_zimage_which_enters_the_kernel() {
        check(
            &[
                (0x4000_0000, JumpIndirect),
                (0x4001_0000, Jump),
                (0x4001_2468, JumpIndirect), // to the moved decompressor
                (0x4184_0120, Call),
                (0x4184_0400, JumpIndirect),
                (0x4020_8000, Call),
                (0x4030_0000, JumpIndirect),
                (0xc100_0000, Call),
                (0x4030_1000, Jump), // a further CPU
                (0xbf00_0000, Call), // a module
                (0x1_0430, Call),
            ],
            &[
                (Stage::Firmware, 0x4000_0000),
                (Stage::Decompressor, 0x4001_0000),
                (Stage::EarlyKernel, 0x4020_8000),
                (Stage::Kernel, 0xc100_0000),
                (Stage::UserSpace, 0x1_0430),
            ],
            Some(0x4020_8000),
        );
    }

    #[test]
    fn u_boot_makes_other_jumps_before_it_enters_the_zimage() {
        check(
            &[
                (0, Jump),
                (0x330, CallIndirect),
                (0x5ef5_8000, Call),
                (0x5ef5_8090, CallIndirect),
                (0x4040_0000, Jump),
                (0x4184_0120, JumpIndirect),
                (0x4020_8000, Call),
                (0xc100_0000, Call),
            ],
            &[
                (Stage::Firmware, 0),
                (Stage::Decompressor, 0x4040_0000),
                (Stage::EarlyKernel, 0x4020_8000),
                (Stage::Kernel, 0xc100_0000),
            ],
            Some(0x4020_8000),
        );
    }

    #[test]
    fn missing_stages_are_left_out() {
        check(&[], &[], None);
        check(&[(0, Jump), (0x4001_0000, JumpIndirect)], &[(Stage::Firmware, 0)], None);
        check(
            &[(0, Jump), (0x4020_8000, Call), (0xc100_0000, Call)],
            &[(Stage::Firmware, 0), (Stage::Kernel, 0xc100_0000)],
            None,
        );
    }
}
