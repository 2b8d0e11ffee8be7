//! The turns of a recorded boot, each with what its thread waited for before it.

use super::super::Shrink;
use super::super::line::{Step, runs};
use super::{MAX_NESTED_WAITS, MAX_SWITCH, Thread, Turn, Wake};
use crate::holds::TakenOver;
use hashbrown::HashMap;
use timeline::{NameId, Ns, OffCpu, Running, Timeline, TrackId, Wait, WaitedOn};

/// The wait before each turn.
pub(super) struct Plan<'a> {
    timeline: &'a Timeline,
    shrink: &'a dyn Shrink,
    /// All turns by time, and for each the time at which the CPU was last idle before it.
    turns: &'a [Running],
    idle_until: Vec<Ns>,
    /// Stretches off the CPU and waits for topics, for each track.
    off: Vec<Vec<OffCpu>>,
    waits: Vec<Vec<Wait>>,
    /// Work that was given to each track: when, and by which thread.
    work_given: Vec<Vec<(Ns, TrackId)>>,
    releases: HashMap<NameId, Vec<(Ns, TrackId)>>,
}

impl<'a> Plan<'a> {
    pub(super) fn new(timeline: &'a Timeline, shrink: &'a dyn Shrink, taken_over: &[TakenOver]) -> Self {
        let count = timeline.tracks.len();
        let turns = &timeline.occupancy.turns[..];
        let idle_until = timeline.occupancy.idle_until();
        let mut off = vec![Vec::new(); count];
        timeline.occupancy.off.iter().for_each(|o| off[o.track.0 as usize].push(*o));
        let mut waits: Vec<Vec<Wait>> = vec![Vec::new(); count];
        let for_topics = timeline.waits.iter().filter(|wait| matches!(wait.by, WaitedOn::Holders(_)));
        for_topics.for_each(|wait| waits[wait.track.0 as usize].push(*wait));
        let mut work_given: Vec<Vec<(Ns, TrackId)>> = vec![Vec::new(); count];
        for t in taken_over {
            if let Some(by) = t.taker.map(|taker| timeline.holds[taker]) {
                work_given[timeline.holds[t.releaser].track.0 as usize].push((by.from, by.track));
            }
        }
        work_given.iter_mut().for_each(|times| times.sort_unstable_by_key(|time| time.0));
        let mut releases: HashMap<NameId, Vec<(Ns, TrackId)>> = HashMap::new();
        for hold in timeline.holds.iter().filter(|hold| hold.to < Ns::MAX) {
            releases.entry(hold.topic).or_default().push((hold.to, hold.track));
        }
        releases.values_mut().for_each(|releases| releases.sort_unstable_by_key(|release| release.0));
        Plan { timeline, shrink, turns, idle_until, off, waits, work_given, releases }
    }

    pub(super) fn threads(self) -> Vec<Thread> {
        let mut threads: Vec<Thread> = Vec::new();
        threads.resize_with(self.timeline.tracks.len(), Thread::default);
        for (order, turn) in self.turns.iter().enumerate() {
            let turns = &mut threads[turn.track.0 as usize].turns;
            let last: Option<Turn> = turns.last().copied();
            turns.push(self.turn(order, turn, last.map(|last| last.to)));
        }
        for (thread, waits) in threads.iter_mut().zip(&self.waits) {
            let ended = waits.iter().filter(|wait| wait.until < Ns::MAX);
            let topic = |wait: &Wait| if let WaitedOn::Holders(topic) = wait.by { topic } else { NameId::EMPTY };
            thread.waits = ended.map(|wait| (wait.until, wait.from, topic(wait))).collect();
            thread.waits.sort_unstable_by_key(|wait| wait.0);
        }
        threads
    }

