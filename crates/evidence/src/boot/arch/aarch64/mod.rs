//! Machines with 64-bit ARM CPUs.

mod stages;

use super::Arch;
use crate::formats::symbols::KernelImage;

pub(super) static ARCH: Arch = Arch {
    targets: &["aarch64"],
    stages: stages::stages,
    thunks: &[],
    cpu_starts: &["secondary_startup", "secondary_entry", "__secondary_switched", "primary_entry"],
    thread_switch: "cpu_switch_to",
    // Not `ret_from_fork`: on x86-64 a thread's stack begins with it, and these names are compared for all
    // architectures.
    thread_starts: &["cpu_switch_to", "schedule_tail"],
    kernel: KernelImage {
        entry: "primary_entry",
        lowest_address: stages::KERNEL_HALF,
        // SEGMENT_ALIGN: a relocatable kernel may lie at any multiple of it.
        step_bytes: 64 << 10,
        bytes_max: 1 << 28,
    },
    // The counter has a register with its rate, and process 1 reports it.
    counter_messages: &[],
    counts_as_the_host: false,
};
