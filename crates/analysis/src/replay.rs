//! A replay of a boot with some of its work made shorter. It gives the time at which each event would have happened.
//!
//! Each line of execution has a map from recorded times to replayed times.
//! * Shortened work shrinks in place.
//! * A thread begins when its creator gets to the point at which it created it.
//! * A wait for a topic ends when the last holder in the replay releases it, or gets to the point at which it still
//!   held it.
//! * A wait for a waker ends when the waker gets to the point at which it woke the thread.
//! * There is no wait for an event that is already over.
//! * A turn on a CPU begins when the thread before it leaves the CPU.
//! * The time from a release until the waiter goes on keeps its length. So does a wait for a timer or a device.
//!
//! With nothing shortened, every map is the identity, to the nanosecond.
//!
//! The replay assumes what the evidence does not show:
//! * If a thread's creator is unknown, the boot thread created it.
//! * If a thread waits outside of any work, for an interrupt or an unknown event, it waits for work. The work comes
//!   from the thread that ran last on the boot path. Only the part of the wait after that keeps its length.
//! * If a thread takes work from others without logging it, it does not wait for them, unless a
//!   [hold](recorded::handovers) shows it.

mod line;
mod one_cpu;
mod outcome;
mod recorded;

pub use recorded::Shared;

use crate::holds::Ender;
use crate::segments::Segments;
use hashbrown::HashMap;
use line::{Line, Mark, Step, runs};
use recorded::{Recorded, RecordedLine, Turns};
use std::ops::Range;
use timeline::{NameId, Ns, Occupancy, Os, Running, SpanId, SpanKind, Timeline, TrackId, Wait, WaitedOn};

/// The factors by which time passes faster or slower.
pub trait Shrink {
    /// Cuts `from..to`, in which a track ran, where factors change.
    fn running(&self, track: TrackId, from: Ns, to: Ns, each: &mut dyn FnMut(Ns, f64));
    /// Returns two factors for a wait: for the part without another thread to blame, and for the whole wait. Neither
    /// applies to the time in the run queue.
    fn waiting(&self, wait: &Wait) -> (f64, f64);
    /// Returns an instant before which time passes everywhere as recorded. Nothing needs to be calculated before it.
    fn unchanged_until(&self) -> Ns {
        Ns::MIN
    }
}

/// The replayed times of all events.
pub struct Replay<'a> {
    timeline: &'a Timeline,
    lines: Vec<Line>,
    blocks: Vec<Block>,
    /// The waits of all blocks, block by block.
    waits: Vec<Wait>,
    topics: HashMap<NameId, Topic>,
    /// The number of releases replayed, of those in `recorded.releases`.
    released: usize,
    recorded: &'a Recorded,
    turns: &'a Turns,
    /// The instant before which every map is the identity.
    unchanged_until: Ns,
    shared: &'a Shared,
    /// The threads that have the only CPU in the replay, and when.
    occupancy: Occupancy,
}

/// A wait, with all waits within it.
struct Block {
    track: TrackId,
    from: Ns,
    to: Ns,
    /// Its waits, as indices into the replay's.
    waits: Range<usize>,
    /// The factors for the part without another thread to blame, and for the whole.
    factors: (f64, f64),
    /// True if it waits outside of any work, and not on the boot's own line: it waits for work from another thread.
    idle: bool,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Ahead,
    InProgress,
    Done,
}

/// The threads that have released a topic.
#[derive(Default)]
struct Topic {
    /// Releases by recorded time.
    old: Vec<(Ns, TrackId)>,
    /// Releases by replayed time.
    new: Vec<Released>,
}

#[derive(Clone, Copy)]
struct Released {
    track: TrackId,
    old: Ns,
    since: f64,
    new: f64,
}

/// An event. Events are ordered by time, and at one instant in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Birth(TrackId),
    End(usize),
}

/// Deeper dependencies at one instant are a cycle in broken evidence.
const MAX_DEPTH: usize = 64;

