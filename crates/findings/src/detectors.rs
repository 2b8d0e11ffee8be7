//! The table of detectors. A new detector is a file in `detectors/` and a line here.
//!
//! The first detector that finds a stretch claims it. So a rule that knows the cause stands before one that only sees that time passed.

mod acpi_slots;
mod allocator_share;
mod async_probe;
mod build_options;
mod calibration;
mod code_patching;
mod console_characters;
mod console_replay;
mod cost_per_call;
mod cost_per_gb;
mod countdown;
mod cpu_announce;
mod cpu_bring_up;
mod cpu_start;
mod decompression;
mod deferred_probes;
#[cfg(test)]
mod example;
mod firmware;
mod fixed_delays;
mod holder_without_cpu;
mod initrd;
mod key_derivation;
mod keyboard_reset;
mod lab_table;
mod log_gaps;
mod long_delay;
mod long_tail;
mod one_at_a_time;
mod probe_work;
mod repeated_lines;
mod root_hold;
mod root_wait;
mod self_tests;
mod serial_line;
mod tick_waits;
mod timer_setup;
mod tracer_start;
mod tsc_check;
mod unused_memory;
mod user_programs;

use crate::Detector;

/// The detectors, in the order in which they claim time.
pub static DETECTORS: &[Detector] = &[
    calibration::DETECTOR,
    cpu_start::DETECTOR,
    tsc_check::DETECTOR,
    cpu_bring_up::DETECTOR,
    self_tests::DETECTOR,
    decompression::DETECTOR,
    countdown::DETECTOR,
    firmware::DETECTOR,
    initrd::DETECTOR,
    deferred_probes::DETECTOR,
    root_wait::DETECTOR,
    root_hold::DETECTOR,
    key_derivation::DETECTOR,
    user_programs::DETECTOR,
    timer_setup::DETECTOR,
    tracer_start::DETECTOR,
    code_patching::DETECTOR,
    build_options::DETECTOR,
    keyboard_reset::DETECTOR,
    tick_waits::DETECTOR,
    cpu_announce::DETECTOR,
    console_replay::DETECTOR,
    console_characters::DETECTOR,
    probe_work::DETECTOR,
    cost_per_gb::DETECTOR,
    unused_memory::DETECTOR,
    allocator_share::DETECTOR,
    async_probe::DETECTOR,
    holder_without_cpu::DETECTOR,
    one_at_a_time::DETECTOR,
    long_tail::DETECTOR,
    fixed_delays::DETECTOR,
    long_delay::DETECTOR,
    cost_per_call::DETECTOR,
    acpi_slots::DETECTOR,
    lab_table::DETECTOR,
    log_gaps::DETECTOR,
    repeated_lines::DETECTOR,
];

/// The detector with this id.
pub fn named(id: &str) -> Option<&'static Detector> {
    DETECTORS.iter().find(|detector| detector.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_says_all_of_itself() {
        for detector in DETECTORS {
            let texts = [detector.title, detector.rule, detector.source, detector.threshold, detector.price];
            assert!(texts.iter().all(|text| !text.is_empty() && text.trim() == *text), "{}", detector.id);
            assert!(detector.id.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{}", detector.id);
            assert_eq!(named(detector.id).map(|known| known.title), Some(detector.title), "two have the same name");
            assert!(!detector.needs.is_empty(), "{}: at least a boot path", detector.id);
        }
    }
}