    fn turn(&self, order: usize, ran: &Running, left: Option<Ns>) -> Turn {
        let (track, until) = (ran.track, ran.from);
        let created = self.timeline.tracks.get(track).created;
        let gap_from = left.or(created.map(|(at, _)| at)).unwrap_or(until).min(until);
        let all = &self.off[track.0 as usize];
        let off = all[..all.partition_point(|off| off.until <= until)].last().copied();
        let off = off.filter(|off| off.until > gap_from || (off.until == until && off.from >= gap_from));
        let (wake, woken) = self.wake(order, (track, gap_from, until), left.is_some(), off);
        let ready = woken.max(self.idle_until[order]).clamp(gap_from, until);
        let late = (ready - woken).0.max(0) as f64;
        let wake = match wake {
            // A sleep keeps its length, except for work in it that is made shorter.
            None => Wake::After(self.length(track, gap_from, ready)),
            Some(wake) => wake,
        };
        Turn { from: ran.from, to: ran.to, order, gap_from, wake, ready, late, off }
    }

    /// Returns what ended a stretch off the CPU, and when. `None`: the passing of time.
    fn wake(
        &self,
        order: usize,
        (track, from, until): (TrackId, Ns, Ns),
        ran_before: bool,
        off: Option<OffCpu>,
    ) -> (Option<Wake>, Ns) {
        let before = order.checked_sub(1).map(|i| self.turns[i]).filter(|turn| turn.to == until && turn.track != track);
        let queued = before.map(|turn| (Some(Wake::Cue(turn.track, turn.to)), turn.to));
        if !ran_before {
            let waker = off.and_then(|off| Some((off.ready?, off.by?)));
            let created = self.timeline.tracks.get(track).created.filter(|&(_, by)| by != track);
            return match waker.or(created) {
                Some((at, by)) => (Some(Wake::Cue(by, at)), at),
                None => queued.unwrap_or((Some(Wake::At(until.0 as f64)), until)),
            };
        }
        let waits = &self.waits[track.0 as usize];
        let begun = waits[..waits.partition_point(|wait| wait.from <= from)].iter().rev().take(MAX_NESTED_WAITS);
        let wait = begun.copied().find(|wait| until <= wait.until);
        if let Some((wait, topic)) = wait.and_then(|wait| match wait.by {
            WaitedOn::Holders(topic) => Some((wait, topic)),
            _ => None,
        }) {
            let releases = self.releases.get(&topic).map_or(&[][..], Vec::as_slice);
            let mut by_then = releases[..releases.partition_point(|release| release.0 <= until)].iter().rev();
            let release = by_then.find(|&&(at, by)| by != track && at >= from);
            if let Some(&(at, _)) = release {
                return (Some(Wake::Topic(topic, at, self.shrink.waiting(&wait).1)), at);
            }
        }
        let Some(off) = off else {
            return if before.is_some() { (Some(Wake::After(0.0)), from) } else { (None, until) };
        };
        match (off.ready, off.by) {
            (Some(at), Some(by)) => return (Some(Wake::Cue(by, at)), at),
            (Some(at), None) => return (None, at),
            (None, _) => {}
        }
        let work_given = &self.work_given[track.0 as usize];
        let next = work_given.partition_point(|time| time.0 < from);
        // If the work had woken it, it would have had the CPU before the CPU was idle.
        let by_then = |time: &&(Ns, TrackId)| time.0 <= until && self.idle_until[order] <= time.0 + MAX_SWITCH;
        match work_given.get(next).filter(by_then) {
            Some(&(at, by)) => (Some(Wake::Cue(by, at)), at),
            None => (None, until),
        }
    }

    /// Returns the new length of a stretch.
    fn length(&self, track: TrackId, from: Ns, to: Ns) -> f64 {
        let (mut steps, mut sum) = (Vec::new(), 0.0);
        runs(track, from, to, self.shrink, &mut steps);
        let ends = steps.iter().skip(1).filter_map(|step| if let Step::Run(at, _) = step { Some(*at) } else { None });
        for (step, end) in steps.iter().zip(ends.chain([to])) {
            if let Step::Run(at, factor) = step {
                sum += factor * (end - *at).0 as f64;
            }
        }
        sum
    }
}