impl<'a> Replay<'a> {
    /// Replays the boot. `O(n log n)`; each wait also visits the holds that last until then. `shared` also serves other
    /// replays of the same timeline.
    pub fn new(
        timeline: &'a Timeline,
        boot: TrackId,
        segments: &Segments,
        shared: &'a Shared,
        shrink: &dyn Shrink,
    ) -> Self {
        let recorded = shared.recorded(timeline, boot, segments);
        let mut replay = Replay {
            timeline,
            lines: Vec::with_capacity(recorded.lines.len()),
            blocks: Vec::new(),
            waits: Vec::with_capacity(timeline.waits.len()),
            topics: HashMap::new(),
            released: 0,
            recorded,
            turns: shared.turns(timeline),
            unchanged_until: shrink.unchanged_until(),
            shared,
            occupancy: timeline.occupancy.clone(),
        };
        for ((track, _), line) in timeline.tracks.iter().zip(&recorded.lines) {
            match line.takes_turns {
                true => replay.lines.push(Line { born: line.born, steps: Vec::new(), done: 0, marks: Vec::new() }),
                false => replay.add_line(track, line, segments, shrink),
            }
        }
        if timeline.occupancy.is_of_one_cpu() {
            let path_tracks = recorded.lineage.iter().rev().map(|&(track, _)| track);
            for track in path_tracks.filter(|track| !recorded.lines[track.0 as usize].takes_turns) {
                replay.begin_line(track, 0);
                replay.advance(track.0 as usize);
            }
            let time = |lines: &[Line], track, at| line::time(lines, track, at);
            replay.occupancy = one_cpu::play(timeline, &mut replay.lines, shrink, &recorded.taken_over, &time);
        }
        replay.run();
        replay
    }

    /// Builds one line: its runs and its waits. Waits from before it began are not its work.
    fn add_line(&mut self, track: TrackId, line: &RecordedLine, segments: &Segments, shrink: &dyn Shrink) {
        let (born, begun) = (line.born, line.begun);
        let (first, last) = self.recorded.extent;
        let mut at = born.map_or(first, |(at, _)| at);
        let mut steps = Vec::new();
        let mut rest = &line.waits[..];
        while let Some(wait) = rest.first() {
            let from = wait.from.max(at);
            let mut to = wait.until.min(last).max(from);
            let mut count = 1;
            while let Some(within) = rest.get(count).filter(|w| w.from < to) {
                to = to.max(within.until.min(last));
                count += 1;
            }
            runs(track, at, from, shrink, &mut steps);
            steps.push(Step::Block(self.blocks.len()));
            let factors = if wait.from < begun { (1.0, 1.0) } else { shrink.waiting(wait) };
            let waits = self.waits.len()..self.waits.len() + count;
            self.waits.extend_from_slice(&rest[..count]);
            let own_until = self
                .recorded
                .lineage
                .iter()
                .find(|own_track| own_track.0 == track)
                .map_or(Ns::MIN, |own_track| own_track.1);
            let is_work = segments.waiting(wait).is_some_and(|span| self.is_work(span));
            let idle = from >= own_until && !is_work;
            self.blocks.push(Block { track, from, to, waits, factors, idle, state: State::Ahead });
            rest = &rest[count..];
            at = to;
        }
        runs(track, at, last, shrink, &mut steps);
        self.lines.push(Line { born, steps, done: 0, marks: Vec::new() });
    }

    /// True if the evidence shows that a thread in this span works. A followed call does not show it: an idle worker
    /// sleeps in its main loop. On Linux, a call that QEMU saw for the first time does not show it either, for example
    /// `schedule`. Other kernels log their calls themselves.
    fn is_work(&self, span: SpanId) -> bool {
        let (spans, is_linux) = (&self.timeline.spans, self.timeline.os == Os::Linux);
        let shows_work =
            |span: SpanId| spans.node(span).is_none() && !(is_linux && spans.get(span).kind == SpanKind::Call);
        std::iter::successors(Some(span), |&span| spans.parent(span)).any(shows_work)
    }

