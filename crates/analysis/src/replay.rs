//! A boot run again with some of its work made shorter: when everything would then have happened.
//!
//! Each line of execution has a map from when things happened to when they then would. Work that is shortened shrinks in
//! place. A thread begins when its creator gets to where it created it. A wait ends when what ended it is over: for a
//! topic when the last thread that holds it then releases, whoever that is, or gets to where it still held; for a waker when it gets to where it woke.
//! Nobody waits for what is over before. A turn on a CPU comes when who had it leaves it. What follows a release until the
//! waiter went on, and a wait for a timer or a device, keep their length. With nothing shortened every map is the identity, to the nanosecond.
//!
//! What it cannot know it takes for granted: that a thread whose creator the evidence does not name is the boot
//! thread's; that a thread which waits outside of any work, until an interrupt or nobody knows what, waits for work from
//! whoever ran on the boot path last, and only what the boot then waited for it keeps its length; and that a thread which
//! takes work from others without saying so does not wait for them, unless a [hold](before::handovers) shows it.

mod before;
mod line;
mod one_cpu;
mod outcome;

pub use before::Shared;

use crate::holds::Ender;
use crate::segments::Segments;
use before::{Before, LineBefore, Turns};
use hashbrown::HashMap;
use line::{Line, Mark, Step, runs};
use std::ops::Range;
use timeline::{NameId, Ns, Occupancy, Os, Running, SpanId, SpanKind, Timeline, TrackId, Wait, WaitedOn};

/// By what factor time passes differently.
pub trait Shrink {
    /// Cuts `from..to`, in which a track ran, where factors change.
    fn running(&self, track: TrackId, from: Ns, to: Ns, each: &mut dyn FnMut(Ns, f64));
    /// For a wait: the factor of what nobody else is to blame for, and that of the wait as a whole. Neither is of its turn for a CPU.
    fn waiting(&self, wait: &Wait) -> (f64, f64);
    /// An instant before which time passes as it did everywhere, so that nothing need be worked out there.
    fn unchanged_until(&self) -> Ns {
        Ns::MIN
    }
}

/// When everything would have happened.
pub struct Replay<'a> {
    timeline: &'a Timeline,
    lines: Vec<Line>,
    blocks: Vec<Block>,
    /// The waits of all blocks, one block's after the other's.
    waits: Vec<Wait>,
    topics: HashMap<NameId, Topic>,
    /// How many of those that are released at all were.
    released: usize,
    before: &'a Before,
    turns: &'a Turns,
    /// Until then every map is the identity.
    unchanged_until: Ns,
    shared: &'a Shared,
    /// Who then has the one CPU when.
    occupancy: Occupancy,
}

/// A wait with all waits within it.
struct Block {
    track: TrackId,
    from: Ns,
    to: Ns,
    /// Its waits, as places in the replay's.
    waits: Range<usize>,
    /// The factor of what nobody else is to blame for, and that of the whole.
    factors: (f64, f64),
    /// Whether it waits outside of any work, and not on the boot's own line: it waits for work to be given to it.
    idle: bool,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Ahead,
    UnderWay,
    Done,
}

/// Those who released a topic so far.
#[derive(Default)]
struct Topic {
    /// By when they released it.
    old: Vec<(Ns, TrackId)>,
    /// By when they then would.
    new: Vec<Released>,
}

#[derive(Clone, Copy)]
struct Released {
    track: TrackId,
    old: Ns,
    since: f64,
    new: f64,
}

/// In order of time; at one instant in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Birth(TrackId),
    End(usize),
}

/// Deeper dependencies at one instant are broken evidence's (a circle).
const DEEPEST: usize = 64;

