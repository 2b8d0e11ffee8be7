//! A replay on a machine with one CPU, where the work of each thread delays all others.
//!
//! The turns on the CPU are known ([`timeline::Occupancy`]), each with what its thread waited for before it. They are
//! replayed. Among the threads that can run, the one whose recorded turn came first runs next. It keeps the CPU until its
//! turn ends. A thread can run when the thread that woke it gets there, or when all holders of its topic have released
//! it. After a sleep, it can run when the same length of time has passed. With nothing shortened, each turn begins at
//! its recorded time.
//!
//! The evidence may not show what ended a sleep. If the CPU was not idle since, it was work from another thread.
//! Otherwise it was a timer, which expired when the thread ran again. Other boots that the log allows are replayed as
//! separate boots (`what_if::allowed`).

mod plan;

use super::Shrink;
use super::line::{Line, Mark, Step, runs};
use crate::holds::TakenOver;
use hashbrown::HashMap;
use plan::Plan;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use timeline::{NameId, Ns, Occupancy, OffCpu, Running, Timeline, TrackId};

/// Maximum number of nested waits that are searched for the one that lasted.
const MAX_NESTED_WAITS: usize = 64;
/// Maximum idle time of the CPU between giving a thread work and the thread's turn. The CPU was switching then.
const MAX_SWITCH: Ns = Ns(50_000);

/// The event that ends the wait before a turn.
#[derive(Clone, Copy, Debug)]
enum Wake {
    /// A thread gets to its state at a recorded time.
    Cue(TrackId, Ns),
    /// All threads that had released a topic by a recorded time have released it. The factor is the wait's.
    Topic(NameId, Ns, f64),
    /// A length of time after it left the CPU.
    After(f64),
    /// An instant.
    At(f64),
}

#[derive(Clone, Copy, Debug)]
struct Turn {
    from: Ns,
    to: Ns,
    /// The index among all turns.
    order: usize,
    /// The time at which its thread left the CPU before, or was created.
    gap_from: Ns,
    wake: Wake,
    /// The recorded time at which it was ready, and the delay after its wake event.
    ready: Ns,
    late: f64,
    /// The recorded stretch off the CPU before it.
    off: Option<OffCpu>,
}

#[derive(Default)]
struct Thread {
    turns: Vec<Turn>,
    next: usize,
    /// The new time at which it left the CPU.
    left: f64,
    /// The new time at which it is ready.
    ready: f64,
    /// Waits in which it did not have to wait, as (end, start, topic), by end.
    waits: Vec<(Ns, Ns, NameId)>,
}

struct Release {
    at: Ns,
    track: TrackId,
    /// The thread that took it, and when.
    taken: Option<(TrackId, Ns)>,
}

/// The releases of a topic, by time.
#[derive(Default)]
struct Topic {
    releases: Vec<Release>,
    /// The number of leading releases that are replayed, and the new time of the last of them.
    done: usize,
    last: f64,
}

/// Replays the turns and fills the lines of the threads that have turns. `other` returns the new time of a line without
/// turns. Returns the new occupancy of the CPU.
pub fn play(
    timeline: &Timeline,
    lines: &mut [Line],
    shrink: &dyn Shrink,
    taken_over: &[TakenOver],
    other: &dyn Fn(&[Line], TrackId, Ns) -> f64,
) -> Occupancy {
    let mut play = Play::new(timeline, lines, shrink, taken_over, other);
    play.replay_all();
    play.new.is_logged = timeline.occupancy.is_logged;
    play.new.has_timeouts = timeline.occupancy.has_timeouts;
    play.new.sort();
    play.new
}

struct Play<'a> {
    lines: &'a mut [Line],
    shrink: &'a dyn Shrink,
    other: &'a dyn Fn(&[Line], TrackId, Ns) -> f64,
    threads: Vec<Thread>,
    topics: HashMap<NameId, Topic>,
    /// For each thread, the threads that wait for it.
    waiting: Vec<Vec<usize>>,
    /// The thread of each turn, and true if it was replayed, in the order of turns. All turns before `first` were
    /// replayed.
    played: Vec<(usize, bool)>,
    first: usize,
    /// Threads that are ready later, by time, and threads that are ready now.
    later: BinaryHeap<Reverse<(u64, usize, usize)>>,
    can_run: BinaryHeap<Reverse<(usize, usize)>>,
    now: f64,
    cpu: u32,
    new: Occupancy,
}