    fn run(&mut self) {
        let birth_event = |(i, line): (u32, &Line)| line.born.map(|(at, _)| (at, Event::Birth(TrackId(i))));
        let mut events: Vec<(Ns, Event)> = (0..).zip(&self.lines).filter_map(birth_event).collect();
        events.extend(self.blocks.iter().enumerate().map(|(i, b)| (b.to, Event::End(i))));
        events.sort_unstable();
        for (at, event) in events {
            self.release_until(at, 0);
            match event {
                Event::Birth(track) => self.begin_line(track, 0),
                Event::End(block) => self.finish(block, 0),
            }
        }
        self.release_until(Ns::MAX, 0);
        for track in 0..self.lines.len() {
            self.begin_line(TrackId(timeline::number(track)), 0);
            self.advance(track);
        }
    }

    /// Adds the line's first mark.
    fn begin_line(&mut self, track: TrackId, depth: usize) {
        if !self.lines[track.0 as usize].marks.is_empty() {
            return;
        }
        let (old, new) = match self.lines[track.0 as usize].born {
            Some((at, by)) => (at, self.time_at(by, at, depth + 1)),
            None => (self.recorded.extent.0, self.recorded.extent.0.0 as f64),
        };
        let marks = &mut self.lines[track.0 as usize].marks;
        if marks.is_empty() {
            marks.push(Mark { old, new, factor: 1.0 });
        }
    }

    /// Runs a line up to its next wait.
    fn advance(&mut self, track: usize) {
        let line = &mut self.lines[track];
        while let Some(&Step::Run(from, factor)) = line.steps.get(line.done) {
            line.marks.push(Mark { old: from, new: line.next(from), factor });
            line.done += 1;
        }
    }

    /// Returns the new time at which a line gets to its state at `at`, which is not later than the replayed part.
    fn time_at(&mut self, track: TrackId, at: Ns, depth: usize) -> f64 {
        if depth > MAX_DEPTH || at <= self.unchanged_until {
            return at.0 as f64;
        }
        if let Some((born, by)) = self.lines[track.0 as usize].born {
            if at < born {
                return self.time_at(by, at, depth + 1);
            }
        }
        self.begin_line(track, depth);
        loop {
            self.advance(track.0 as usize);
            let line = &self.lines[track.0 as usize];
            match line.steps.get(line.done) {
                Some(&Step::Block(b)) if self.can_finish(b, depth) && self.blocks[b].to <= at => {
                    self.finish(b, depth + 1);
                }
                // The instant lies within a wait that has not ended: the evidence contradicts itself.
                Some(&Step::Block(b)) if self.blocks[b].from < at => {
                    let from = self.blocks[b].from;
                    return line.at(from) + (at - from).0 as f64;
                }
                _ => return line.at(at),
            }
        }
    }

    /// Replays all releases up to `at`. A wait that ended at the same instant as a release may have ended by it.
    fn release_until(&mut self, at: Ns, depth: usize) {
        while let Some(&next) = self.recorded.releases.get(self.released).filter(|&&i| self.timeline.holds[i].to <= at)
        {
            self.released += 1;
            self.release(next, depth);
        }
    }

    fn release(&mut self, hold: usize, depth: usize) {
        let hold = self.timeline.holds[hold];
        let born = self.lines[hold.track.0 as usize].born.map_or(Ns::MIN, |(at, _)| at);
        let since = hold.from.max(born);
        let since =
            if since == Ns::MIN { f64::NEG_INFINITY } else { self.time_at(hold.track, since.min(hold.to), depth) };
        let new = self.time_at(hold.track, hold.to, depth);
        let topic = self.topics.entry(hold.topic).or_default();
        topic.old.push((hold.to, hold.track));
        let place = topic.new.partition_point(|r| r.new <= new);
        topic.new.insert(place, Released { track: hold.track, old: hold.to, since, new });
    }

    fn can_finish(&self, b: usize, depth: usize) -> bool {
        self.blocks[b].state == State::Ahead && depth < MAX_DEPTH
    }

