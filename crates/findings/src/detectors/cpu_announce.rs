//! CPUs that print a line each when they start, while the first CPU waits for them.

use crate::detector::{Detector, Draft, Left, Part};
use crate::facts::{Confidence, Figure, Stretch, Value};
use crate::remedy::Change;
use crate::{Need, Remedy, Seen};
use timeline::{Ns, Os, SpanKind, SpanRow};

pub const DETECTOR: Detector = Detector {
    id: "cpu-announce",
    title: "each CPU prints a line when it starts, and the boot waits",
    rule: "The step that lets the other CPUs go waits until all of them have reported. Each prints a line on the console first, one \
           after the other. A log that follows these CPUs shows their printing; without it, the whole step counts, except its \
           delays and waits.",
    source: "Percival 2018, Profiling the FreeBSD kernel boot: SYSINIT start_aps, 41 ms per AP; FreeBSD r333333 to r333335 print the \
             lines with boot_verbose alone: 3 ms per AP",
    threshold: "10 ms or more, and half a per cent of the boot",
    price: "the printing goes, at the worst a tenth stays; without evidence of printing 3 of 41 parts stay, at the worst all",
    needs: &[Need::BootPath],
    look,
};

const SHORTEST: Ns = Ns(10_000_000);
const MIN_SHARE: f64 = 0.005;
const STEPS: &[&str] = &["start_aps", "start_aps_early"];
const PRINTS: &[&str] = &["_vprintf"];
const LEFT_OF_PRINTS: Left = Left { most: 0.1, ..Left::NOTHING };
const LEFT_OF_STEP: Left = Left::of(0.0, 3.0 / 41.0, 1.0);
/// The reference kernel's switch.
const SWITCH: (&str, &str) = ("ap_announce=yes", "ap_announce=no");

fn look(seen: &Seen) -> Vec<Draft> {
    if seen.machine.os == Os::Linux {
        return Vec::new();
    }
    seen.outermost(SpanKind::Initcall, STEPS).iter().filter_map(|step| draft(seen, step)).collect()
}

fn draft(seen: &Seen, step: &SpanRow) -> Option<Draft> {
    let is_within = |print: &Stretch| print.track != step.track && print.from < step.end && print.to > step.start;
    let prints: Vec<Stretch> = seen.stretches(SpanKind::Call, PRINTS).into_iter().filter(is_within).collect();
    let (stretches, left) = if prints.is_empty() { (seen.work(step), LEFT_OF_STEP) } else { (prints, LEFT_OF_PRINTS) };
    let total: Ns = stretches.iter().map(Stretch::length).sum();
    if total < SHORTEST || (total.0 as f64) < seen.end.0 as f64 * MIN_SHARE {
        return None;
    }
    let mut figures = vec![Figure { of: "in all", value: Value::Time(total) }];
    let others = seen.machine.cpus.saturating_sub(1);
    if others > 0 {
        figures.insert(0, Figure { of: "other CPUs", value: Value::Count(others.into()) });
        figures.push(Figure { of: "each", value: Value::Time(Ns(total.0 / i64::from(others))) });
    }
    Some(Draft {
        about: (step.name, step.detail),
        figures,
        parts: stretches.into_iter().map(|stretch| Part { stretch, left }).collect(),
        confidence: if left == LEFT_OF_PRINTS { Confidence::High } else { Confidence::Medium },
        remedy: remedy(seen),
    })
}

fn remedy(seen: &Seen) -> Remedy {
    const WHAT: &str = "let started CPUs print nothing: boot without boot_verbose, with FreeBSD 12 or later, whose CPUs announce themselves only then";
    if seen.machine.os != Os::Lab || !seen.was_given(SWITCH.0) {
        return Remedy::code(WHAT);
    }
    let [from, to] = [SWITCH.0, SWITCH.1].map(|word| vec![word.to_owned()]);
    Remedy { what: WHAT, changes: vec![Change::LabSwitch { from, to }] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find::Found;
    use crate::seen::testing::{Log, ms};

    fn boot(works: i64, prepare: impl Fn(&mut Log)) -> Found {
        let mut log = Log::new();
        prepare(&mut log);
        log.call("works", ms(400));
        log.initcall("start_aps", |log| log.call("release_aps", ms(works)));
        log.call("works", ms(400));
        log.found_by(&[DETECTOR])
    }

    #[test]
    fn a_step_that_lets_cpus_go_is_found() {
        let found = boot(123, |log| log.machine.cpus = 4);
        let [only] = &found.findings[..] else { panic!("{found:?}") };
        assert_eq!((only.rule.id, only.about.as_str()), ("cpu-announce", "SYSINIT start_aps"));
        assert_eq!((only.price.low, only.price.likely, only.price.high), (ms(0), ms(114), ms(123)));
        assert_eq!(only.figures[2].value, Value::Time(ms(41)));
        assert!(boot(9, |_| ()).findings.is_empty());
        assert!(boot(123, |log| log.machine.os = Os::Linux).findings.is_empty());
    }

    #[test]
    fn the_printing_of_the_cpus_is_the_evidence_if_it_is_seen() {
        let mut log = Log::new();
        log.call("works", ms(400));
        log.initcall("start_aps", |log| {
            let (from, track) = (log.now(), log.thread("idle:cpu1"));
            log.holds(track, "APs", from, from + ms(100));
            log.waited_in(track, &["_vprintf"], (from, from + ms(60)), track);
            let by = log.topic("APs");
            log.waits(ms(100), by);
        });
        log.call("works", ms(400));
        let found = log.found_by(&[DETECTOR]);
        let [only] = &found.findings[..] else { panic!("{found:?}") };
        assert_eq!((only.evidence[0].length(), only.confidence), (ms(60), Confidence::High));
    }
}
