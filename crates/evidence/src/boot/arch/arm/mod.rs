//! Machines with 32-bit ARM CPUs.

mod stages;

use super::Arch;

pub(super) static ARCH: Arch = Arch {
    facts: &::arch::arm::FACTS,
    stages: stages::stages,
    // Process 1 reports the counter's rate.
    counter_messages: &[],
    devices: &[],
};
