//! Keyboard and mouse controllers that are reset at each boot.

use crate::detector::{Detector, Draft, Left, Part};
use crate::facts::{Confidence, Figure, Stretch, Value};
use crate::{Need, Remedy, Seen};
use std::collections::BTreeMap;
use timeline::{NameId, Ns, Os, SpanKind, SpanRow};

pub const DETECTOR: Detector = Detector {
    id: "keyboard-reset",
    title: "a PS/2 controller is reset and waited for",
    rule: "To find a PS/2 keyboard or mouse, the controller is reset, and each time 200 ms pass before it may answer. It happens \
           in the probe of the mouse, in the attach method of the keyboard, and once more before devices are looked for, when \
           the console asks for a keyboard. A machine whose keyboard is on USB, or that has none, waits in vain. Delays of \
           the machine-dependent part count if they are 100 ms or more in all.",
    source: "Percival 2018, Profiling the FreeBSD kernel boot: DEVICE_PROBE psm 1570 to 2000 ms, hammer_time DELAY 640, \
             DEVICE_ATTACH atkbd DELAY 430; device.hints(5): hint.<driver>.<unit>.disabled",
    threshold: "20 ms or more in one driver's delays and probes",
    price: "all of it goes; at the worst all stays, because a PS/2 keyboard or mouse is there",
    needs: &[Need::BootPath],
    look,
};

const SHORTEST: Ns = Ns(20_000_000);
const SHORTEST_EARLY: Ns = Ns(100_000_000);
const LEFT: Left = Left { most: 1.0, ..Left::NOTHING };
/// Drivers of keyboard and mouse on the controller, and its own, without the number of the unit.
const DRIVERS: &[&str] = &["psm", "atkbd", "atkbdc"];
/// The function before all drivers, which asks for a keyboard for the console.
const EARLY: &str = "hammer_time";

fn look(seen: &Seen) -> Vec<Draft> {
    if seen.machine.os == Os::Linux {
        return Vec::new();
    }
    let mut by_driver: BTreeMap<(NameId, NameId), Vec<Stretch>> = BTreeMap::new();
    for (_, row) in seen.spans().filter(|(_, row)| row.kind == SpanKind::Probe && is_ps2(seen, row)) {
        by_driver.entry((row.name, row.detail)).or_default().push(seen.stretch(&row));
    }
    let mut early: BTreeMap<(NameId, NameId), Vec<Stretch>> = BTreeMap::new();
    for (delay, caller) in seen.delays() {
        // The caller may be a function that the attach method calls.
        let mut within = seen.timeline.spans.open_at(delay.track, delay.start).0;
        while let Some(id) = within {
            let row = seen.timeline.spans.get(id);
            match row.kind {
                SpanKind::Attach if is_ps2(seen, &row) => {
                    by_driver.entry((row.name, row.detail)).or_default().push(seen.stretch(&delay));
                }
                SpanKind::Probe | SpanKind::Attach | SpanKind::Initcall => {}
                _ => {
                    within = seen.timeline.spans.parent(id);
                    continue;
                }
            }
            break;
        }
        if seen.timeline.names.get(caller.name) == EARLY {
            early.entry((caller.name, caller.detail)).or_default().push(seen.stretch(&delay));
        }
    }
    let late = by_driver.into_iter().filter_map(|(about, stretches)| draft(about, &stretches, SHORTEST));
    late.chain(early.into_iter().filter_map(|(about, stretches)| draft(about, &stretches, SHORTEST_EARLY))).collect()
}

fn is_ps2(seen: &Seen, row: &SpanRow) -> bool {
    let device = seen.texts((row.name, row.detail)).1;
    DRIVERS.contains(&device.trim_end_matches(|c: char| c.is_ascii_digit()))
}

fn draft(about: (NameId, NameId), stretches: &[Stretch], shortest: Ns) -> Option<Draft> {
    let total: Ns = stretches.iter().map(Stretch::length).sum();
    (total >= shortest).then(|| Draft {
        about,
        figures: vec![Figure { of: "takes", value: Value::Time(total) }],
        parts: stretches.iter().map(|&stretch| Part { stretch, left: LEFT }).collect(),
        confidence: Confidence::Medium,
        remedy: Remedy::code(
            "where no PS/2 keyboard or mouse is in use, switch the drivers off in loader.conf: hint.psm.0.disabled=\"1\", \
             hint.atkbd.0.disabled=\"1\", and hint.atkbdc.0.disabled=\"1\" for the controller, which the early console asks too",
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seen::testing::{Log, ms};

    fn boot(delay: i64) -> Vec<(String, Ns, Ns)> {
        let mut log = Log::new();
        log.within("hammer_time", |log| (0..4).for_each(|_| log.call("DELAY", ms(delay))));
        log.step(SpanKind::Probe, "DEVICE_PROBE", "psm", |log| {
            log.within("send_aux_command", |log| log.call("DELAY", ms(delay)));
            log.call("works", ms(delay));
        });
        log.step(SpanKind::Attach, "DEVICE_ATTACH", "atkbd0", |log| {
            log.within("reset_kbd", |log| log.call("DELAY", ms(2 * delay)));
            log.call("works", ms(200));
        });
        log.step(SpanKind::Attach, "DEVICE_ATTACH", "ena0", |log| log.call("DELAY", ms(300)));
        log.call("works", ms(100));
        let found = log.found_by(&[DETECTOR]).findings.into_iter();
        found.map(|finding| (finding.about, finding.price.low, finding.price.likely)).collect()
    }

    #[test]
    fn keyboard_and_mouse_are_found_wherever_they_are_reset() {
        let expected = [("hammer_time", 800), ("DEVICE_PROBE psm", 400), ("DEVICE_ATTACH atkbd0", 400)];
        let mut found = boot(200);
        found.sort_by_key(|(about, _, likely)| (std::cmp::Reverse(*likely), std::cmp::Reverse(about.clone())));
        let found: Vec<(&str, Ns, Ns)> =
            found.iter().map(|(about, low, likely)| (about.as_str(), *low, *likely)).collect();
        assert_eq!(found, expected.map(|(about, likely)| (about, ms(0), ms(likely))));
    }

    #[test]
    fn a_controller_that_answers_at_once_is_not() {
        assert_eq!(boot(4), []);
    }
}
