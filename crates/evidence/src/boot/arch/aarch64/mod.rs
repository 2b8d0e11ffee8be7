//! Machines with 64-bit ARM CPUs.

mod stages;

use super::Arch;

pub(super) static ARCH: Arch = Arch {
    facts: &::arch::aarch64::FACTS,
    stages: stages::stages,
    // The counter has a register with its rate, and process 1 reports it.
    counter_messages: &[],
};
