//! 64-bit POWER machines, with SLOF as their firmware.

use super::{Arch, by_address};
use ::arch::ppc64::KERNEL_HALF;

pub(super) static ARCH: Arch = Arch {
    facts: &::arch::ppc64::FACTS,
    // The kernel also runs below its half, without address translation, so programs are not recognised there.
    stages: |run| by_address::kernel(run, KERNEL_HALF.., "first block at the kernel's own addresses"),
    counter_messages: &[],
    devices: &[],
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::arch::tests::check_stages;
    use crate::boot::stage::Stage;
    use crate::formats::first_executions::Ending::Other;

    #[test]
    fn the_kernel_runs_at_its_own_addresses() {
        let blocks = [(0x100, Other, 0), (0x40_0000, Other, 0), (KERNEL_HALF + 0x1000, Other, 0), (0x300, Other, 0)];
        check_stages("ppc64", &blocks, &[(Stage::Firmware, 0x100), (Stage::EarlyKernel, KERNEL_HALF + 0x1000)], None);
    }
}
