//! IBM Z machines. QEMU enters the decompressor of a kernel itself, without firmware.

use super::{Arch, by_address};
use crate::boot::stage::{Region, Stage};
use crate::formats::first_executions::FirstExecutions;
use ::arch::s390x::KERNEL_START;

/// The address at which a kernel's image is entered (Documentation/s390: the IPL loader's start, `startup`).
const DECOMPRESSOR: u64 = 0x1_0000;

pub(super) static ARCH: Arch = Arch { facts: &::arch::s390x::FACTS, stages, counter_messages: &[], devices: &[] };

/// Programs have addresses of their own, which the kernel's do not differ from: user space is not recognised.
fn stages(run: &FirstExecutions) -> Vec<Region> {
    let kernel = by_address::kernel(run, KERNEL_START.., "first block of the unpacked kernel");
    let until = kernel.first().map(|region| region.at);
    let mut before = run.blocks.iter().take_while(|block| until.is_none_or(|until| block.at < until));
    let entered = before.find(|block| block.address == DECOMPRESSOR);
    let entered = entered.map(|block| Region::of(Stage::Decompressor, &block, "entry of the decompressor"));
    entered.into_iter().chain(kernel).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::arch::tests::check_stages;
    use crate::formats::first_executions::Ending::Other;

    #[test]
    fn the_decompressor_is_entered_below_the_kernel() {
        let blocks = [(0x1_0000, Other, 0), (0x1_0410, Other, 0), (0x10_0000, Other, 0), (0x1_0000, Other, 0)];
        let expected = [(Stage::Firmware, 0x1_0000), (Stage::Decompressor, 0x1_0000), (Stage::EarlyKernel, 0x10_0000)];
        check_stages("s390x", &blocks, &expected, None);
        check_stages(
            "s390x",
            &[(0x10_0000, Other, 0)],
            &[(Stage::Firmware, 0x10_0000), (Stage::EarlyKernel, 0x10_0000)],
            None,
        );
    }
}
