//! Machines with 64-bit ARM CPUs.

mod stages;

use super::Arch;

pub(super) static ARCH: Arch = Arch {
    facts: &::arch::aarch64::FACTS,
    stages: stages::stages,
    // The counter has a register with its rate, and process 1 reports it.
    counter_messages: &[],
    devices: &[
        (0x0800_0000, 0x080f_ffff, "GIC"),
        (0x0900_0000, 0x0900_0fff, "UART"),
        (0x0901_0000, 0x0901_0fff, "RTC"),
        (0x0903_0000, 0x0903_0fff, "GPIO"),
        (0x0a00_0000, 0x0a00_3fff, "virtio-mmio"),
        (0x40_1000_0000, 0x40_1fff_ffff, "PCI configuration"),
    ],
};
