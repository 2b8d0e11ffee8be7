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
};
