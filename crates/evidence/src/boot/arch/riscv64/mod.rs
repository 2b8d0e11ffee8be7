//! Machines with 64-bit RISC-V CPUs.

mod stages;

use super::Arch;

pub(super) static ARCH: Arch = Arch {
    facts: &::arch::riscv64::FACTS,
    stages: stages::stages,
    // Process 1 reports the counter's rate.
    counter_messages: &[],
    devices: &[
        (0x0010_1000, 0x0010_1fff, "RTC"),
        (0x0200_0000, 0x0200_ffff, "CLINT"),
        (0x0c00_0000, 0x0fff_ffff, "PLIC"),
        (0x1000_0000, 0x1000_0fff, "UART"),
        (0x1000_1000, 0x1000_8fff, "virtio-mmio"),
        (0x3000_0000, 0x3fff_ffff, "PCI configuration"),
    ],
};
