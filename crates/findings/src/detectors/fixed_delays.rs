//! The same delay, made repeatedly by the same caller.

use crate::detector::{Detector, Draft, Left, Part};
use crate::facts::{Confidence, Figure, Value};
use crate::{Need, Remedy, Seen};
use hashbrown::HashMap;
use timeline::{NameId, Ns, SpanRow, TrackId};

pub const DETECTOR: Detector = Detector {
    id: "fixed-delays",
    title: "the same delay is made again and again",
    rule: "One function calls DELAY, mdelay, msleep or the like several times, each time for the same length. The time passes \
           whether or not the hardware is ready by then. A sleep that another thread ended is no such delay.",
    source: "Percival 2018, Profiling the FreeBSD kernel boot: DELAY in DEVICE_PROBE psm, DEVICE_ATTACH atkbd, ena and nvme",
    threshold: "at least three calls by one function, whose lengths differ by at most 5 %, each of 100 us or more; or two, each \
                of 100 ms or more",
    price: "all of the delays go; at the worst one of them stays; where the caller does nothing between two of them, or makes \
            ten or more, it may poll for something, and at the worst all stay",
    needs: &[Need::BootPath, Need::Functions],
    look,
};

/// The remedy for delays between which the caller looks at the device, and the remedy for others.
pub(super) const POLLS_ALREADY: &str = "change the code: the caller seems to poll already, so let a thread wait for the device, and return, so that the boot \
                                        goes on; with shorter delays it notices the end sooner";
pub(super) const WAITS_BLINDLY: &str =
    "change the code: poll for the condition, wait once for all, or move the wait to a thread that holds up no other";

const MIN_CALLS: usize = 3;
const SHORTEST: Ns = Ns(100_000);
/// Two delays of this length are no coincidence.
const LONG: Ns = Ns(100_000_000);
/// At least this number of delays is a loop that polls, whatever happens between them. The time that the event itself takes is unknown.
const MIN_POLLS: usize = 10;
/// A caller that works for less than this part of a delay between two delays only checks whether something is over.
const MIN_WORK: f64 = 0.1;
/// Lengths are equal if the longest exceeds the shortest by at most this part of it.
const MAX_SPREAD: f64 = 0.05;

fn look(seen: &Seen) -> Vec<Draft> {
    let mut by_caller: HashMap<[NameId; 4], Vec<Call>> = HashMap::new();
    // Time that each track has let pass in delays so far.
    let mut passed: HashMap<TrackId, Ns> = HashMap::new();
    for (delay, caller) in seen.delays() {
        let passed = passed.entry(delay.track).or_default();
        let call = Call { delay, caller, passed: *passed };
        *passed += delay.length();
        if delay.length() >= SHORTEST {
            by_caller.entry([caller.name, caller.detail, delay.name, delay.detail]).or_default().push(call);
        }
    }
    let mut callers: Vec<Vec<Call>> = by_caller.into_values().collect();
    callers.sort_by_key(|calls| calls.first().map(|call| (call.delay.track, call.delay.start)));
    callers.into_iter().flat_map(|calls| drafts_of_caller(seen, calls)).collect()
}

/// A delay, its caller, and the time that its track had let pass in delays before it.
struct Call {
    delay: SpanRow,
    caller: SpanRow,
    passed: Ns,
}

/// True if these delays may belong to a loop that polls.
fn may_poll(calls: &[Call]) -> bool {
    let mut in_order: Vec<&Call> = calls.iter().collect();
    in_order.sort_by_key(|call| (call.delay.track, call.delay.start));
    let only_looks = |pair: &[&Call]| {
        let [before, after] = [pair[0], pair[1]];
        let let_pass = after.passed - before.passed - before.delay.length();
        let worked = after.delay.start - before.delay.end - let_pass;
        before.delay.track == after.delay.track && (worked.0 as f64) < before.delay.length().0 as f64 * MIN_WORK
    };
    calls.len() >= MIN_POLLS || in_order.windows(2).any(only_looks)
}

/// The drafts for one caller, one for each length.
fn drafts_of_caller(seen: &Seen, mut calls: Vec<Call>) -> Vec<Draft> {
    calls.sort_by_key(|call| (call.delay.length(), call.delay.start));
    let mut drafts = Vec::new();
    let mut rest = calls.as_slice();
    while let Some(Call { delay: shortest, .. }) = rest.first() {
        let limit = shortest.length().0 as f64 * (1.0 + MAX_SPREAD);
        let same = rest.partition_point(|call| call.delay.length().0 as f64 <= limit);
        let (group, others) = rest.split_at(same);
        let enough = if shortest.length() >= LONG { 2 } else { MIN_CALLS };
        drafts.extend((group.len() >= enough).then(|| draft(seen, group)));
        rest = others;
    }
    drafts
}

fn draft(seen: &Seen, calls: &[Call]) -> Draft {
    let polls = may_poll(calls);
    let at_worst = if polls { 1.0 } else { 1.0 / calls.len() as f64 };
    let part =
        |call: &Call| Part { stretch: seen.stretch(&call.delay), left: Left { most: at_worst, ..Left::NOTHING } };
    Draft {
        about: (calls[0].caller.name, calls[0].caller.detail),
        figures: vec![
            Figure { of: "delays", value: Value::Count(calls.len() as u64) },
            Figure { of: "each", value: Value::Time(calls[calls.len() / 2].delay.length()) },
        ],
        parts: calls.iter().map(part).collect(),
        confidence: if polls { Confidence::Medium } else { Confidence::High },
        remedy: Remedy::code(if polls { POLLS_ALREADY } else { WAITS_BLINDLY }),
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
        assert_eq!((only.price.low, only.price.likely, only.price.high), (ms(0), ms(1600), ms(1600)));
        assert_eq!(only.figures[1].value, Value::Time(ms(200)));
        assert_eq!(only.remedy.what, POLLS_ALREADY);
    }

    #[test]
    fn a_caller_that_does_nothing_between_delays_may_have_to_wait_as_long() {
        let boot = |count: usize, between: fn(&mut Log)| {
            let mut log = Log::new();
            log.initcall("ena", |log| {
                for _ in 0..count {
                    log.call("DELAY", ms(1000));
                    between(log);
                }
            });
            let found = log.found();
            let first = found.findings.first().expect("one caller");
            let is_told_to_poll = first.remedy.what == WAITS_BLINDLY;
            assert_eq!(is_told_to_poll, first.confidence == Confidence::High);
            (first.price.low, first.price.likely, first.confidence)
        };
        // For example, a driver holds the root file system back while a device takes 4.3 s.
        assert_eq!(boot(4, |_| {}), (ms(0), ms(4000), Confidence::Medium));
        assert_eq!(boot(4, |log| log.call("is_it_there", ms(1))), (ms(0), ms(4000), Confidence::Medium));
        assert_eq!(boot(4, |log| log.call("DELAY", ms(300))), (ms(0), ms(4000), Confidence::Medium));
        assert_eq!(boot(4, |log| log.call("reads_the_device", ms(200))), (ms(3000), ms(4000), Confidence::High));
        assert_eq!(boot(160, |log| log.call("reads_the_device", ms(200))).0, ms(0), "so many poll nevertheless");
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
    fn delays_without_waiters_cost_nothing_and_are_counted() {
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
        assert_eq!((prices, found.together.length), (vec![ms(300), ms(15)], ms(315)));
    }
}
