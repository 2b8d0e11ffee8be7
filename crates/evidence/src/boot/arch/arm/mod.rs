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
    // Asked of all architectures, as `__switch_to` is a function of another kind on x86-64.
    thread_starts: &["schedule_tail"],
    kernel: KernelImage {
        entry: "stext",
        lowest_address: stages::KERNEL_HALF,
        // What unpacks a kernel puts it at a multiple of this, and the kernel maps itself from there on.
        step_bytes: 2 << 20,
        bytes_max: 1 << 27,
    },
    // Process 1 tells how fast the counter is.
    counter_messages: &[],
    counts_as_the_host: false,
};
