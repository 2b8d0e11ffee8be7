//! x86-64 PCs.

mod stages;

use super::Arch;
use crate::formats::symbols::KernelImage;
use timeline::RateSource;

pub(super) static ARCH: Arch = Arch {
    targets: &["x86_64", "i386"],
    stages: stages::stages,
    thunks: &[&CALL_THUNKS, &RETURN_THUNKS],
    cpu_starts: &["secondary_startup_64", "common_startup_64", "startup_64"],
    thread_switch: "__switch_to_asm",
    thread_starts: &["__switch_to_asm", "schedule_tail", "native_load_tls", "native_load_gs_index"],
    kernel: KernelImage {
        entry: "startup_64",
        lowest_address: stages::UPPER_HALF,
        // `CONFIG_PHYSICAL_ALIGN` is at least this in 64-bit kernels.
        step_bytes: 2 << 20,
        bytes_max: 1 << 28,
    },
    // `tsc: Refined TSC clocksource calibration: 2445.406 MHz`, `tsc: Detected 2594.879 MHz processor`
    counter_messages: &[
        ("tsc: Refined TSC clocksource calibration:", RateSource::RefinedCalibration),
        ("tsc: Detected", RateSource::DetectedProcessor),
    ],
    counts_as_the_host: true,
};

/// Code that a call passes through on its way to the callee: retpolines and their patched replacements (`_call_`,
/// `_jump_`, `_its_`), FineIBT's checks of arguments (`__bhi_args`), trampolines of static calls.
const CALL_THUNKS: [&str; 4] = ["__x86_indirect_", "__bhi_args", "its_static_thunk", "__SCT__"];

/// Code that a return passes through.
const RETURN_THUNKS: [&str; 8] = [
    "__x86_return_",
    "srso_return_thunk",
    "srso_alias_return_thunk",
    "srso_safe_ret",
    "srso_alias_safe_ret",
    "retbleed_return_thunk",
    "its_return_thunk",
    "call_depth_return_thunk",
];
