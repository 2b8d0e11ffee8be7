//! Machines with 32-bit ARM CPUs.

mod stages;

use super::Arch;
use crate::formats::symbols::KernelImage;

pub(super) static ARCH: Arch = Arch {
    targets: &["arm"],
    stages: stages::stages,
    thunks: &[],
    cpu_starts: &["secondary_startup", "secondary_start_kernel"],
    thread_switch: "__switch_to",
    // These names are compared for all architectures, and `__switch_to` has another purpose on x86-64.
    thread_starts: &["schedule_tail"],
    kernel: KernelImage {
        entry: "stext",
        lowest_address: stages::KERNEL_HALF,
        // The code that unpacks a kernel puts it at a multiple of this, and the kernel maps itself from there on.
        step_bytes: 2 << 20,
        bytes_max: 1 << 27,
    },
    // Process 1 reports the counter's rate.
    counter_messages: &[],
    counts_as_the_host: false,
};
