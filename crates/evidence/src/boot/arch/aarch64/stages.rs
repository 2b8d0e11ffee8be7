//! Finds where each stage of an arm64 boot first ran, from the addresses of the code.
//!
//! Checked on boots of QEMU's `virt` by its own loader (`-kernel`), and with EDK2:
//! - The **firmware** runs first: EDK2 in flash at 0, or the six instructions at the start of RAM with which QEMU's
//!   loader enters a kernel. It has no range of addresses: it lasts until another stage is recognised.
//! - The **early kernel** runs identity mapped, or without a mapping, from `primary_entry` on
//!   (Documentation/arch/arm64/booting.rst). It is the last target of a far jump through a register before the first
//!   block of the upper half. QEMU's loader jumps to the image's header, which jumps on; the EFI stub jumps to
//!   `primary_entry` itself.
//! - The **EFI stub** is the kernel's own program for UEFI: the first block of the code around the jump to
//!   `primary_entry`. It places the image, which is not compressed.
//! - The **kernel** is the upper half. **User space** is the lower half after that, except the image: its first part
//!   starts further CPUs (`secondary_entry`, where PSCI lets them begin) and wakes sleeping ones.
//!
//! Not covered: TF-A, and a zboot image's decompressor. U-Boot counts as firmware here; only its console lines separate
//! it. Code that is not recognised is left out, never guessed.

use crate::boot::stage::{Region, Stage};
use crate::formats::first_executions::{Block, Ending, FirstExecutions};
use ::arch::aarch64::KERNEL_HALF;

const MIB: u64 = 1 << 20;
/// Shorter jumps stay within a program.
const FAR: u64 = MIB / 8;
/// The EFI stub's code is contiguous, and shorter than this.
const STUB_MAX: u64 = MIB / 2;
/// No kernel image is longer than this.
const IMAGE_MAX: u64 = 256 * MIB;
/// An image's header is at a multiple of this (`MIN_KIMG_ALIGN`). The header begins with the image's first
/// instructions.
const IMAGE_ALIGN: u64 = 2 * MIB;

/// The recognised stages after the firmware's first block, in no order.
pub(super) fn stages(run: &FirstExecutions) -> Vec<Region> {
    let blocks: Vec<Block> = run.blocks.iter().collect();
    let Some(upper) = blocks.iter().position(|b| b.address >= KERNEL_HALF) else { return Vec::new() };
    let mut found =
        vec![Region::of(Stage::Kernel, &blocks[upper], "first block in the upper half of the address space")];
    let entered = entered(&blocks[..upper]);
    if let Some(i) = entered {
        let by_header = blocks[i].address % IMAGE_ALIGN == 0 && blocks[i].ending == Ending::Jump;
        let mut early = Region::of(Stage::EarlyKernel, &blocks[i], "entry of the kernel");
        early.startup = if by_header { blocks[i].target } else { Some(blocks[i].address) };
        if let Some(stub) = (!by_header).then(|| efi_stub(&blocks[..i])).flatten() {
            found.push(Region::of(Stage::EfiStub, &blocks[stub], "the kernel's EFI stub, which places it"));
        }
        found.push(early);
    }
    let image = entered.map(|i| blocks[i].address);
    found.extend(Region::of_user_space(&blocks[upper..], KERNEL_HALF, image, IMAGE_MAX));
    found
}

/// The index of the block at which the kernel is entered, among the blocks before the first one in the upper half.
fn entered(before: &[Block]) -> Option<usize> {
    (1..before.len()).rev().find(|&i| {
        let from = &before[i - 1];
        from.ending == Ending::JumpIndirect && from.address.abs_diff(before[i].address) >= FAR
    })
}

/// The stub: the first block that ran near the last block before the kernel was entered.
fn efi_stub(before: &[Block]) -> Option<usize> {
    let last = before.last()?.address;
    before.iter().position(|b| b.address.abs_diff(last) < STUB_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::arch::tests::check_stages;
    use Ending::*;

    const HIGH: u64 = 0xffff_8000_0800_0000;

    fn check(addresses: &[(u64, Ending, u64)], expected: &[(Stage, u64)], startup: Option<u64>) {
        check_stages("aarch64", addresses, expected, startup);
    }

    /// As seen on `-M virt -kernel Image`, shortened.
    #[test]
    fn qemus_loader_jumps_to_the_images_header() {
        check(
            &[
                (0x4000_0000, JumpIndirect, 0),
                (0x4020_0000, Jump, 0x4158_8d50),
                (0x4158_8d50, Call, 0),
                (0x4158_8d80, InterruptReturn, 0),
                (0x4158_8db0, JumpIndirect, 0),
                (HIGH + 0x138_8e00, Call, 0),
                (0x4158_8e90, Jump, 0), // a further CPU
                (0x40_1000, Call, 0),
            ],
            &[
                (Stage::Firmware, 0x4000_0000),
                (Stage::EarlyKernel, 0x4020_0000),
                (Stage::Kernel, HIGH + 0x138_8e00),
                (Stage::UserSpace, 0x40_1000),
            ],
            Some(0x4158_8d50),
        );
    }

    #[test]
    fn uefi_starts_the_kernel_as_a_program() {
        check(
            &[
                (0, Jump, 0),
                (0x5_e000, Call, 0),
                (0x5f00_0000, CallIndirect, 0),
                (0x5bb2_5e97 & !3, Call, 0),
                (0x5f00_1000, Return, 0),
                (0x5bb2_6000, JumpIndirect, 0),
                (0x5a60_8d50, Call, 0),
                (0x5a60_8db0, JumpIndirect, 0),
                (HIGH, Call, 0),
            ],
            &[
                (Stage::Firmware, 0),
                (Stage::EfiStub, 0x5bb2_5e94),
                (Stage::EarlyKernel, 0x5a60_8d50),
                (Stage::Kernel, HIGH),
            ],
            Some(0x5a60_8d50),
        );
    }

    #[test]
    fn missing_stages_are_left_out() {
        check(&[], &[], None);
        check(&[(0, Jump, 0), (0x1000, JumpIndirect, 0), (0x4020_0000, Jump, 0)], &[(Stage::Firmware, 0)], None);
        check(&[(HIGH, Jump, 0)], &[(Stage::Firmware, HIGH), (Stage::Kernel, HIGH)], None);
    }
}