    /// Calculates the new end of a wait.
    fn finish(&mut self, b: usize, depth: usize) {
        if depth < MAX_DEPTH {
            self.release_until(self.blocks[b].to, depth + 1);
        }
        if self.blocks[b].state != State::Ahead {
            return;
        }
        self.blocks[b].state = State::InProgress;
        let (track, from, to) = (self.blocks[b].track, self.blocks[b].from, self.blocks[b].to);
        self.begin_line(track, depth);
        loop {
            self.advance(track.0 as usize);
            let line = &self.lines[track.0 as usize];
            match line.steps.get(line.done) {
                Some(&Step::Block(next)) if next != b && self.can_finish(next, depth) => {
                    self.finish(next, depth + 1);
                }
                _ => break,
            }
        }
        let line = &self.lines[track.0 as usize];
        if !matches!(line.steps.get(line.done), Some(&Step::Block(next)) if next == b) {
            // A cycle at one instant. The block still has its own event.
            self.blocks[b].state = State::Ahead;
            return;
        }
        let start = line.next(from);
        let (woken, wakes, end) = match to <= self.unchanged_until {
            true => (to, to.0 as f64, to.0 as f64),
            false => self.block_end(b, start, depth),
        };
        let line = &mut self.lines[track.0 as usize];
        let slope = |old: Ns, new: f64| if old > Ns::ZERO { new / old.0 as f64 } else { 1.0 };
        line.marks.push(Mark { old: from, new: start, factor: slope(woken - from, wakes - start) });
        line.marks.push(Mark { old: woken, new: wakes, factor: slope(to - woken, end - wakes) });
        line.marks.push(Mark { old: to, new: end, factor: 1.0 });
        line.done += 1;
        self.blocks[b].state = State::Done;
    }

    /// Returns the recorded time of the wake-up, its new time, and the new end of the wait.
    fn block_end(&mut self, b: usize, start: f64, depth: usize) -> (Ns, f64, f64) {
        let block = &self.blocks[b];
        let (track, from, to, (unblamed_factor, whole_factor)) = (block.track, block.from, block.to, block.factors);
        let (idle, waits) = (block.idle, block.waits.clone());
        let mut topics: Vec<NameId> = Vec::new();
        let (mut woken, mut wakes, mut end) = (to, start, start);
        // Shrinks without the time in the run queue: the thread on that CPU has as much to do as before.
        let shrunk = |at: f64| start + whole_factor * (at - start);
        for number in waits {
            let wait = self.waits[number];
            let since = wait.from.max(from);
            let (was_woken, until) = (wait.woken.clamp(since, to), wait.until.clamp(since, to));
            let blocked = was_woken - since;
            let at = start + (since - from).0 as f64;
            let then_wakes = match wait.by {
                WaitedOn::Holders(topic) => {
                    topics.extend((!topics.contains(&topic)).then_some(topic));
                    continue;
                }
                WaitedOn::Thread(waker) if waker != track && blocked > Ns::ZERO => {
                    self.time_at(waker, was_woken, depth + 1).max(at)
                }
                WaitedOn::Interrupt(_) | WaitedOn::Unknown if idle => {
                    // The thread that ran on the boot path gave it work, and may then have waited for it.
                    let giver = self.shared.on_path(self.timeline).last_ran(was_woken);
                    let giver = giver.filter(|&(gave_work_at, by)| gave_work_at > since && by != track);
                    let starts =
                        giver.map_or(at, |(gave_work_at, by)| self.time_at(by, gave_work_at, depth + 1).max(at));
                    starts + unblamed_factor * (was_woken - giver.map_or(since, |giver| giver.0)).0 as f64
                }
                _ => at + unblamed_factor * blocked.0 as f64,
            };
            let (at, then_wakes) = (shrunk(at), shrunk(then_wakes));
            // A thread that is woken before it waits does not wait, and not for a CPU either.
            let waits_at_all = then_wakes > at || blocked == Ns::ZERO;
            let then_until = match waits_at_all {
                true => self.turn_start(track, (was_woken, until), then_wakes, depth),
                false => at,
            };
            if then_until >= end {
                (woken, wakes, end) = (was_woken, then_wakes, then_until);
            }
        }
        if !topics.is_empty() {
            let still_held = self.still_held(track, (from, to), &topics);
            let ender = still_held.into_iter().map(|holder| self.time_at(holder, to, depth + 1)).reduce(f64::max);
            let released = self.held_until(track, (from, to), &topics, start, (unblamed_factor, ender));
            let released = shrunk(released);
            if released >= end {
                (woken, wakes, end) = (to, released, released);
            }
        }
        (woken, wakes, end)
    }

