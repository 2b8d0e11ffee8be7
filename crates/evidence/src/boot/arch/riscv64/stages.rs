//! Finds where each stage of a riscv64 boot first ran, from the addresses of the code.
//!
//! Checked on boots of QEMU's `virt` with OpenSBI as its firmware (`-kernel`):
//! - The **firmware** runs first: the machine's few instructions at 0x1000, then OpenSBI in machine mode. It has no
//!   range of addresses: it lasts until another stage is recognised. Later it runs only when the kernel calls it.
//! - The **early kernel** runs where it was loaded, without a mapping, from the image's header on
//!   (Documentation/arch/riscv/boot.rst). It begins at the last block before the upper half's first one that meets
//!   three conditions. It lies where an image may begin, and jumps on. It was reached by a return from a trap (from
//!   OpenSBI into supervisor mode), or by a jump or call through a register (from U-Boot). The place it was reached
//!   from is far away.
//! - The **kernel** is the upper half. **User space** is the lower half after that, except the firmware and the image,
//!   whose first part starts further CPUs.
//!
//! Not covered: EDK2 and the kernel's EFI stub. U-Boot counts as firmware here; only its console lines separate it.
//! Code that is not recognised is left out, never guessed.

use crate::boot::stage::{Region, Stage};
use crate::formats::first_executions::{Block, Ending, FirstExecutions};
use ::arch::riscv64::KERNEL_HALF;
use hashbrown::HashMap;

const MIB: u64 = 1 << 20;
/// Shorter jumps stay within a program.
const FAR: u64 = MIB / 8;
/// No kernel image is longer than this, and firmware is nearer to it than this.
const IMAGE_MAX: u64 = 256 * MIB;
/// An image begins at a multiple of this. Its header comes first, with instructions that jump on.
const IMAGE_ALIGN: u64 = 2 * MIB;
/// The header's jump target is within this distance (`_start_kernel`, behind the header for UEFI).
const HEADER_MAX: u64 = 0x4000;

/// The recognised stages after the firmware's first block, in no order.
pub(super) fn stages(run: &FirstExecutions) -> Vec<Region> {
    let blocks: Vec<Block> = run.blocks.iter().collect();
    let Some(upper) = blocks.iter().position(|b| b.address >= KERNEL_HALF) else { return Vec::new() };
    let mut found =
        vec![Region::of(Stage::Kernel, &blocks[upper], "first block in the upper half of the address space")];
    let entered = entered(&blocks[..upper]);
    if let Some(i) = entered {
        let mut early = Region::of(Stage::EarlyKernel, &blocks[i], "entry of the kernel");
        early.startup = Some(image_of(blocks[i].address));
        found.push(early);
    }
    let image = entered.map(|i| image_of(blocks[i].address));
    found.extend(Region::of_user_space(&blocks[upper..], KERNEL_HALF, image, IMAGE_MAX));
    found
}

/// The index of the block at which the kernel is entered, among the blocks before the first one in the upper half. The
/// machine's first jump leads to the firmware.
///
/// A loader may have run at the image's place, as U-Boot does before it moves itself. Then the header's address is not
/// new, and the header's jump target is the first new one.
fn entered(before: &[Block]) -> Option<usize> {
    let mut begun: HashMap<u64, usize> = HashMap::new();
    for (i, block) in before.iter().enumerate().filter(|(_, block)| block.address == image_of(block.address)) {
        begun.entry(block.address).or_insert(i);
    }
    let ran_before = |i: usize| begun.get(&image_of(before[i].address)).is_some_and(|first| *first < i);
    (2..before.len()).rev().find(|&i| {
        let (from, to) = (&before[i - 1], &before[i]);
        let is_header = to.address == image_of(to.address) && to.ending == Ending::Jump;
        matches!(from.ending, Ending::InterruptReturn | Ending::JumpIndirect | Ending::CallIndirect)
            && from.address.abs_diff(to.address) >= FAR
            && (is_header || to.address - image_of(to.address) < HEADER_MAX && ran_before(i))
    })
}

/// The address at which an image would begin if the address is near its beginning.
fn image_of(address: u64) -> u64 {
    address - address % IMAGE_ALIGN
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::arch::tests::check_stages;
    use Ending::*;

    const HIGH: u64 = 0xffff_ffff_8000_0000;

    fn check(addresses: &[(u64, Ending, u64)], expected: &[(Stage, u64)], startup: Option<u64>) {
        check_stages("riscv64", addresses, expected, startup);
    }

    /// As seen on `-M virt -kernel Image`, shortened.
    #[test]
    fn opensbi_returns_to_the_images_header() {
        check(
            &[
                (0x1000, JumpIndirect, 0),
                (0x8000_0000, Branch, 0x8000_0050),
                (0x8000_0400, InterruptReturn, 0),
                (0x8020_0000, Jump, 0x8020_10cc),
                (0x8020_10cc, Call, 0),
                (0x8000_05b0, Jump, 0), // the firmware serves a call of the kernel
                (0x8020_1080, Other, 0),
                (HIGH + 0x1090, Call, 0),
                (0x8020_11c0, Jump, 0), // a further CPU
                (0x8000_7000, Return, 0),
                (0x1_0430, Call, 0),
            ],
            &[
                (Stage::Firmware, 0x1000),
                (Stage::EarlyKernel, 0x8020_0000),
                (Stage::Kernel, HIGH + 0x1090),
                (Stage::UserSpace, 0x1_0430),
            ],
            Some(0x8020_0000),
        );
    }

    #[test]
    fn missing_stages_are_left_out() {
        check(&[], &[], None);
        check(
            &[(0x1000, JumpIndirect, 0), (0x8000_0000, Jump, 0), (0x8020_0000, Call, 0), (HIGH, Jump, 0)],
            &[(Stage::Firmware, 0x1000), (Stage::Kernel, HIGH)],
            None,
        );
        check(&[(HIGH, Jump, 0)], &[(Stage::Firmware, HIGH), (Stage::Kernel, HIGH)], None);
    }

    /// As seen with U-Boot in supervisor mode, which OpenSBI starts where U-Boot puts the kernel later.
    #[test]
    fn u_boot_ran_where_the_image_lies() {
        check(
            &[
                (0x1000, JumpIndirect, 0),
                (0x8000_0000, Call, 0x8000_0560),
                (0x8000_2000, InterruptReturn, 0),
                (0x8020_0000, Other, 0),
                (0x8020_1000, CallIndirect, 0),
                (0x9ff5_8000, Call, 0),
                (0x9ff5_809c, JumpIndirect, 0),
                (0x8020_1100, Other, 0),
                (0x8100_8208, Call, 0),
                (HIGH + 0x1048, Return, 0),
            ],
            &[(Stage::Firmware, 0x1000), (Stage::EarlyKernel, 0x8020_1100), (Stage::Kernel, HIGH + 0x1048)],
            Some(0x8020_0000),
        );
    }
}
