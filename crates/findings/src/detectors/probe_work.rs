//! Drivers that work in their probe methods for missing hardware.

use crate::detector::{Detector, Draft, Left, Part};
use crate::facts::{Confidence, Figure, Stretch, Value};
use crate::{Need, Remedy, Seen};
use hashbrown::HashSet;
use std::collections::BTreeMap;
use timeline::{NameId, Ns, SpanKind, TrackId};

pub const DETECTOR: Detector = Detector {
    id: "probe-work",
    title: "a driver works in its probe, and no device of its attaches",
    rule: "A probe only has to say whether a device is the driver's. This one works for long, and the driver never attaches: \
           what it set up is for nothing. Delays and waits in it are other rules'. The rule looks where probing and attaching \
           are two methods, as in BSDs.",
    source: "Percival 2018, Profiling the FreeBSD kernel boot: DEVICE_PROBE hpt* 330 ms become less than 0.1 ms once the \
             work is in DEVICE_ATTACH",
    threshold: "1 ms or more in all probes of a driver, without delays and waits",
    price: "all of that work goes; at the worst a tenth of it stays",
    needs: &[Need::BootPath, Need::Functions],
    look,
};

const MIN_WORK: Ns = Ns(1_000_000);

fn look(seen: &Seen) -> Vec<Draft> {
    if !seen.has_kind(SpanKind::Attach) {
        return Vec::new();
    }
    let mut attached: HashSet<&str> = HashSet::new();
    for (_, row) in seen.timeline.spans.iter().filter(|(_, row)| row.kind == SpanKind::Attach) {
        let device = seen.texts((row.name, row.detail)).1;
        attached.insert(device);
        // `em0` is a device of `em`, and `e10000` one of `e1000`.
        let digits = device.bytes().rev().take_while(u8::is_ascii_digit).count();
        attached.extend((device.len() - digits..device.len()).map(|end| &device[..end]));
    }
    let mut by_driver: BTreeMap<(NameId, NameId), Vec<Stretch>> = BTreeMap::new();
    let mut over: Option<(TrackId, Ns)> = None;
    for (_, row) in seen.spans().filter(|(_, row)| row.kind == SpanKind::Probe) {
        let driver = seen.texts((row.name, row.detail)).1;
        // A nested probe is part of the outer one's work.
        let is_outermost = over.is_none_or(|(track, end)| track != row.track || end <= row.start);
        if is_outermost && !driver.is_empty() && !attached.contains(driver) {
            over = Some((row.track, row.end));
            by_driver.entry((row.name, row.detail)).or_default().extend(seen.work(&row));
        }
    }
    by_driver.into_iter().filter_map(|(about, work)| draft(about, &work)).collect()
}

fn draft(about: (NameId, NameId), work: &[Stretch]) -> Option<Draft> {
    let total: Ns = work.iter().map(Stretch::length).sum();
    let left = Left { most: 0.1, ..Left::NOTHING };
    (total >= MIN_WORK).then(|| Draft {
        about,
        figures: vec![Figure { of: "works for", value: Value::Time(total) }],
        parts: work.iter().map(|&stretch| Part { stretch, left }).collect(),
        confidence: Confidence::Medium,
        remedy: Remedy::code("change the code: only look for the device in probe, and set it up in attach"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seen::testing::{Log, ms};

    fn boot(attached: &str, inside: fn(&mut Log)) -> Vec<(&'static str, String, Ns)> {
        let mut log = Log::new();
        log.initcall("configure", |log| {
            log.step(SpanKind::Attach, "DEVICE_ATTACH", "pcib0", |log| {
                for _ in 0..4 {
                    log.step(SpanKind::Probe, "DEVICE_PROBE", "hptnr", inside);
                }
                log.step(SpanKind::Attach, "DEVICE_ATTACH", attached, |log| log.call("works", ms(3)));
            });
        });
        log.found().findings.into_iter().map(|f| (f.rule.id, f.about, f.price.likely)).collect()
    }

    #[test]
    fn work_for_a_device_that_is_not_there_is_found() {
        let found = boot("em0", |log| log.call("sets_up", ms(16)));
        assert_eq!(found, [("probe-work", "DEVICE_PROBE hptnr".to_owned(), ms(64))]);
        assert!(boot("hptnr0", |log| log.call("sets_up", ms(16))).is_empty(), "it is there");
        assert!(boot("em0", |log| log.call("sets_up", Ns(200_000))).is_empty(), "0.8 ms");
        let delays = boot("em0", |log| {
            log.call("DELAY", ms(20));
            log.call("reads", Ns(100_000));
        });
        assert_eq!(delays.iter().map(|found| found.0).collect::<Vec<_>>(), ["fixed-delays"], "another rule's");
        let both = boot("em0", |log| {
            log.call("DELAY", ms(20));
            log.call("sets_up", ms(5));
        });
        assert_eq!(both[1], ("probe-work", "DEVICE_PROBE hptnr".to_owned(), ms(20)));
    }
}
