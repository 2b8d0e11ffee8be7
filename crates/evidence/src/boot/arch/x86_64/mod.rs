//! x86-64 PCs.

mod stages;

use super::Arch;
use timeline::RateSource;

pub(super) static ARCH: Arch = Arch {
    facts: &::arch::x86_64::FACTS,
    stages: stages::stages,
    // `tsc: Refined TSC clocksource calibration: 2445.406 MHz`, `tsc: Detected 2594.879 MHz processor`
    counter_messages: &[
        ("tsc: Refined TSC clocksource calibration:", RateSource::RefinedCalibration),
        ("tsc: Detected", RateSource::DetectedProcessor),
    ],
    devices: &[
        (0xa_0000, 0xb_ffff, "VGA"),
        (0xfec0_0000, 0xfec0_0fff, "I/O APIC"),
        (0xfed0_0000, 0xfed0_0fff, "HPET"),
        (0xfee0_0000, 0xfee0_0fff, "local APIC"),
    ],
};