    /// Returns the threads that ended a wait without having released by then, one for each topic. Empty if a release of
    /// any topic ended it.
    fn still_held(&self, waiter: TrackId, wait: (Ns, Ns), topics: &[NameId]) -> Vec<TrackId> {
        let enders: Vec<Ender> = topics.iter().map(|&topic| self.recorded.holds.ender(waiter, topic, wait)).collect();
        if enders.iter().any(|ender| matches!(ender, Ender::Release(_))) {
            return Vec::new();
        }
        let holder_of = |ender: Ender| if let Ender::StillHeld(holder) = ender { Some(holder) } else { None };
        enders.into_iter().filter_map(holder_of).collect()
    }

    /// Returns the new time at which a woken thread gets a CPU: when the thread before it leaves the CPU. The time in
    /// the run queue is at most the recorded one, less the shortening of all runs meanwhile. If no thread was on the
    /// CPU, the time in the run queue keeps its length.
    fn turn_start(&mut self, track: TrackId, (was_woken, until): (Ns, Ns), wakes: f64, depth: usize) -> f64 {
        let queued = (until - was_woken).0.max(0) as f64;
        let ran: Vec<Running> = self.turns.waited_for(track, was_woken, until).collect();
        let Some(last) = ran.first().copied() else { return wakes + queued };
        let leaves = self.time_at(last.track, last.to, depth + 1);
        let shortening: f64 = ran.into_iter().map(|r| self.shortening(r, depth)).sum();
        (wakes.max(leaves) + (until - last.to).0 as f64).min(wakes + (queued - shortening).max(0.0))
    }

    /// Returns the reduction of a stretch on a CPU.
    fn shortening(&mut self, ran: Running, depth: usize) -> f64 {
        let [from, to] = [ran.from, ran.to].map(|at| self.time_at(ran.track, at, depth + 1));
        (ran.to - ran.from).0 as f64 - (to - from).max(0.0)
    }

    /// Returns the new end of a wait for topics that lasted `from..to`, if it starts at `start`. `ender` is the new
    /// time at which a thread that still held at its end gets there.
    fn held_until(
        &self,
        waiter: TrackId,
        (from, to): (Ns, Ns),
        topics: &[NameId],
        start: f64,
        (unblamed_factor, ender): (f64, Option<f64>),
    ) -> f64 {
        let topics: Vec<&Topic> = topics.iter().filter_map(|topic| self.topics.get(topic)).collect();
        let last = |topic: &&Topic| topic.old.iter().rev().find(|&&(at, by)| at <= to && by != waiter).map(|r| r.0);
        let ended_by = topics.iter().filter_map(last).max().filter(|&at| at > from);
        let mut end = start;
        // The wait may now be for a hold that was over before it began.
        let mut earlier: Vec<(f64, f64)> = Vec::new();
        let late = topics.iter().flat_map(|topic| topic.new.iter().rev().take_while(|r| r.new > start));
        for r in late.filter(|r| r.track != waiter && r.old <= to) {
            if r.old > from {
                end = end.max(r.new);
            } else {
                earlier.push((r.since, r.new));
            }
        }
        earlier.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (since, new) in earlier {
            end = if since <= end { end.max(new) } else { end };
        }
        if let Some(ender) = ender {
            return end.max(ender);
        }
        match ended_by {
            Some(last) if end > start => end + unblamed_factor * (to - last).0 as f64,
            Some(_) => start,
            None => end + unblamed_factor * (to - from).0 as f64,
        }
    }
}
