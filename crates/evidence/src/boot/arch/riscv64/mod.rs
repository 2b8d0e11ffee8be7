//! Machines with 64-bit RISC-V CPUs.

mod stages;

use super::Arch;

pub(super) static ARCH: Arch = Arch {
    facts: &::arch::riscv64::FACTS,
    stages: stages::stages,
    // Process 1 reports the counter's rate.
    counter_messages: &[],
};