impl<'a> Play<'a> {
    fn new(
        timeline: &'a Timeline,
        lines: &'a mut [Line],
        shrink: &'a dyn Shrink,
        taken_over: &[TakenOver],
        other: &'a dyn Fn(&[Line], TrackId, Ns) -> f64,
    ) -> Self {
        let count = timeline.tracks.len();
        let plan = Plan::new(timeline, shrink, taken_over);
        let first = timeline.occupancy.turns.first();
        Play {
            lines,
            shrink,
            other,
            threads: plan.threads(),
            topics: topics(timeline, taken_over),
            waiting: vec![Vec::new(); count],
            played: timeline.occupancy.turns.iter().map(|turn| (turn.track.0 as usize, false)).collect(),
            first: 0,
            later: BinaryHeap::new(),
            can_run: BinaryHeap::new(),
            now: first.map_or(0.0, |turn| turn.from.0 as f64).min(0.0),
            cpu: first.map_or(0, |turn| turn.cpu),
            new: Occupancy::default(),
        }
    }

    fn replay_all(&mut self) {
        for thread in 0..self.threads.len() {
            self.wait(thread);
        }
        loop {
            while let Some(&Reverse((at, order, thread))) = self.later.peek() {
                if f64::from_bits(at) > self.now && !self.can_run.is_empty() {
                    break;
                }
                self.now = self.now.max(f64::from_bits(at));
                self.later.pop();
                self.can_run.push(Reverse((order, thread)));
            }
            let Some(Reverse((_, thread))) = self.can_run.pop() else {
                // The evidence contradicts itself: a thread waits for an event that never comes.
                let Some(thread) = self.first_waiting() else { break };
                self.waiting.iter_mut().for_each(|waiting| waiting.retain(|&waiting| waiting != thread));
                self.ready_at(thread, self.now);
                continue;
            };
            self.run(thread);
        }
    }

    /// Returns the thread of the first turn that is not replayed.
    fn first_waiting(&mut self) -> Option<usize> {
        while self.played.get(self.first)?.1 {
            self.first += 1;
        }
        Some(self.played[self.first].0)
    }

    fn turn(&self, thread: usize) -> Option<Turn> {
        self.threads[thread].turns.get(self.threads[thread].next).copied()
    }

    /// Makes a thread wait for its next turn.
    fn wait(&mut self, thread: usize) {
        let Some(turn) = self.turn(thread) else { return };
        let left = self.threads[thread].left;
        match turn.wake {
            Wake::Cue(by, at) => match self.reached(by, at) {
                Some(at) => self.ready_at(thread, at + turn.late),
                None => self.waiting[by.0 as usize].push(thread),
            },
            Wake::Topic(topic, until, whole_factor) => {
                match self.released(TrackId(timeline::number(thread)), topic, until) {
                    Ok(at) => self.ready_at(thread, left + whole_factor * (at - left).max(0.0) + turn.late),
                    Err(by) => self.waiting[by.0 as usize].push(thread),
                }
            }
            Wake::After(length) => self.ready_at(thread, left + length),
            Wake::At(at) => self.ready_at(thread, at),
        }
    }

    fn ready_at(&mut self, thread: usize, at: f64) {
        let Some(turn) = self.turn(thread) else { return };
        self.threads[thread].ready = at;
        // The bits of floats above zero have the floats' order.
        self.later.push(Reverse((at.max(0.0).to_bits(), turn.order, thread)));
    }

    /// Returns the new time at which a thread got to its state at `at`. `None` if it has not got there.
    fn reached(&self, track: TrackId, at: Ns) -> Option<f64> {
        let thread = &self.threads[track.0 as usize];
        let line = &self.lines[track.0 as usize];
        if thread.turns.is_empty() {
            return Some((self.other)(self.lines, track, at));
        }
        let done = thread.next.checked_sub(1).map(|last| thread.turns[last].to);
        let is_there = done.is_some_and(|done| {
            done >= at || thread.turns.get(thread.next).is_none_or(|next| next.gap_from < at && next.from > at)
        });
        is_there.then(|| line.at(at))
    }

    /// Returns the new time at which all threads that had released a topic by `until` have released it. If one still
    /// holds it, returns that thread as the error.
    fn released(&mut self, waiter: TrackId, topic: NameId, until: Ns) -> Result<f64, TrackId> {
        let Some(mut state) = self.topics.remove(&topic) else { return Ok(self.now) };
        let reached = |release: &Release| self.reached(release.track, release.at);
        while let Some(at) = state.releases.get(state.done).and_then(reached) {
            state.last = state.last.max(at);
            state.done += 1;
        }
        let by_then = state.releases.partition_point(|release| release.at <= until);
        let mut last = Ok(state.last);
        for release in state.releases[..by_then].iter().skip(state.done).filter(|release| release.track != waiter) {
            match reached(release) {
                Some(at) => last = last.map(|last| at.max(last)),
                None if release.taken.is_none_or(|(by, at)| self.reached(by, at).is_some()) => {
                    last = Err(release.track);
                    break;
                }
                None => {}
            }
        }
        self.topics.insert(topic, state);
        last
    }

