//! Threads that could work at once, but take turns for one lock.

use crate::detector::{Detector, Draft, Left, Part};
use crate::facts::{Confidence, Figure, Stretch, Value};
use crate::remedy::Change;
use crate::{Need, Remedy, Seen};
use hashbrown::{HashMap, HashSet};
use std::collections::{BTreeMap, BTreeSet};
use std::iter::successors;
use timeline::{Hold, NameId, Ns, Os, TimeBase, TrackId, Wait, WaitedOn};

pub const DETECTOR: Detector = Detector {
    id: "one-at-a-time",
    title: "threads take turns for one lock",
    rule: "Threads work on different things, and each waits until the one before it releases the lock that all of them take. Who \
           waits for the lock holds it next, and no two hold it at once. A wait for several holders, or for work that another \
           thread does, is no such wait. A log says it by its waits and holds of a topic; a scheduler's trace by waits in a \
           function that takes a lock, which the thread that had it ends.",
    source: "libguestfs (Jones 2016): PCI probed by several threads takes 39 instead of 66 ms, and no less, perhaps because of \
             locks",
    threshold: "two threads or more, of which those that wait do so for 1 ms or more in all, and for half a per cent of the boot",
    price: "at the best only the longest holder is waited for: of the others all goes that can overlap. On one CPU, or where \
            instructions are counted, that is what they sleep. With several CPUs they cannot be done sooner than their work \
            takes when it is spread over all CPUs. At the worst nothing is saved: they may need the lock",
    needs: &[Need::BootPath, Need::Sleeps],
    look,
};

const SHORTEST: Ns = Ns(1_000_000);
const MIN_SHARE: f64 = 0.005;
/// A thread that has waited takes the lock within this time.
const TAKEN_WITHIN: Ns = Ns(100_000);
/// Two threads that hold at once for longer hold no lock. Records of two CPUs agree no better than this.
const MAX_AT_ONCE: Ns = Ns(20_000);
/// A release and the end of the wait that it ends are at most this far apart.
const ENDED_WITHIN: Ns = Ns(1_000_000);
/// Upper bound for nested functions that take a lock. The climb out of them ends there, however deep a broken trace is.
const MAX_DEPTH: usize = 16;
/// Functions that take a lock and sleep until it is free, and the functions that they call.
const LOCKS: &[&str] = &[
    "mutex_lock",
    "mutex_lock_nested",
    "mutex_lock_interruptible",
    "__mutex_lock",
    "__mutex_lock.constprop.0",
    "__mutex_lock_slowpath",
    "down",
    "__down",
    "down_read",
    "down_write",
    "rwsem_down_read_slowpath",
    "rwsem_down_write_slowpath",
    "schedule",
    "__schedule",
    "schedule_preempt_disabled",
    "schedule_timeout",
];
/// Those of these functions that only sleep, for any reason.
const SLEEPS: &[&str] = &["schedule", "__schedule", "schedule_preempt_disabled", "schedule_timeout"];

/// A stretch in which a thread has the lock.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Turn {
    track: TrackId,
    from: Ns,
    to: Ns,
    /// The start of its wait for the lock, if it waited.
    waited_from: Option<Ns>,
}

fn look(seen: &Seen) -> Vec<Draft> {
    let mut turns = by_topic(seen);
    turns.extend(by_function(seen));
    turns.into_iter().flat_map(|(lock, turns)| drafts_of_lock(seen, lock, turns)).collect()
}

/// Uses the waits and holds that a kernel logs.
fn by_topic(seen: &Seen) -> BTreeMap<NameId, Vec<Turn>> {
    let waits: Vec<(NameId, &Wait)> =
        seen.timeline.waits.iter().filter_map(|wait| Some((topic(wait)?, wait))).collect();
    let mut by_waiter: BTreeMap<(NameId, TrackId), Vec<&Wait>> = BTreeMap::new();
    waits.into_iter().for_each(|(topic, wait)| by_waiter.entry((topic, wait.track)).or_default().push(wait));
    let mut turns: BTreeMap<NameId, Vec<Turn>> = BTreeMap::new();
    let is_seen = |hold: &&Hold| hold.from > Ns::MIN && hold.from < hold.to && hold.to <= seen.end;
    for hold in seen.timeline.holds.iter().filter(is_seen) {
        let waits = by_waiter.get(&(hold.topic, hold.track)).map_or(&[][..], Vec::as_slice);
        let last = waits[..waits.partition_point(|wait| wait.from < hold.from)].last();
        let taken =
            last.filter(|wait| wait.until <= hold.from + TAKEN_WITHIN && hold.from - wait.until <= TAKEN_WITHIN);
        let waited_from = taken.map(|wait| wait.from);
        turns.entry(hold.topic).or_default().push(Turn {
            track: hold.track,
            from: hold.from,
            to: hold.to,
            waited_from,
        });
    }
    turns
}

