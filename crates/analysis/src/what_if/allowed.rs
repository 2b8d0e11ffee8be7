//! The boots that fit a log which does not record when a sleeping thread became ready.
//!
//! With one CPU, a thread that slept while others ran became ready at some instant after the CPU was last idle. A
//! kernel that logs neither timeouts nor switches does not log that instant. Each boot here is the recorded one with
//! such instants chosen: all early, all late, some in between, and each thread separately. A saving is calculated for
//! each boot, and its range is from the smallest to the largest. The boots are a sample: the actual boot can lie
//! between them, and rarely outside.

use crate::holds::taken_over;
use crate::total;
use hashbrown::HashMap;
use timeline::{Ns, OffCpu, Timeline, TrackId, WaitedOn};

/// The positions in its window that are tried for each instant, from 0, the earliest that the log allows, to 1, when
/// the thread ran again.
const SHARES: [f64; 5] = [0.0, 0.25, 0.5, 0.75, 1.0];
/// Maximum number of threads that are also varied separately. The others vary only together with all.
const MAX_THREADS: usize = 8;
/// If a window is shorter than the boot's length divided by this, its instant counts as known.
const MIN_WINDOW_DIVISOR: i64 = 10_000;
/// Maximum number of spans, turns, waits and marks in all boots together. There are always at least as many boots as
/// [`SHARES`].
const MAX_RECORDS: usize = 1_000_000;
/// Maximum number of waits around a stretch that are searched for a topic's wait.
const MAX_NESTED_WAITS: usize = 64;

/// A stretch off the CPU. The thread became ready at some instant in `from..until`.
struct Window {
    /// The index into `occupancy.off`.
    off: usize,
    track: TrackId,
    from: Ns,
    until: Ns,
}

/// Returns the recorded boot with different instants chosen. Empty if the log records all that matters.
pub fn boots(timeline: &Timeline) -> Vec<Timeline> {
    let windows = windows(timeline);
    let threads = threads(&windows);
    let mut chosen: Vec<Vec<(TrackId, f64)>> =
        SHARES.iter().map(|&share| threads.iter().map(|&thread| (thread, share)).collect()).collect();
    if threads.len() > 1 {
        for &thread in threads.iter().take(MAX_THREADS) {
            for share in [0.0, 0.5, 1.0] {
                chosen.push(vec![(thread, share)]);
            }
            let others = || threads.iter().filter(|&&other| other != thread);
            for share in [0.0, 0.5] {
                chosen.push(others().map(|&other| (other, share)).collect());
            }
        }
    }
    let max_boots = (MAX_RECORDS / records(timeline).max(1)).max(SHARES.len());
    chosen.truncate(if windows.is_empty() { 0 } else { max_boots });
    chosen.iter().map(|shares| with_ready_times(timeline, &windows, shares)).collect()
}

/// Returns the number of records to copy for a boot.
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

/// Returns the threads with windows, those with the longest first.
fn threads(windows: &[Window]) -> Vec<TrackId> {
    let mut lengths: HashMap<TrackId, Ns> = HashMap::new();
    for window in windows {
        *lengths.entry(window.track).or_default() += window.until - window.from;
    }
    let mut threads: Vec<(TrackId, Ns)> = lengths.into_iter().collect();
    threads.sort_unstable_by_key(|&(track, length)| (-length.0, track));
    threads.into_iter().map(|(track, _)| track).collect()
}

/// Returns the boot with the windows of some threads closed at a share of their length.
fn with_ready_times(timeline: &Timeline, windows: &[Window], shares: &[(TrackId, f64)]) -> Timeline {
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
    let shortest = Ns(total(timeline).0 / MIN_WINDOW_DIVISOR);
    let idle_until = occupancy.idle_until();
    // If the log records timers, a sleep without a timer ends with work that another thread gives.
    let work_times = if occupancy.has_timeouts { times_given_work(timeline) } else { HashMap::new() };
    let is_given_work = |track, from, until| {
        work_times.get(&track).is_some_and(|times: &Vec<Ns>| {
            times.get(times.partition_point(|&at| at < from)).is_some_and(|&at| at <= until)
        })
    };
    let mut windows = Vec::new();
    for (i, off) in occupancy.off.iter().enumerate().filter(|(_, off)| off.ready.is_none()) {
        let turn = occupancy.turns.partition_point(|turn| turn.from < off.until);
        let idle = occupancy.turns.get(turn).filter(|turn| turn.from == off.until && turn.track == off.track);
        let Some(from) = idle.map(|_| idle_until[turn].max(off.from)) else { continue };
        let is_known = is_given_work(off.track, off.from, off.until) || waits_for_topic(timeline, off);
        if from + shortest < off.until && !is_known {
            windows.push(Window { off: i, track: off.track, from, until: off.until });
        }
    }
    windows
}

/// Returns the times at which each thread was given work by another.
fn times_given_work(timeline: &Timeline) -> HashMap<TrackId, Vec<Ns>> {
    let mut times_by_track: HashMap<TrackId, Vec<Ns>> = HashMap::new();
    for taken_over in taken_over(timeline) {
        if let Some(taker) = taken_over.taker {
            let track = timeline.holds[taken_over.releaser].track;
            times_by_track.entry(track).or_default().push(timeline.holds[taker].from);
        }
    }
    times_by_track.values_mut().for_each(|times| times.sort_unstable());
    times_by_track
}

/// True if the log shows which thread ended it, by releasing what the thread waited for.
fn waits_for_topic(timeline: &Timeline, off: &OffCpu) -> bool {
    let waits = &timeline.waits;
    let begun = waits[..waits.partition_point(|wait| (wait.track, wait.from) <= (off.track, off.from))].iter().rev();
    let of_thread = begun.take(MAX_NESTED_WAITS).take_while(|wait| wait.track == off.track);
    let mut around = of_thread.filter(|wait| wait.until >= off.until);
    around.any(|wait| matches!(wait.by, WaitedOn::Holders(_)))
}
