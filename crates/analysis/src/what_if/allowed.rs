//! The boots that a log allows where it does not say since when a thread could run.
//!
//! With one CPU, a thread that slept while others ran became ready at some instant since the CPU was idle last. The log of
//! a kernel that logs neither timeouts nor switches does not say at which. Each boot here is the recorded one with such
//! instants chosen: all early, all late, some in between, and each thread by itself. A saving is worked out for each of
//! them, and its range is from the least to the most that any of them saves. They are a sample: the actual boot can lie
//! between them, and rarely outside.

use crate::holds::taken_over;
use crate::total;
use hashbrown::HashMap;
use timeline::{Ns, OffCpu, Timeline, TrackId, WaitedOn};

/// Where in its window each instant is chosen to be: 0 is as early as the log allows, 1 is when the thread ran again.
const SHARES: [f64; 5] = [0.0, 0.25, 0.5, 0.75, 1.0];
/// Threads that are also varied by themselves; the others only with all.
const THREADS_MAX: usize = 8;
/// An instant is as good as known if its window is shorter than this part of the boot.
const WINDOW_MIN: i64 = 10_000;
/// All boots together have no more spans, turns, waits and marks than this, but there are always [`SHARES`] of them.
const RECORDS_MAX: usize = 1_000_000;
/// Waits around a stretch that are looked through for a topic's.
const NESTED_MAX: usize = 64;

/// A stretch off the CPU that ended with the thread ready since some instant in `from..until`.
struct Window {
    /// Its place in `occupancy.off`.
    off: usize,
    track: TrackId,
    from: Ns,
    until: Ns,
}

/// The recorded boot with instants chosen; empty where the log says all that matters.
pub fn boots(timeline: &Timeline) -> Vec<Timeline> {
    let windows = windows(timeline);
    let threads = threads(&windows);
    let mut chosen: Vec<Vec<(TrackId, f64)>> =
        SHARES.iter().map(|&share| threads.iter().map(|&thread| (thread, share)).collect()).collect();
    if threads.len() > 1 {
        for &thread in threads.iter().take(THREADS_MAX) {
            for share in [0.0, 0.5, 1.0] {
                chosen.push(vec![(thread, share)]);
            }
            let others = || threads.iter().filter(|&&other| other != thread);
            for share in [0.0, 0.5] {
                chosen.push(others().map(|&other| (other, share)).collect());
            }
        }
    }
    let most = (RECORDS_MAX / records(timeline).max(1)).max(SHARES.len());
    chosen.truncate(if windows.is_empty() { 0 } else { most });
    chosen.iter().map(|shares| with(timeline, &windows, shares)).collect()
}

/// How much there is to copy of a boot.
fn records(timeline: &Timeline) -> usize {
    let occupancy = &timeline.occupancy;
    [
        timeline.spans.len(),
        timeline.running.len(),
        timeline.waits.len(),
        timeline.marks.len(),
        occupancy.turns.len(),
        occupancy.off.len(),
    ]
    .iter()
    .sum()
}

/// The threads with windows, those with the longest first.
fn threads(windows: &[Window]) -> Vec<TrackId> {
    let mut lengths: HashMap<TrackId, Ns> = HashMap::new();
    for window in windows {
        *lengths.entry(window.track).or_default() += window.until - window.from;
    }
    let mut threads: Vec<(TrackId, Ns)> = lengths.into_iter().collect();
    threads.sort_unstable_by_key(|&(track, length)| (-length.0, track));
    threads.into_iter().map(|(track, _)| track).collect()
}

/// The boot, with the windows of some threads closed at a share of their length.
fn with(timeline: &Timeline, windows: &[Window], shares: &[(TrackId, f64)]) -> Timeline {
    let shares: HashMap<TrackId, f64> = shares.iter().copied().collect();
    let mut boot = timeline.clone();
    for window in windows {
        if let Some(share) = shares.get(&window.track) {
            let after = Ns::rounded((window.until - window.from).0 as f64 * share);
            boot.occupancy.off[window.off].ready = Some(window.from + after);
        }
    }
    boot
}

fn windows(timeline: &Timeline) -> Vec<Window> {
    let occupancy = &timeline.occupancy;
    if !occupancy.is_of_one_cpu() {
        return Vec::new();
    }
    let shortest = Ns(total(timeline).0 / WINDOW_MIN);
    let idle_until = occupancy.idle_until();
    // Where timers are known, who sleeps without one is woken by the work that it is given.
    let given = if occupancy.has_timeouts { given(timeline) } else { HashMap::new() };
    let is_given = |track, from, until| {
        given.get(&track).is_some_and(|given: &Vec<Ns>| {
            given.get(given.partition_point(|&at| at < from)).is_some_and(|&at| at <= until)
        })
    };
    let mut windows = Vec::new();
    for (i, off) in occupancy.off.iter().enumerate().filter(|(_, off)| off.ready.is_none()) {
        let turn = occupancy.turns.partition_point(|turn| turn.from < off.until);
        let idle = occupancy.turns.get(turn).filter(|turn| turn.from == off.until && turn.track == off.track);
        let Some(from) = idle.map(|_| idle_until[turn].max(off.from)) else { continue };
        let is_known = is_given(off.track, off.from, off.until) || waits_for_topic(timeline, off);
        if from + shortest < off.until && !is_known {
            windows.push(Window { off: i, track: off.track, from, until: off.until });
        }
    }
    windows
}

/// When each thread was given work by another.
fn given(timeline: &Timeline) -> HashMap<TrackId, Vec<Ns>> {
    let mut found: HashMap<TrackId, Vec<Ns>> = HashMap::new();
    for taken_over in taken_over(timeline) {
        if let Some(given) = taken_over.taker {
            let track = timeline.holds[taken_over.releaser].track;
            found.entry(track).or_default().push(timeline.holds[given].from);
        }
    }
    found.values_mut().for_each(|given| given.sort_unstable());
    found
}

/// Whether the log says who ended it: who released what it waited for.
fn waits_for_topic(timeline: &Timeline, off: &OffCpu) -> bool {
    let waits = &timeline.waits;
    let begun = waits[..waits.partition_point(|wait| (wait.track, wait.from) <= (off.track, off.from))].iter().rev();
    let of_thread = begun.take(NESTED_MAX).take_while(|wait| wait.track == off.track);
    let mut around = of_thread.filter(|wait| wait.until >= off.until);
    around.any(|wait| matches!(wait.by, WaitedOn::Holders(_)))
}