    /// Runs a thread's turn.
    fn run(&mut self, thread: usize) {
        let Some(turn) = self.turn(thread) else { return };
        let track = TrackId(timeline::number(thread));
        self.map_time_before(thread, turn);
        let Thread { waits, .. } = &self.threads[thread];
        let inside = &waits[waits.partition_point(|wait| wait.0 <= turn.from)..];
        let inside: Vec<(Ns, Ns, NameId)> = inside.iter().take_while(|wait| wait.0 <= turn.to).copied().collect();
        let mut from = turn.from;
        for (until, begun, topic) in inside {
            if begun < turn.from {
                continue;
            }
            self.run_stretch(track, from, until);
            from = until;
            if self.released(track, topic, until).is_err() {
                // It did not have to wait when recorded, but has to now.
                self.leave_cpu(thread, turn, until);
                let rest = Turn {
                    from: until,
                    gap_from: until,
                    wake: Wake::Topic(topic, until, 1.0),
                    ready: until,
                    late: 0.0,
                    off: Some(OffCpu { track, from: until, ready: Some(until), until, by: None }),
                    ..turn
                };
                let played = &mut self.threads[thread];
                played.turns[played.next].to = until;
                played.next += 1;
                played.turns.insert(played.next, rest);
                return self.requeue(thread);
            }
        }
        self.run_stretch(track, from, turn.to);
        self.leave_cpu(thread, turn, turn.to);
        self.threads[thread].next += 1;
        self.played[turn.order].1 = true;
        self.requeue(thread);
    }

    /// Maps the time before the thread's turn.
    fn map_time_before(&mut self, thread: usize, turn: Turn) {
        let Thread { left, ready, next, .. } = self.threads[thread];
        let (left, ready) = if next == 0 { (ready, ready) } else { (left, ready.max(left)) };
        let ready = ready.min(self.now);
        let marks = &mut self.lines[thread].marks;
        let slope = |old: Ns, new: f64| if old > Ns::ZERO { new / old.0 as f64 } else { 1.0 };
        if turn.gap_from < turn.from {
            let was_ready = turn.ready.clamp(turn.gap_from, turn.from);
            marks.push(Mark { old: turn.gap_from, new: left, factor: slope(was_ready - turn.gap_from, ready - left) });
            if was_ready < turn.from {
                let factor = slope(turn.from - was_ready, self.now - ready);
                marks.push(Mark { old: was_ready, new: ready, factor });
            }
        }
        marks.push(Mark { old: turn.from, new: self.now, factor: 1.0 });
        if let Some(off) = turn.off {
            let at = |new: f64| Ns::rounded(new);
            let new_ready = off.ready.map(|_| at(ready));
            self.new.off.push(OffCpu { from: at(left), ready: new_ready, until: at(self.now), ..off });
        }
        self.threads[thread].left = self.now;
    }

    /// Maps a stretch in which the thread runs.
    fn run_stretch(&mut self, track: TrackId, from: Ns, to: Ns) {
        let mut steps = Vec::new();
        runs(track, from, to, self.shrink, &mut steps);
        let line = &mut self.lines[track.0 as usize];
        for step in steps {
            if let Step::Run(from, factor) = step {
                line.marks.push(Mark { old: from, new: line.next(from), factor });
            }
        }
        if from < to {
            self.now = line.at(to);
        }
    }

    /// Takes the thread off the CPU, at its state at `at`.
    fn leave_cpu(&mut self, thread: usize, turn: Turn, at: Ns) {
        let round = |new: f64| Ns::rounded(new);
        let (track, cpu) = (TrackId(timeline::number(thread)), self.cpu);
        let from = round(self.threads[thread].left);
        self.new.turns.push(Running { track, cpu, from, to: round(self.now) });
        if turn.from < at {
            self.lines[thread].marks.push(Mark { old: at, new: self.now, factor: 1.0 });
        }
        self.threads[thread].left = self.now;
    }

    /// Makes this thread, and the threads that waited for it, look for their next turns.
    fn requeue(&mut self, thread: usize) {
        self.wait(thread);
        for waiting in std::mem::take(&mut self.waiting[thread]) {
            self.wait(waiting);
        }
    }
}

/// Returns the releases of each topic, by time.
fn topics(timeline: &Timeline, taken_over: &[TakenOver]) -> HashMap<NameId, Topic> {
    let holds = &timeline.holds;
    let taker_by_release: HashMap<usize, usize> =
        taken_over.iter().filter_map(|t| Some((t.releaser, t.taker?))).collect();
    let mut topics: HashMap<NameId, Topic> = HashMap::new();
    for (i, hold) in holds.iter().enumerate().filter(|(_, hold)| hold.to < Ns::MAX) {
        let taken = match taker_by_release.get(&i) {
            Some(&taker) => Some((holds[taker].track, holds[taker].from)),
            None => Some((hold.track, hold.from)).filter(|taken| taken.1 > Ns::MIN),
        };
        topics.entry(hold.topic).or_default().releases.push(Release { at: hold.to, track: hold.track, taken });
    }
    topics.values_mut().for_each(|topic| topic.releases.sort_by_key(|release| release.at));
    topics
}
