//! Machines with 64-bit RISC-V CPUs.

mod stages;

use super::Arch;
use crate::formats::symbols::KernelImage;

pub(super) static ARCH: Arch = Arch {
    targets: &["riscv64"],
    stages: stages::stages,
    thunks: &[],
    cpu_starts: &["_start_kernel", "secondary_start_sbi", "smp_callin"],
    thread_switch: "__switch_to",
    // These names are compared for all architectures, and `__switch_to` has another purpose on x86-64.
    thread_starts: &["schedule_tail"],
    kernel: KernelImage {
        entry: "_start",
        lowest_address: stages::KERNEL_HALF,
        // A kernel is mapped with pages of 2 MiB.
        step_bytes: 2 << 20,
        bytes_max: 1 << 28,
    },
    // Process 1 reports the counter's rate.
    counter_messages: &[],
    counts_as_the_host: false,
};
