//! A line that the kernel prints again and again: what it reports is tried until it works.

use crate::{Confidence, Detector, Draft, Figure, Left, Need, Part, Remedy, Seen, Value};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use timeline::{NameId, Ns, SpanKind, SpanRow};

pub const DETECTOR: Detector = Detector {
    id: "repeated-lines",
    title: "the same line comes again and again",
    rule: "One line with the same text comes ten times and more, with at most six lines from one to the next. Then a driver's \
           probe, a connection or a mount fails and is tried again, until what it needs is there. The time from the first to \
           the last of them, as far as no other evidence covers it, is the finding.",
    source: "the log of a board whose switch driver probes 93 times, 9 of 13.9 s (jimdigriz/debian-clearfog-gt-8k, Linux 5.8)",
    threshold: "10 lines, 1 % of the boot and 100 ms",
    price: "all of the time goes; at the worst it stays, because other work goes on meanwhile",
    needs: &[Need::BootPath, Need::Printing],
    look,
};

const TIMES: usize = 10;
/// From one line to the next with the same text.
const MAX_LINES_BETWEEN: usize = 7;
const SHORTEST: Ns = Ns::from_ms(100);
const MIN_SHARE: i64 = 100;

fn look(seen: &Seen) -> Vec<Draft> {
    let mut lines: Vec<(Ns, NameId)> = seen.lines().map(|line| (line.at, line.name)).collect();
    lines.sort_by_key(|line| line.0);
    let mut places: BTreeMap<NameId, Vec<usize>> = BTreeMap::new();
    for (place, (_, name)) in lines.iter().enumerate() {
        places.entry(*name).or_default().push(place);
    }
    let mut gaps: Vec<SpanRow> = seen.spans().map(|(_, row)| row).filter(|row| row.kind == SpanKind::Message).collect();
    gaps.sort_by_key(|row| row.start);
    let is_empty = |name: NameId| seen.timeline.names.get(name).trim().is_empty();
    let repeated = places.into_iter().filter(|(name, places)| places.len() >= TIMES && !is_empty(*name));
    let mut found: Vec<(Ns, NameId, usize, Vec<SpanRow>)> = repeated
        .filter_map(|(name, places)| {
            let rounds: Vec<(Ns, Ns)> = places
                .windows(2)
                .filter(|pair| pair[1] - pair[0] <= MAX_LINES_BETWEEN)
                .map(|pair| (lines[pair[0]].0, lines[pair[1]].0))
                .collect();
            let inside: Vec<SpanRow> = rounds
                .iter()
                .flat_map(|&(from, to)| {
                    let first = gaps.partition_point(|row| row.start < from);
                    gaps[first..].iter().copied().take_while(move |row| row.start < to).filter(move |row| row.end <= to)
                })
                .collect();
            let whole: Ns = inside.iter().map(SpanRow::length).sum();
            (rounds.len() + 1 >= TIMES).then_some((whole, name, rounds.len() + 1, inside))
        })
        .filter(|(whole, ..)| *whole >= SHORTEST && whole.0 >= seen.end.0 / MIN_SHARE)
        .collect();
    found.sort_by_key(|(whole, name, ..)| (Reverse(*whole), *name));
    // The lines of one loop have the same rounds: the one with the most time stands for all.
    let mut taken: HashSet<(Ns, Ns)> = HashSet::new();
    let mut drafts = Vec::new();
    for (_, name, times, mut inside) in found {
        inside.retain(|row| taken.insert((row.start, row.end)));
        let whole: Ns = inside.iter().map(SpanRow::length).sum();
        if whole >= SHORTEST && whole.0 >= seen.end.0 / MIN_SHARE {
            drafts.push(draft(seen, (name, times, whole), &inside));
        }
    }
    drafts
}

fn draft(seen: &Seen, (name, times, whole): (NameId, usize, Ns), inside: &[SpanRow]) -> Draft {
    Draft {
        about: (name, NameId::EMPTY),
        figures: vec![
            Figure { of: "times", value: Value::Count(times as u64) },
            Figure { of: "takes", value: Value::Time(whole) },
        ],
        parts: inside
            .iter()
            .map(|row| Part { stretch: seen.stretch(row), left: Left { most: 1.0, ..Left::NOTHING } })
            .collect(),
        confidence: Confidence::Medium,
        remedy: Remedy::code(
            "supply what is missing before the first attempt: build in or load the driver that it needs (a probe that waits for \
             another says so in /sys/kernel/debug/devices_deferred), or start it later",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seen::testing::{Log, ms};

    /// A driver that probes this number of times, with two lines each time, and what comes after.
    fn boot(times: usize, texts: impl Fn(usize) -> String) -> Log {
        let mut log = Log::linux();
        for number in 0..times {
            for (text, gap) in [(texts(number), 58), ("libphy: mdio: probed".to_owned(), 42)] {
                log.line(&text);
                let origin = format!("{} *", text.split(' ').next().unwrap());
                log.step(SpanKind::Message, &origin, "", |log| log.call("waits", ms(gap)));
            }
        }
        log.line("Run /sbin/init as init process");
        log.call("works", ms(1000));
        log
    }

    #[test]
    fn a_driver_that_probes_again_and_again_is_found_once() {
        let log = boot(93, |_| "mv88e6085 mii:04: switch detected".to_owned());
        let found = log.found_by(&[DETECTOR]);
        let [only] = &found.findings[..] else { panic!("{found:?}") };
        assert!(only.about.starts_with("mv88e6085 mii:04"), "{only:?}");
        assert_eq!(only.figures[0].value, Value::Count(93));
        // The last round has no line of the same text behind it.
        assert_eq!((only.price.likely, only.price.low), (ms(9200), ms(0)));
    }

    #[test]
    fn few_lines_and_different_lines_are_not() {
        let few = boot(9, |_| "mv88e6085 mii:04: switch detected".to_owned());
        assert!(few.found_by(&[DETECTOR]).findings.is_empty());
        let mut log = Log::linux();
        for number in 0..50 {
            log.line(&format!("pci 0000:00:{number}: BAR 0"));
            log.step(SpanKind::Message, "pci *", "", |log| log.call("works", ms(20)));
        }
        log.line("Run /sbin/init as init process");
        assert!(log.found_by(&[DETECTOR]).findings.is_empty());
    }
}