impl<'a> Replay<'a> {
    /// Runs the boot again. `O(n log n)`, and each wait looks at the holds that then still last. What is `shared` serves
    /// other replays of the same timeline too.
    pub fn new(
        timeline: &'a Timeline,
        boot: TrackId,
        segments: &Segments,
        shared: &'a Shared,
        shrink: &dyn Shrink,
    ) -> Self {
        let before = shared.before(timeline, boot, segments);
        let mut replay = Replay {
            timeline,
            lines: Vec::with_capacity(before.lines.len()),
            blocks: Vec::new(),
            waits: Vec::with_capacity(timeline.waits.len()),
            topics: HashMap::new(),
            released: 0,
            before,
            turns: shared.turns(timeline),
            unchanged_until: shrink.unchanged_until(),
            shared,
            occupancy: timeline.occupancy.clone(),
        };
        for ((track, _), line) in timeline.tracks.iter().zip(&before.lines) {
            match line.takes_turns {
                true => replay.lines.push(Line { born: line.born, steps: Vec::new(), done: 0, marks: Vec::new() }),
                false => replay.add(track, line, segments, shrink),
            }
        }
        if timeline.occupancy.is_of_one_cpu() {
            let own = before.lineage.iter().rev().map(|&(track, _)| track);
            for track in own.filter(|track| !before.lines[track.0 as usize].takes_turns) {
                replay.birth(track, 0);
                replay.advance(track.0 as usize);
            }
            let time = |lines: &[Line], track, at| line::time(lines, track, at);
            replay.occupancy = one_cpu::play(timeline, &mut replay.lines, shrink, &before.taken_over, &time);
        }
        replay.run();
        replay
    }

