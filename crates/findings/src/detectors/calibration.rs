//! Clocks that are measured against a slow one by letting a long time pass.

use crate::detector::{Detector, Draft, Left, Part};
use crate::facts::{Confidence, Figure, Value};
use crate::{Need, Remedy, Seen};
use timeline::{Ns, Os};

/// The detector.
pub const DETECTOR: Detector = Detector {
    id: "calibration",
    title: "a clock is calibrated by waiting",
    rule: "A function that calibrates a clock lets a long time pass in one delay. The rate is then known from two readings. \
           Many readings over about 20 ms, with a line fitted through them, tell it as well.",
    source: "Percival 2018, Profiling the FreeBSD kernel boot: two calibrations of 1 s each",
    threshold: "one delay of at least 100 ms, called by a function that calibrates",
    price: "each delay becomes 20 ms, at the best nothing, at the worst 50 ms",
    needs: &[Need::BootPath, Need::Functions],
    look,
};

/// Shorter delays are what good calibrations take.
const SHORTEST: Ns = Ns(100_000_000);
const AFTER: [Ns; 3] = [Ns(0), Ns(20_000_000), Ns(50_000_000)];

/// Functions of Linux that calibrate.
const LINUX: &[&str] = &[
    "calibrate_delay",
    "calibrate_delay_converge",
    "native_calibrate_tsc",
    "native_calibrate_cpu_early",
    "pit_hpet_ptimer_calibrate_cpu",
    "quick_pit_calibrate",
    "calibrate_APIC_clock",
];
/// SYSINITs of FreeBSD that do, and of kernels that name their steps alike; then its functions.
const BSD_STEPS: &[&str] = &["cpu", "clocks"];
const BSD: &[&str] =
    &["init_TSC", "probe_tsc_freq", "lapic_calibrate_initial", "lapic_calibrate_deadline", "tsc_calib"];

fn look(seen: &Seen) -> Vec<Draft> {
    let functions = seen.names(if seen.machine.os == Os::Linux { LINUX } else { BSD });
    let steps = if seen.machine.os == Os::Linux { Vec::new() } else { seen.names(BSD_STEPS) };
    let calibrates = |caller: &timeline::SpanRow| {
        let is_step = caller.kind == timeline::SpanKind::Initcall && steps.contains(&caller.detail);
        is_step || functions.contains(&caller.name)
    };
    let long = seen.delays().filter(|(delay, caller)| delay.length() >= SHORTEST && calibrates(caller));
    let draft = |(delay, caller): (timeline::SpanRow, timeline::SpanRow)| {
        let length = delay.length();
        let left = Left::time(length, AFTER[0], AFTER[1], AFTER[2]);
        Draft {
            about: seen.called(&caller),
            figures: vec![Figure { of: "waits", value: Value::Time(length) }],
            parts: vec![Part { stretch: seen.stretch(&delay), left }],
            confidence: Confidence::High,
            remedy: remedy(&seen.machine.os),
        }
    };
    long.map(draft).collect()
}

fn remedy(os: &Os) -> Remedy {
    match os {
        Os::Linux => Remedy::append(
            "give the loops of a jiffy on the command line, and do not check the TSC: lpj=, tsc=reliable",
            &["tsc=reliable"],
        ),
        _ => Remedy::code("change the code: read both clocks often for about 20 ms and fit a line"),
    }
}

#[cfg(test)]
mod tests {
    use crate::seen::testing::{Log, ms};

    #[test]
    fn a_second_in_a_calibration_is_found_and_a_short_one_is_not() {
        let mut log = Log::new();
        log.initcall("cpu", |log| log.call("DELAY", ms(1000)));
        log.initcall("clocks", |log| log.call("DELAY", ms(20)));
        log.initcall("vm_mem", |log| log.call("DELAY", ms(1000)));
        let found = log.found();
        let [only] = found.findings.as_slice() else { panic!("{found:?}") };
        assert_eq!((only.rule.id, only.about.as_str()), ("calibration", "SYSINIT cpu"));
        assert_eq!((only.price.low, only.price.likely, only.price.high), (ms(950), ms(980), ms(1000)));
    }
}