fn topic(wait: &Wait) -> Option<NameId> {
    if let WaitedOn::Holders(topic) = wait.by { Some(topic) } else { None }
}

/// Uses a scheduler's trace with functions: the thread that ends a wait in a function that takes a lock had the lock. A lock is identified
/// by the caller of that function.
fn by_function(seen: &Seen) -> BTreeMap<NameId, Vec<Turn>> {
    let (locks, sleeps) = (seen.names(LOCKS), seen.names(SLEEPS));
    if locks.len() == sleeps.len() {
        return BTreeMap::new();
    }
    let spans = &seen.timeline.spans;
    let lock = |wait: &Wait| {
        let mut takes = false;
        let open = successors(spans.open_at(wait.track, wait.from).0, |&id| spans.parent(id));
        for name in open.take(MAX_DEPTH).map(|id| spans.get(id).name) {
            if !locks.contains(&name) {
                return takes.then_some(name);
            }
            takes |= !sleeps.contains(&name);
        }
        None
    };
    let mut waits: BTreeMap<NameId, Vec<(&Wait, TrackId)>> = BTreeMap::new();
    for wait in seen.timeline.waits.iter().filter(|wait| wait.until <= seen.end) {
        if let WaitedOn::Thread(by) = wait.by {
            if let Some(lock) = lock(wait).filter(|_| by != wait.track) {
                waits.entry(lock).or_default().push((wait, by));
            }
        }
    }
    waits.into_iter().map(|(lock, waits)| (lock, turns_of(&waits))).collect()
}

/// The turns of a lock, from the waits for it, ordered by track and time, and the threads that ended them.
fn turns_of(waits: &[(&Wait, TrackId)]) -> Vec<Turn> {
    let mut by_waiter: HashMap<TrackId, Vec<&Wait>> = HashMap::new();
    waits.iter().for_each(|(wait, _)| by_waiter.entry(wait.track).or_default().push(wait));
    let had = |&(wait, by): &(&Wait, TrackId)| {
        // Its turn began when its own wait for the lock was over, or else when the first wait for it was seen.
        let own_wait = by_waiter.get(&by).map_or(&[][..], Vec::as_slice);
        // A wait that was over before belongs to another turn.
        let own_wait = own_wait[..own_wait.partition_point(|own_wait| own_wait.until <= wait.woken)]
            .last()
            .filter(|own_wait| own_wait.until >= wait.from);
        let from = own_wait.map_or(wait.from, |own_wait| own_wait.until);
        Turn { track: by, from, to: wait.woken, waited_from: own_wait.map(|own_wait| own_wait.from) }
    };
    let mut turns: Vec<Turn> = waits.iter().map(had).collect();
    // No thread waits for the last one: its own wait is all that is seen of its turn.
    let begun: HashSet<(TrackId, Ns)> = turns.iter().map(|turn| (turn.track, turn.from)).collect();
    let last = waits.iter().filter(|(wait, _)| !begun.contains(&(wait.track, wait.until)));
    turns.extend(last.map(|(wait, _)| {
        let (track, at) = (wait.track, wait.until);
        Turn { track, from: at, to: at, waited_from: Some(wait.from) }
    }));
    turns
}

fn drafts_of_lock(seen: &Seen, lock: NameId, mut turns: Vec<Turn>) -> Vec<Draft> {
    turns.sort_by_key(|turn| (turn.from, turn.to, turn.track));
    turns.dedup_by(|next, last| {
        next.track == last.track && next.from == last.from && {
            last.to = last.to.max(next.to);
            true
        }
    });
    let at_once = |pair: &[Turn]| pair[0].track != pair[1].track && pair[0].to - pair[1].from > MAX_AT_ONCE;
    if turns.windows(2).any(at_once) {
        return Vec::new();
    }
    // Each thread waited until the one before it was done.
    let goes_on = |last: &Turn, next: &Turn| {
        let waited = next.waited_from.is_some_and(|from| from < last.to);
        waited && next.track != last.track && (next.from - last.to).abs() <= ENDED_WITHIN
    };
    turns.chunk_by(goes_on).filter_map(|convoy| draft_of_convoy(seen, lock, convoy)).collect()
}

