//! The same delay, made again and again by the same caller.

use crate::detector::{Detector, Draft, Left, Part};
use crate::facts::{Confidence, Figure, Value};
use crate::{Need, Remedy, Seen};
use hashbrown::HashMap;
use timeline::{NameId, Ns, SpanRow};

/// The detector.
pub const DETECTOR: Detector = Detector {
    id: "fixed-delays",
    title: "the same delay is made again and again",
    rule: "One function calls DELAY, mdelay, msleep or the like several times, each time for the same length. The time passes \
           whether or not the hardware is ready by then. A sleep that another thread ended is no such delay.",
    source: "Percival 2018, Profiling the FreeBSD kernel boot: DELAY in DEVICE_PROBE psm, DEVICE_ATTACH atkbd, ena and nvme",
    threshold: "at least three calls by one function, whose lengths differ by at most 5 %, each of 100 us or more; or two, each \
                of 100 ms or more",
    price: "all of the delays go; at the worst one of them stays; of ten or more, which poll for something, at the worst all",
    needs: &[Need::BootPath, Need::Functions],
    look,
};

const CALLS_MIN: usize = 3;
const SHORTEST: Ns = Ns(100_000);
/// Two so long ones are no chance.
const LONG: Ns = Ns(100_000_000);
/// So many delays in a row poll for something, and nobody knows how long that takes by itself.
const POLLS_MIN: usize = 10;
/// Lengths are the same if the longest is longer than the shortest by no more than this part of it.
const SPREAD_MAX: f64 = 0.05;

fn look(seen: &Seen) -> Vec<Draft> {
    let mut by_caller: HashMap<[NameId; 4], Vec<(SpanRow, SpanRow)>> = HashMap::new();
    for (delay, caller) in seen.delays().filter(|(delay, _)| delay.length() >= SHORTEST) {
        by_caller.entry([caller.name, caller.detail, delay.name, delay.detail]).or_default().push((delay, caller));
    }
    let mut callers: Vec<Vec<(SpanRow, SpanRow)>> = by_caller.into_values().collect();
    callers.sort_by_key(|calls| calls.first().map(|(delay, _)| (delay.track, delay.start)));
    callers.into_iter().flat_map(|calls| of_caller(seen, calls)).collect()
}

/// What one caller waits for, one draft for each length.
fn of_caller(seen: &Seen, mut calls: Vec<(SpanRow, SpanRow)>) -> Vec<Draft> {
    calls.sort_by_key(|(delay, _)| (delay.length(), delay.start));
    let mut drafts = Vec::new();
    let mut rest = calls.as_slice();
    while let Some((shortest, _)) = rest.first() {
        let limit = shortest.length().0 as f64 * (1.0 + SPREAD_MAX);
        let same = rest.partition_point(|(delay, _)| delay.length().0 as f64 <= limit);
        let (group, others) = rest.split_at(same);
        let enough = if shortest.length() >= LONG { 2 } else { CALLS_MIN };
        drafts.extend((group.len() >= enough).then(|| draft(seen, group)));
        rest = others;
    }
    drafts
}

fn draft(seen: &Seen, calls: &[(SpanRow, SpanRow)]) -> Draft {
    let polls = calls.len() >= POLLS_MIN;
    let at_worst = if polls { 1.0 } else { 1.0 / calls.len() as f64 };
    let part = |(delay, _): &(SpanRow, SpanRow)| Part {
        stretch: seen.stretch(delay),
        left: Left { most: at_worst, ..Left::NOTHING },
    };
    Draft {
        about: seen.called(&calls[0].1),
        figures: vec![
            Figure { of: "delays", value: Value::Count(calls.len() as u64) },
            Figure { of: "each", value: Value::Time(calls[calls.len() / 2].0.length()) },
        ],
        parts: calls.iter().map(part).collect(),
        confidence: if polls { Confidence::Medium } else { Confidence::High },
        remedy: Remedy::code(
            "change the code: poll for what is waited for, wait once for all, or let a thread wait that nobody waits for",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seen::testing::{Log, ms};
    use timeline::WaitedOn;

    #[test]
    fn equal_delays_of_one_caller_are_found_and_others_are_not() {
        let mut log = Log::new();
        log.initcall("psm", |log| (0..8).for_each(|_| log.call("DELAY", ms(200))));
        log.initcall("once", |log| log.call("DELAY", ms(200)));
        log.initcall("twice", |log| (0..2).for_each(|_| log.call("DELAY", ms(99))));
        log.initcall("random", |log| [10, 17, 31, 44].iter().for_each(|&length| log.call("DELAY", ms(length))));
        log.initcall("works", |log| (0..8).for_each(|_| log.call("memcpy", ms(200))));
        let found = log.found();
        let [only] = found.findings.as_slice() else { panic!("{found:?}") };
        assert_eq!((only.rule.id, only.about.as_str(), only.evidence_count), ("fixed-delays", "SYSINIT psm", 8));
        assert_eq!((only.price.low, only.price.likely, only.price.high), (ms(1400), ms(1600), ms(1600)));
        assert_eq!(only.figures[1].value, Value::Time(ms(200)));
    }

    #[test]
    fn who_polls_may_have_to_wait_as_long() {
        let mut log = Log::new();
        log.initcall("ena", |log| (0..160).for_each(|_| log.call("DELAY", ms(5))));
        let [only] = &log.found().findings[..] else { panic!("one caller") };
        assert_eq!((only.price.low, only.price.likely, only.confidence), (ms(0), ms(800), Confidence::Medium));
    }

    #[test]
    fn a_sleep_until_another_thread_is_done_is_no_fixed_delay() {
        let boot = |by: fn(&mut Log) -> WaitedOn| {
            let mut log = Log::new();
            let by = by(&mut log);
            log.initcall("nvme", |log| (0..4).for_each(|_| log.sleep("_sleep", ms(100), by)));
            log.initcall("works", |log| log.call("memcpy", ms(100)));
            let found = log.found();
            (found.findings.len(), found.below_noise)
        };
        assert_eq!(boot(|log| WaitedOn::Thread(log.other())), (0, 0));
        assert_eq!(boot(|log| log.topic("root mount")), (0, 0));
        assert_eq!(boot(|_| WaitedOn::Unknown), (1, 0), "a timer, or nobody knows what");
    }

    #[test]
    fn what_nobody_waits_for_costs_nothing_and_is_counted() {
        let mut log = Log::new();
        log.beside(|log| log.initcall("ena", |log| (0..4).for_each(|_| log.call("DELAY", ms(200)))));
        log.initcall("boot", |log| log.call("works", ms(1000)));
        let found = log.found();
        assert_eq!((found.findings.len(), found.below_noise), (0, 1), "{found:?}");
    }

    #[test]
    fn delays_of_two_lengths_are_two_findings() {
        let mut log = Log::new();
        let both =
            |log: &mut Log| (0..3).for_each(|_| [5, 100].iter().for_each(|&length| log.call("DELAY", ms(length))));
        log.initcall("nvme", both);
        let found = log.found();
        let prices: Vec<Ns> = found.findings.iter().map(|finding| finding.price.likely).collect();
        assert_eq!((prices, found.together), (vec![ms(300), ms(15)], ms(315)));
    }
}
