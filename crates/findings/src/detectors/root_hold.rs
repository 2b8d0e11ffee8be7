//! A root mount that waits for buses which the root file system does not need.

use crate::detector::{Detector, Draft, Left, Part};
use crate::facts::{Confidence, Figure, Stretch, Value};
use crate::{Need, Remedy, Seen};
use std::collections::BTreeMap;
use timeline::{Hold, NameId, Ns, TrackId, Wait, WaitedOn};

pub const DETECTOR: Detector = Detector {
    id: "root-hold",
    title: "the root mount waits for it",
    rule: "Mounting the root waits until every bus has been searched for disks. The root file system needs less: one found by \
           the name of its device needs that disk, and a pool needs all its members. A thread that searches a USB bus holds \
           the mount for seconds, although the root is seldom there. The longest such thread is the subject. Threads of \
           disks hold too: they are counted, and their time stays, because the root may be on them.",
    source: "Percival 2018, Profiling the FreeBSD kernel boot: 9000 ms, root mount waiting for usbus0; FreeBSD D45954 (2024) \
             makes hw.usb.no_boot_wait=1 the default; D51122 (2025) has vfs.mountroot.hold_timeout",
    threshold: "5 ms or more, and half a per cent of the boot",
    price: "the wait for USB buses goes; at the worst all of it stays, because the root is on USB",
    needs: &[Need::BootPath],
    look,
};

const SHORTEST: Ns = Ns(5_000_000);
const MIN_SHARE: f64 = 0.005;
/// FreeBSD's name of the holds, and of its threads that search USB buses: `usbus0`.
const TOPIC: &str = "root mount";
const USB: &str = "usbus";
/// The wait stays only if the root is on USB.
const ON_USB: Left = Left { most: 1.0, ..Left::NOTHING };
const ON_DISK: Left = Left { least: 0.0, ..Left::ALL };

fn look(seen: &Seen) -> Vec<Draft> {
    let Some(topic) = seen.timeline.names.find(TOPIC) else { return Vec::new() };
    let is_awaited = |wait: &&Wait| wait.by == WaitedOn::Holders(topic) && wait.from < seen.end;
    let waits: Vec<&Wait> = seen.timeline.waits.iter().filter(is_awaited).collect();
    let Some(from) = waits.iter().map(|wait| wait.from).min() else { return Vec::new() };
    let until = waits.iter().map(|wait| wait.until).max().unwrap_or(from).min(seen.end);
    // A thread may hold several times at once; the stretch that it is waited for is one.
    let mut held: BTreeMap<TrackId, (Ns, Ns)> = BTreeMap::new();
    let is_held = |hold: &&Hold| hold.topic == topic && hold.to > from && hold.to <= until.max(from);
    for hold in seen.timeline.holds.iter().filter(is_held) {
        let since = hold.from.max(from);
        let known = held.entry(hold.track).or_insert((since, hold.to));
        *known = (known.0.min(since), known.1.max(hold.to));
    }
    draft(seen, &held).into_iter().collect()
}

fn draft(seen: &Seen, held: &BTreeMap<TrackId, (Ns, Ns)>) -> Option<Draft> {
    let name = |track: TrackId| seen.timeline.tracks.get(track).name;
    let is_usb = |track: TrackId| seen.timeline.names.get(name(track)).starts_with(USB);
    let on_usb = held.iter().filter(|&(&track, _)| is_usb(track));
    let (&longest, &(from, to)) = on_usb.max_by_key(|(_, (from, to))| *to - *from)?;
    let waited = to - from;
    if waited < SHORTEST || (waited.0 as f64) < seen.end.0 as f64 * MIN_SHARE {
        return None;
    }
    let part = |(&track, &(from, to)): (&TrackId, &(Ns, Ns))| {
        let stretch = Stretch { track, from, to, name: name(track), detail: NameId::EMPTY, purpose: "" };
        Part { stretch, left: if is_usb(track) { ON_USB } else { ON_DISK } }
    };
    Some(Draft {
        about: (name(longest), NameId::EMPTY),
        figures: vec![
            Figure { of: "holders", value: Value::Count(held.len() as u64) },
            Figure { of: "holds for", value: Value::Time(waited) },
        ],
        parts: held.iter().map(part).collect(),
        confidence: Confidence::Medium,
        remedy: Remedy::code(
            "unless the root is on USB, do not wait for it: hw.usb.no_boot_wait=1 in loader.conf (the default since FreeBSD 15); or \
             change the code, so that the mount waits for the disk that it needs, or for all members of its pool",
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find::Found;
    use crate::seen::testing::{Log, ms};

    /// The boot mounts its root after these threads have released it, each after its time.
    fn boot(holders: &[(&str, i64)]) -> Found {
        let mut log = Log::new();
        log.call("works", ms(100));
        let from = log.now();
        for &(name, length) in holders {
            let track = log.thread(name);
            log.holds(track, TOPIC, from - ms(50), from + ms(length));
        }
        let by = log.topic(TOPIC);
        log.waits(holders.iter().map(|&(_, length)| ms(length)).max().unwrap(), by);
        log.call("works", ms(100));
        log.found_by(&[DETECTOR])
    }

    #[test]
    fn the_bus_that_is_waited_for_is_named() {
        let found = boot(&[("usbus0", 6_300)]);
        let [only] = &found.findings[..] else { panic!("{found:?}") };
        assert_eq!((only.rule.id, only.about.as_str()), ("root-hold", "usbus0"));
        assert_eq!((only.price.low, only.price.likely, only.price.high), (ms(0), ms(6_300), ms(6_300)));
        assert!(only.remedy.what.contains("hw.usb.no_boot_wait=1"));
    }

    #[test]
    fn disks_are_still_waited_for() {
        let found = boot(&[("ada0", 300), ("usbus0", 9_000), ("usbus1", 2_000), ("ada1", 700)]);
        let [only] = &found.findings[..] else { panic!("{found:?}") };
        assert_eq!((only.about.as_str(), only.price.likely, only.price.high), ("usbus0", ms(8_300), ms(9_000)));
        assert_eq!(only.figures[0].value, Value::Count(4));
    }

    #[test]
    fn short_waits_and_disks_alone_are_not_found() {
        assert!(boot(&[("usbus0", 4)]).findings.is_empty());
        assert!(boot(&[("ada0", 700)]).findings.is_empty(), "the root may be on it");
    }
}