fn draft_of_convoy(seen: &Seen, lock: NameId, turns: &[Turn]) -> Option<Draft> {
    let waited: Ns = turns[1..].iter().filter_map(|turn| Some(turn.from - turn.waited_from?)).sum();
    let threads: BTreeSet<TrackId> = turns.iter().map(|turn| turn.track).collect();
    if threads.len() < 2 || waited < SHORTEST || (waited.0 as f64) < seen.end.0 as f64 * MIN_SHARE {
        return None;
    }
    // The thread with most time that could overlap stays, and belongs to another rule. A thread's turns never overlap.
    let overlapping: Vec<Vec<(Ns, Ns)>> = turns.iter().map(|turn| overlapping(seen, turn)).collect();
    let mut by_track: BTreeMap<TrackId, Ns> = BTreeMap::new();
    turns
        .iter()
        .zip(&overlapping)
        .for_each(|(turn, pieces)| *by_track.entry(turn.track).or_default() += length(pieces));
    let (&longest, &stays) = by_track.iter().max_by_key(|&(_, whole)| whole)?;
    let others: Ns = by_track.iter().filter(|&(&track, _)| track != longest).map(|(_, &whole)| whole).sum();
    let besides = (on_all_cpus(seen, turns) - stays).clamp(Ns::ZERO, others);
    if besides == others {
        return None;
    }
    let left = Left::time(others, besides, besides, others);
    let mut parts = Vec::new();
    for (turn, pieces) in turns.iter().zip(&overlapping).filter(|(turn, _)| turn.track != longest) {
        let stretch = |&(from, to): &(Ns, Ns)| Stretch {
            track: turn.track,
            from,
            to,
            name: lock,
            detail: NameId::EMPTY,
            purpose: "",
        };
        parts.extend(pieces.iter().filter(|(from, to)| from < to).map(stretch).map(|stretch| Part { stretch, left }));
    }
    Some(Draft {
        about: (lock, NameId::EMPTY),
        figures: vec![
            Figure { of: "threads", value: Value::Count(threads.len() as u64) },
            Figure { of: "waited", value: Value::Time(waited) },
        ],
        parts,
        confidence: Confidence::Medium,
        remedy: remedy(seen),
    })
}

fn length(pieces: &[(Ns, Ns)]) -> Ns {
    pieces.iter().map(|&(from, to)| to - from).sum()
}

/// True if threads run at the same time.
fn runs_at_once(seen: &Seen) -> bool {
    seen.machine.cpus > 1 && seen.timeline.time_base != TimeBase::GuestVirtual
}

/// The part of a turn that can overlap with others: with several CPUs all of it, otherwise its thread's sleep.
fn overlapping(seen: &Seen, turn: &Turn) -> Vec<(Ns, Ns)> {
    if runs_at_once(seen) { vec![(turn.from, turn.to)] } else { asleep(seen, turn) }
}

/// The time in which all CPUs together do the work of the turns' threads, without sleep; 0 if only sleep overlaps.
fn on_all_cpus(seen: &Seen, turns: &[Turn]) -> Ns {
    if !runs_at_once(seen) {
        return Ns::ZERO;
    }
    let work: Ns = turns.iter().map(|turn| turn.to - turn.from - length(&asleep(seen, turn))).sum();
    Ns::rounded(work.0 as f64 / f64::from(seen.machine.cpus))
}

/// The parts of a turn in which its thread sleeps by itself.
fn asleep(seen: &Seen, turn: &Turn) -> Vec<(Ns, Ns)> {
    // Both are ordered by track and time. A wait that begins earlier is the wait for the lock itself.
    let Turn { track, from, to, .. } = *turn;
    let (off, waits) = (&seen.timeline.occupancy.off, &seen.timeline.waits);
    let off = off[off.partition_point(|off| (off.track, off.from) < (track, from))..].iter();
    let off = off.take_while(|off| off.track == track && off.from < to).map(|off| (off.from, off.until));
    let waits = waits[waits.partition_point(|wait| (wait.track, wait.from) < (track, from))..].iter();
    let waits = waits.take_while(|wait| wait.track == track && wait.from < to);
    let by_itself = |wait: &&Wait| !matches!(wait.by, WaitedOn::Thread(_) | WaitedOn::Holders(_) | WaitedOn::Nothing);
    let mut idle: Vec<(Ns, Ns)> = off.chain(waits.filter(by_itself).map(|wait| (wait.from, wait.woken))).collect();
    idle.sort_unstable();
    let (mut at, mut pieces) = (from, Vec::new());
    for (begun, over) in idle {
        let (begun, over) = (begun.max(at), over.min(to));
        if begun < over {
            pieces.push((begun, over));
            at = over;
        }
    }
    pieces
}

