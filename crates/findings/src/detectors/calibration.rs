//! Clocks that are measured against a slow clock over a long time.

use crate::detector::{Detector, Draft, Left, Part};
use crate::facts::{Confidence, Figure, Value};
use crate::{Need, Remedy, Seen};
use timeline::{Ns, Os};

pub const DETECTOR: Detector = Detector {
    id: "calibration",
    title: "a clock is calibrated by waiting",
    rule: "A function that calibrates a clock lets a long time pass in one delay. The rate is then known from two readings. \
           Many readings over about 20 ms, with a line fitted through them, tell it as well. The rule does not look at Linux, \
           whose calibrations read a timer in a loop and call no delay.",
    source: "Percival 2018, Profiling the FreeBSD kernel boot: two calibrations of 1 s each",
    threshold: "one delay of at least 100 ms, called by a function that calibrates",
    price: "each delay becomes 20 ms, at the best nothing, at the worst 50 ms",
    needs: &[Need::BootPath, Need::Functions],
    look,
};

/// Shorter delays are those of good calibrations.
const SHORTEST: Ns = Ns(100_000_000);
const AFTER: [Ns; 3] = [Ns(0), Ns(20_000_000), Ns(50_000_000)];

/// SYSINITs of FreeBSD that calibrate, also for kernels that name their steps alike; then its functions.
const STEPS: &[&str] = &["cpu", "clocks"];
const FUNCTIONS: &[&str] =
    &["init_TSC", "probe_tsc_freq", "lapic_calibrate_initial", "lapic_calibrate_deadline", "tsc_calib"];

fn look(seen: &Seen) -> Vec<Draft> {
    if seen.machine.os == Os::Linux {
        return Vec::new();
    }
    let (functions, steps) = (seen.names(FUNCTIONS), seen.names(STEPS));
    let calibrates = |caller: &timeline::SpanRow| {
        let is_step = caller.kind == timeline::SpanKind::Initcall && steps.contains(&caller.detail);
        is_step || functions.contains(&caller.name)
    };
    let long = seen.delays().filter(|(delay, caller)| delay.length() >= SHORTEST && calibrates(caller));
    let draft = |(delay, caller): (timeline::SpanRow, timeline::SpanRow)| {
        let length = delay.length();
        let left = Left::time(length, AFTER[0], AFTER[1], AFTER[2]);
        Draft {
            about: (caller.name, caller.detail),
            figures: vec![Figure { of: "waits", value: Value::Time(length) }],
            parts: vec![Part { stretch: seen.stretch(&delay), left }],
            confidence: Confidence::High,
            remedy: Remedy::code("change the code: read both clocks often for about 20 ms and fit a line"),
        }
    };
    long.map(draft).collect()
}

#[cfg(test)]
mod tests {
    use crate::seen::testing::{Log, ms};
    use timeline::Os;

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

    #[test]
    fn linux_has_no_such_finding() {
        let boot = |os: Os| {
            let mut log = Log::new();
            log.machine.os = os;
            log.within("native_calibrate_tsc", |log| log.call("DELAY", ms(1000)));
            log.within("init_TSC", |log| log.call("DELAY", ms(1000)));
            log.found().findings.len()
        };
        assert_eq!((boot(Os::Linux), boot(Os::FreeBsd)), (0, 1));
    }
}