    /// Lays out one line: what it runs, and where it waits. What it waited for before it began is no work of its own.
    fn add(&mut self, track: TrackId, line: &LineBefore, segments: &Segments, shrink: &dyn Shrink) {
        let (born, begun) = (line.born, line.begun);
        let (first, last) = self.before.extent;
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
            let own_until = self.before.lineage.iter().find(|own| own.0 == track).map_or(Ns::MIN, |own| own.1);
            let works = segments.waiting(wait).is_some_and(|span| self.works(span));
            let idle = from >= own_until && !works;
            self.blocks.push(Block { track, from, to, waits, factors, idle, state: State::Ahead });
            rest = &rest[count..];
            at = to;
        }
        runs(track, at, last, shrink, &mut steps);
        self.lines.push(Line { born, steps, done: 0, marks: Vec::new() });
    }

    /// Whether somebody says of a thread in this span that it works. That a call was followed says nothing: a worker that has
    /// nothing to do sleeps in its main loop. Neither does a call of Linux's that QEMU saw run for the first time, such as
    /// `schedule`; other kernels log their calls themselves.
    fn works(&self, span: SpanId) -> bool {
        let (spans, is_linux) = (&self.timeline.spans, self.timeline.os == Os::Linux);
        let says = |span: SpanId| spans.node(span).is_none() && !(is_linux && spans.get(span).kind == SpanKind::Call);
        std::iter::successors(Some(span), |&span| spans.parent(span)).any(says)
    }

    fn run(&mut self) {
        let born = |(i, line): (u32, &Line)| line.born.map(|(at, _)| (at, Event::Birth(TrackId(i))));
        let mut events: Vec<(Ns, Event)> = (0..).zip(&self.lines).filter_map(born).collect();
        events.extend(self.blocks.iter().enumerate().map(|(i, b)| (b.to, Event::End(i))));
        events.sort_unstable();
        for (at, event) in events {
            self.release_until(at, 0);
            match event {
                Event::Birth(track) => self.birth(track, 0),
                Event::End(block) => self.finish(block, 0),
            }
        }
        self.release_until(Ns::MAX, 0);
        for track in 0..self.lines.len() {
            self.birth(TrackId(timeline::number(track)), 0);
            self.advance(track);
        }
    }

    /// The line's first mark.
    fn birth(&mut self, track: TrackId, depth: usize) {
        if !self.lines[track.0 as usize].marks.is_empty() {
            return;
        }
        let (old, new) = match self.lines[track.0 as usize].born {
            Some((at, by)) => (at, self.ask(by, at, depth + 1)),
            None => (self.before.extent.0, self.before.extent.0.0 as f64),
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

    /// When a line then gets to where it was at `at`, which is not later than what was replayed so far.
    fn ask(&mut self, track: TrackId, at: Ns, depth: usize) -> f64 {
        if depth > DEEPEST || at <= self.unchanged_until {
            return at.0 as f64;
        }
        if let Some((born, by)) = self.lines[track.0 as usize].born {
            if at < born {
                return self.ask(by, at, depth + 1);
            }
        }
        self.birth(track, depth);
        loop {
            self.advance(track.0 as usize);
            let line = &self.lines[track.0 as usize];
            match line.steps.get(line.done) {
                Some(&Step::Block(b)) if self.can_finish(b, depth) && self.blocks[b].to <= at => {
                    self.finish(b, depth + 1);
                }
                // Within a wait that did not end yet: evidence that contradicts itself.
                Some(&Step::Block(b)) if self.blocks[b].from < at => {
                    let from = self.blocks[b].from;
                    return line.at(from) + (at - from).0 as f64;
                }
                _ => return line.at(at),
            }
        }
    }

    /// Takes in what was released by `at`. A wait that ended at one instant with a release may have ended by it.
    fn release_until(&mut self, at: Ns, depth: usize) {
        while let Some(&next) = self.before.releases.get(self.released).filter(|&&i| self.timeline.holds[i].to <= at) {
            self.released += 1;
            self.release(next, depth);
        }
    }

    fn release(&mut self, hold: usize, depth: usize) {
        let hold = self.timeline.holds[hold];
        let born = self.lines[hold.track.0 as usize].born.map_or(Ns::MIN, |(at, _)| at);
        let since = hold.from.max(born);
        let since = if since == Ns::MIN { f64::NEG_INFINITY } else { self.ask(hold.track, since.min(hold.to), depth) };
        let new = self.ask(hold.track, hold.to, depth);
        let topic = self.topics.entry(hold.topic).or_default();
        topic.old.push((hold.to, hold.track));
        let place = topic.new.partition_point(|r| r.new <= new);
        topic.new.insert(place, Released { track: hold.track, old: hold.to, since, new });
    }

    fn can_finish(&self, b: usize, depth: usize) -> bool {
        self.blocks[b].state == State::Ahead && depth < DEEPEST
    }

    /// Finds out when a wait then ends.
    fn finish(&mut self, b: usize, depth: usize) {
        if depth < DEEPEST {
            self.release_until(self.blocks[b].to, depth + 1);
        }
        if self.blocks[b].state != State::Ahead {
            return;
        }
        self.blocks[b].state = State::UnderWay;
        let (track, from, to) = (self.blocks[b].track, self.blocks[b].from, self.blocks[b].to);
        self.birth(track, depth);
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
            // A circle at one instant. It has an event of its own still.
            self.blocks[b].state = State::Ahead;
            return;
        }
        let start = line.next(from);
        let (woken, wakes, end) = match to <= self.unchanged_until {
            true => (to, to.0 as f64, to.0 as f64),
            false => self.end_of(b, start, depth),
        };
        let line = &mut self.lines[track.0 as usize];
        let slope = |old: Ns, new: f64| if old > Ns::ZERO { new / old.0 as f64 } else { 1.0 };
        line.marks.push(Mark { old: from, new: start, factor: slope(woken - from, wakes - start) });
        line.marks.push(Mark { old: woken, new: wakes, factor: slope(to - woken, end - wakes) });
        line.marks.push(Mark { old: to, new: end, factor: 1.0 });
        line.done += 1;
        self.blocks[b].state = State::Done;
    }

    /// When the thread was woken, when it then would be, and when it then goes on.
    fn end_of(&mut self, b: usize, start: f64, depth: usize) -> (Ns, f64, f64) {
        let block = &self.blocks[b];
        let (track, from, to, (alone, whole)) = (block.track, block.from, block.to, block.factors);
        let (idle, waits) = (block.idle, block.waits.clone());
        let mut topics: Vec<NameId> = Vec::new();
        let (mut woken, mut wakes, mut end) = (to, start, start);
        // Without its turn for a CPU: who has that has as much to do as before.
        let shrunk = |at: f64| start + whole * (at - start);
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
                    self.ask(waker, was_woken, depth + 1).max(at)
                }
                WaitedOn::Interrupt(_) | WaitedOn::Unknown if idle => {
                    // Who ran on the boot path gave it work, and then may have waited for it.
                    let ran = self.shared.on_path(self.timeline).last_ran(was_woken);
                    let ran = ran.filter(|&(given, by)| given > since && by != track);
                    let starts = ran.map_or(at, |(given, by)| self.ask(by, given, depth + 1).max(at));
                    starts + alone * (was_woken - ran.map_or(since, |ran| ran.0)).0 as f64
                }
                _ => at + alone * blocked.0 as f64,
            };
            let (at, then_wakes) = (shrunk(at), shrunk(then_wakes));
            // Who is woken before it waits does not wait, and not for a CPU either.
            let waits_at_all = then_wakes > at || blocked == Ns::ZERO;
            let then_until = match waits_at_all {
                true => self.turn(track, (was_woken, until), then_wakes, depth),
                false => at,
            };
            if then_until >= end {
                (woken, wakes, end) = (was_woken, then_wakes, then_until);
            }
        }
        if !topics.is_empty() {
            let still_held = self.still_held(track, (from, to), &topics);
            let ender = still_held.into_iter().map(|holder| self.ask(holder, to, depth + 1)).reduce(f64::max);
            let released = self.held_until(track, (from, to), &topics, start, (alone, ender));
            let released = shrunk(released);
            if released >= end {
                (woken, wakes, end) = (to, released, released);
            }
        }
        (woken, wakes, end)
    }

    /// Who ended a wait without having released by then, of each topic: nobody if a release of any of them ended it.
    fn still_held(&self, waiter: TrackId, wait: (Ns, Ns), topics: &[NameId]) -> Vec<TrackId> {
        let enders: Vec<Ender> = topics.iter().map(|&topic| self.before.holds.ender(waiter, topic, wait)).collect();
        if enders.iter().any(|ender| matches!(ender, Ender::Release(_))) {
            return Vec::new();
        }
        let still = |ender: Ender| if let Ender::StillHeld(holder) = ender { Some(holder) } else { None };
        enders.into_iter().filter_map(still).collect()
    }

    /// When a thread that was woken and got a CPU then gets it: when who had it leaves it; or, where that has a time of its
    /// own, as much sooner as all who had it meanwhile run shorter. With nobody there it takes as long as it did.
    fn turn(&mut self, track: TrackId, (was_woken, until): (Ns, Ns), wakes: f64, depth: usize) -> f64 {
        let queued = (until - was_woken).0.max(0) as f64;
        let ran: Vec<Running> = self.turns.waited_for(track, was_woken, until).collect();
        let Some(last) = ran.first().copied() else { return wakes + queued };
        let left = self.ask(last.track, last.to, depth + 1);
        let less: f64 = ran.into_iter().map(|r| self.less(r, depth)).sum();
        (wakes.max(left) + (until - last.to).0 as f64).min(wakes + (queued - less).max(0.0))
    }

    /// How much shorter a stretch on a CPU then is.
    fn less(&mut self, ran: Running, depth: usize) -> f64 {
        let [from, to] = [ran.from, ran.to].map(|at| self.ask(ran.track, at, depth + 1));
        (ran.to - ran.from).0 as f64 - (to - from).max(0.0)
    }

    /// When a wait for topics that lasted `from..to` then ends, if it starts at `start`, and if who still held at its end
    /// gets there at `ender`.
    fn held_until(
        &self,
        waiter: TrackId,
        (from, to): (Ns, Ns),
        topics: &[NameId],
        start: f64,
        (alone, ender): (f64, Option<f64>),
    ) -> f64 {
        let topics: Vec<&Topic> = topics.iter().filter_map(|topic| self.topics.get(topic)).collect();
        let last = |topic: &&Topic| topic.old.iter().rev().find(|&&(at, by)| at <= to && by != waiter).map(|r| r.0);
        let ended_by = topics.iter().filter_map(last).max().filter(|&at| at > from);
        let mut held = start;
        // What was over before the wait began may now be what it waits for.
        let mut before: Vec<(f64, f64)> = Vec::new();
        let late = topics.iter().flat_map(|topic| topic.new.iter().rev().take_while(|r| r.new > start));
        for r in late.filter(|r| r.track != waiter && r.old <= to) {
            if r.old > from {
                held = held.max(r.new);
            } else {
                before.push((r.since, r.new));
            }
        }
        before.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (since, new) in before {
            held = if since <= held { held.max(new) } else { held };
        }
        if let Some(ender) = ender {
            return held.max(ender);
        }
        match ended_by {
            Some(last) if held > start => held + alone * (to - last).0 as f64,
            Some(_) => start,
            None => held + alone * (to - from).0 as f64,
        }
    }
}