fn remedy(seen: &Seen) -> Remedy {
    const WHAT: &str =
        "change the code: give each device a lock of its own, or release the lock while the hardware is waited for";
    let (from, to) = ("driver_lock=giant", "driver_lock=none");
    if seen.machine.os != Os::Lab || !seen.was_given(from) {
        return Remedy::code(WHAT);
    }
    let [from, to] = [from, to].map(|word| vec![word.to_owned()]);
    Remedy { what: WHAT, changes: vec![Change::LabSwitch { from, to }] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find::Found;
    use crate::seen::testing::{Log, ms};

    /// The boot waits for threads that take a lock one after the other, each for this long; each begins to wait at once.
    fn boot(cpus: u32, lengths: &[i64], logs: impl Fn(&mut Log, TrackId, &str, Ns, Ns, Ns)) -> Found {
        let mut log = Log::new();
        log.timed_by_the_host();
        log.machine.cpus = cpus;
        log.call("works", ms(100));
        let (begun, all) = (log.now(), lengths.iter().sum());
        let mut at = begun;
        for (i, &length) in lengths.iter().enumerate() {
            let until = at + ms(length);
            let track = log.thread(&format!("pci_probe{i}"));
            log.holds(track, "pci probe", begun, until);
            logs(&mut log, track, "Giant", begun, at, until);
            at = until;
        }
        let by = log.topic("pci probe");
        log.waits(ms(all), by);
        log.call("works", ms(100));
        log.found_by(&[DETECTOR])
    }

    fn takes(log: &mut Log, track: TrackId, lock: &str, begun: Ns, from: Ns, to: Ns) {
        log.waited(track, lock, begun, from);
        log.holds(track, lock, from, to);
    }

    #[test]
    fn threads_that_wait_in_turn_for_one_lock_are_found() {
        let found = boot(4, &[20, 30, 20], takes);
        let [only] = &found.findings[..] else { panic!("{found:?}") };
        assert_eq!((only.rule.id, only.about.as_str()), ("one-at-a-time", "Giant"));
        assert_eq!((only.price.low, only.price.likely, only.price.high), (ms(0), ms(40), ms(40)), "the longest stays");
        let values: Vec<Value> = only.figures.iter().map(|figure| figure.value).collect();
        assert_eq!(values, [Value::Count(3), Value::Time(ms(20 + 50))]);
        assert!(boot(1, &[20, 30, 20], takes).findings.is_empty(), "they keep the one CPU there is");
        assert!(boot(4, &[20], takes).findings.is_empty(), "one alone");
    }

    #[test]
    fn the_turns_of_one_thread_never_overlap() {
        let mut log = Log::new();
        log.timed_by_the_host();
        log.machine.cpus = 4;
        log.call("works", ms(100));
        let begun = log.now();
        let threads = ["pci_probe0", "pci_probe1"].map(|name| log.thread(name));
        for (thread, over) in threads.into_iter().zip([30, 40]) {
            log.holds(thread, "pci probe", begun, begun + ms(over));
        }
        for turn in 0..4 {
            let (from, thread) = (begun + ms(10 * turn), threads[usize::from(turn % 2 == 1)]);
            takes(&mut log, thread, "Giant", (from - ms(10)).max(begun), from, from + ms(10));
        }
        let by = log.topic("pci probe");
        log.waits(ms(40), by);
        log.call("works", ms(100));
        let found = log.found_by(&[DETECTOR]);
        let prices: Vec<(Ns, Ns)> = found.findings.iter().map(|only| (only.price.likely, only.price.high)).collect();
        assert_eq!(prices, [(ms(20), ms(20))], "each alone takes 20 of the 40 ms");
    }

    #[test]
    fn few_cpus_cannot_do_the_work_of_many_at_once() {
        let saved = |cpus: u32, lengths: &[i64], sleeps: bool| {
            let found = boot(cpus, lengths, |log, track, lock, begun, from, to| {
                takes(log, track, lock, begun, from, to);
                if sleeps {
                    log.asleep(track, from + ms(1), to - ms(1));
                }
            });
            found.findings.iter().map(|only| (only.price.low, only.price.likely, only.price.high)).collect::<Vec<_>>()
        };
        assert_eq!(saved(4, &[20; 4], false), [(ms(0), ms(60), ms(60))]);
        assert_eq!(saved(2, &[20; 4], false), [(ms(0), ms(40), ms(40))], "80 ms of work take 40 ms on two CPUs");
        assert_eq!(saved(3, &[15, 30, 45], false), [(ms(0), ms(45), ms(45))], "the longest takes more than that");
        assert_eq!(saved(2, &[20; 4], true), [(ms(0), ms(60), ms(60))], "who sleeps needs no CPU");
    }

    #[test]
    fn the_longest_turn_is_another_rules() {
        let boot = |threads: i64| {
            let mut log = Log::linux();
            log.timed_by_the_host();
            log.machine.cpus = 4;
            log.call("works", ms(100));
            let (begun, first) = (log.now(), log.thread("kworker/u8:0"));
            log.delays_of(first, "psm_probe", 3, ms(20));
            let mut by = first;
            // The time for which the last thread has the lock is not seen.
            for i in 1..=threads {
                let track = log.thread(&format!("kworker/u8:{i}"));
                log.waited_in(track, &["pci_bus_add_device", "mutex_lock"], (begun, begun + ms(50 + 10 * i)), by);
                by = track;
            }
            log.waits(ms(50 + 10 * threads), WaitedOn::Thread(by));
            log.call("works", ms(100));
            let mut found: Vec<&str> = log.found().findings.iter().map(|finding| finding.rule.id).collect();
            found.sort_unstable();
            found
        };
        assert_eq!(boot(1), ["fixed-delays"], "nothing is known that can overlap");
        assert_eq!(boot(2), ["fixed-delays", "one-at-a-time"]);
    }

    #[test]
    fn a_trace_that_is_nested_without_end_is_no_lock() {
        let waits = |depth: usize| {
            let mut log = Log::linux();
            log.timed_by_the_host();
            log.machine.cpus = 4;
            log.call("works", ms(100));
            let (begun, mut by) = (log.now(), log.thread("kworker/u8:0"));
            let functions: Vec<&str> = ["pci_bus_add_device"].into_iter().chain(vec!["mutex_lock"; depth]).collect();
            for i in 1..=2 {
                let track = log.thread(&format!("kworker/u8:{i}"));
                log.waited_in(track, &functions, (begun, begun + ms(20 * i)), by);
                by = track;
            }
            log.waits(ms(40), WaitedOn::Thread(by));
            log.call("works", ms(100));
            log.found_by(&[DETECTOR]).findings.len()
        };
        assert_eq!((waits(MAX_DEPTH - 1), waits(MAX_DEPTH)), (1, 0));
    }

    #[test]
    fn holders_at_once_and_work_in_turn_are_no_lock() {
        // As buses hold the root mount: all at once.
        let at_once = boot(4, &[20, 30, 20], |log, track, lock, begun, _, to| {
            log.waited(track, lock, begun, begun);
            log.holds(track, lock, begun, to);
        });
        assert!(at_once.findings.is_empty(), "{at_once:?}");
        // Each needs the result of the one before it, and holds another topic.
        let chain = boot(4, &[20, 30, 20], |log, track, lock, begun, from, to| {
            log.waited(track, &format!("{lock} {}", track.0 - 1), begun, from);
            log.holds(track, &format!("{lock} {}", track.0), from, to);
        });
        assert!(chain.findings.is_empty(), "{chain:?}");
        let without_waiting = boot(4, &[20, 30, 20], |log, track, lock, _, from, to| log.holds(track, lock, from, to));
        assert!(without_waiting.findings.is_empty(), "{without_waiting:?}");
    }

    #[test]
    fn a_lock_of_linux_is_identified_by_the_callers_that_take_it() {
        let boot = |function: &str| {
            let mut log = Log::linux();
            log.timed_by_the_host();
            log.machine.cpus = 4;
            log.call("works", ms(100));
            let begun = log.now();
            let mut before: Option<TrackId> = None;
            for i in 1..=3 {
                let track = log.thread(&format!("kworker/u8:{i}"));
                let at = begun + ms(20 * (i - 1));
                if let Some(by) = before.replace(track) {
                    log.waited_in(track, &["pci_bus_add_device", function, "schedule"], (begun, at), by);
                }
            }
            let last = before.unwrap();
            log.waits(ms(60), WaitedOn::Thread(last));
            log.call("works", ms(100));
            log.found_by(&[DETECTOR])
        };
        let found = boot("mutex_lock");
        let [only] = &found.findings[..] else { panic!("{found:?}") };
        // The time of the last thread is not seen; of the two others one stays.
        assert_eq!((only.about.as_str(), only.price.likely), ("pci_bus_add_device", ms(20)));
        assert!(boot("wait_for_completion").findings.is_empty());
    }
}
