//! A boot run again with some of its work made shorter: when everything would then have happened.
//!
//! Each line of execution has a map from when things happened to when they then would. Work that is shortened shrinks in
//! place. A thread begins when its creator gets to where it created it. A wait ends when what ended it is over: for a
//! topic when the last thread that holds it then releases, whoever that is; for a waker when it gets to where it woke.
//! Nobody waits for what is over before. What follows a release until the waiter went on, a wait for a timer or a device,
//! and a wait for a turn on a CPU keep their length. With nothing shortened every map is the identity, to the nanosecond.
//!
//! What it cannot know: a thread whose creator the evidence does not name is taken to be the boot thread's, and one that
//! takes its work from others without saying so is only known to wait for them where a [hold](handovers) shows it.

use crate::segments::Segments;
use hashbrown::HashMap;
use timeline::{NameId, Ns, SpanRow, Spans, Timeline, TrackId, Wait, WaitedOn};

/// By what factor time passes differently.
pub trait Shrink {
    /// Cuts `from..to`, in which a track ran, where factors change.
    fn running(&self, track: TrackId, from: Ns, to: Ns, each: &mut dyn FnMut(Ns, f64));
    /// For a wait: the factor of what nobody else is to blame for, and that of the wait as a whole.
    fn waiting(&self, wait: &Wait) -> (f64, f64);
}

/// When everything would have happened.
pub struct Replay<'a> {
    timeline: &'a Timeline,
    lines: Vec<Line>,
    blocks: Vec<Block>,
    topics: HashMap<NameId, Topic>,
    /// The first and the last time there is.
    extent: (Ns, Ns),
}

/// A line of execution.
struct Line {
    /// When it was created, and by whom.
    born: Option<(Ns, TrackId)>,
    steps: Vec<Step>,
    /// How many steps are in `marks`.
    done: usize,
    /// The map, in pieces.
    marks: Vec<Mark>,
}

/// From `old` on, until the next mark.
#[derive(Clone, Copy, Debug)]
struct Mark {
    old: Ns,
    new: f64,
    factor: f64,
}

enum Step {
    Run(Ns, f64),
    Block(usize),
}

/// A wait with all waits within it.
struct Block {
    track: TrackId,
    from: Ns,
    to: Ns,
    waits: Vec<Wait>,
    /// The factor of what nobody else is to blame for, and that of the whole.
    factors: (f64, f64),
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
    Release(usize),
    End(usize),
}

/// Deeper dependencies at one instant are broken evidence's (a circle).
const DEEPEST: usize = 64;

impl<'a> Replay<'a> {
    /// Runs the boot again. `O(n log n)`, and each wait looks at the holds that then still last.
    pub fn new(timeline: &'a Timeline, boot: TrackId, segments: &Segments, shrink: &dyn Shrink) -> Self {
        let extent = extent(timeline);
        let mut replay = Replay { timeline, lines: Vec::new(), blocks: Vec::new(), topics: HashMap::new(), extent };
        let mut waits: Vec<Vec<Wait>> = vec![Vec::new(); timeline.tracks.len()];
        for wait in timeline.waits.iter().copied().chain(handovers(timeline, segments)) {
            waits[wait.track.0 as usize].push(wait);
        }
        let lineage = crate::path::lineage(timeline, boot);
        let seen = first_seen(timeline, segments);
        for ((track, t), mut waits) in timeline.tracks.iter().zip(waits) {
            waits.sort_by_key(|w| w.from);
            let its_own = lineage.iter().any(|&(known, _)| known == track);
            let born = match t.created.filter(|&(_, by)| by != track) {
                None if its_own => None,
                None => Some((t.created.map_or(seen[track.0 as usize], |(at, _)| at), boot)),
                born => born,
            };
            replay.add(track, born, &waits, shrink);
        }
        replay.run();
        replay
    }

    /// Lays out one line: what it runs, and where it waits.
    fn add(&mut self, track: TrackId, born: Option<(Ns, TrackId)>, waits: &[Wait], shrink: &dyn Shrink) {
        let (first, last) = self.extent;
        let mut at = born.map_or(first, |(at, _)| at);
        let mut steps = Vec::new();
        let mut rest = waits;
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
            let (waits, factors) = (rest[..count].to_vec(), shrink.waiting(wait));
            self.blocks.push(Block { track, from, to, waits, factors, state: State::Ahead });
            rest = &rest[count..];
            at = to;
        }
        runs(track, at, last, shrink, &mut steps);
        self.lines.push(Line { born, steps, done: 0, marks: Vec::new() });
    }

    fn run(&mut self) {
        let holds = &self.timeline.holds;
        let born = |(i, line): (u32, &Line)| line.born.map(|(at, _)| (at, Event::Birth(TrackId(i))));
        let mut events: Vec<(Ns, Event)> = (0..).zip(&self.lines).filter_map(born).collect();
        events.extend(holds.iter().enumerate().filter(|(_, h)| h.to < Ns::MAX).map(|(i, h)| (h.to, Event::Release(i))));
        events.extend(self.blocks.iter().enumerate().map(|(i, b)| (b.to, Event::End(i))));
        events.sort_unstable();
        for (_, event) in events {
            match event {
                Event::Birth(track) => self.birth(track, 0),
                Event::Release(hold) => self.release(hold),
                Event::End(block) => self.finish(block, 0),
            }
        }
        for track in 0..self.lines.len() {
            self.birth(TrackId(track as u32), 0);
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
            None => (self.extent.0, self.extent.0.0 as f64),
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
        if depth > DEEPEST {
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

    fn release(&mut self, hold: usize) {
        let hold = self.timeline.holds[hold];
        let born = self.lines[hold.track.0 as usize].born.map_or(Ns::MIN, |(at, _)| at);
        let since = hold.from.max(born);
        let since = if since == Ns::MIN { f64::NEG_INFINITY } else { self.ask(hold.track, since.min(hold.to), 0) };
        let new = self.ask(hold.track, hold.to, 0);
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
        let (woken, wakes, end) = self.end_of(b, start, depth);
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
        let block = &mut self.blocks[b];
        let (track, from, to, (alone, whole)) = (block.track, block.from, block.to, block.factors);
        let waits = std::mem::take(&mut block.waits);
        let mut topics: Vec<NameId> = Vec::new();
        let (mut woken, mut wakes, mut end) = (to, start, start);
        for wait in &waits {
            let since = wait.from.max(from);
            let (was_woken, until) = (wait.woken.clamp(since, to), wait.until.clamp(since, to));
            let (blocked, queued) = (was_woken - since, (until - was_woken).0.max(0) as f64);
            let at = start + (since - from).0 as f64;
            let then_wakes = match wait.by {
                WaitedOn::Holders(topic) => {
                    topics.extend((!topics.contains(&topic)).then_some(topic));
                    continue;
                }
                WaitedOn::Thread(waker) if waker != track && blocked > Ns::ZERO => {
                    self.ask(waker, was_woken, depth + 1).max(at)
                }
                _ => at + alone * blocked.0 as f64,
            };
            // Who is woken before it waits does not wait, and not for a CPU either.
            let waits_at_all = then_wakes > at || blocked == Ns::ZERO;
            let then_until = if waits_at_all { then_wakes + queued } else { at };
            if then_until >= end {
                (woken, wakes, end) = (was_woken, then_wakes, then_until);
            }
        }
        if !topics.is_empty() {
            let released = self.held_until(track, (from, to), &topics, start, alone);
            if released >= end {
                (woken, wakes, end) = (to, released, released);
            }
        }
        (woken, start + whole * (wakes - start), start + whole * (end - start))
    }

    /// When a wait for topics that lasted `from..to` then ends, if it starts at `start`.
    fn held_until(&self, waiter: TrackId, (from, to): (Ns, Ns), topics: &[NameId], start: f64, alone: f64) -> f64 {
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
        match ended_by {
            Some(last) if held > start => held + alone * (to - last).0 as f64,
            Some(_) => start,
            None => held + alone * (to - from).0 as f64,
        }
    }

    /// The boot as it would have been: the same spans with the same numbers, at other times.
    pub fn timeline(&self, boot: TrackId) -> Timeline {
        let mut t = self.timeline.clone();
        let mut spans = Spans::default();
        for (id, row) in self.timeline.spans.iter() {
            let (start, end) = (self.time(row.track, row.start), self.time(row.track, row.end));
            spans.push(SpanRow { start, end, ..row }, self.timeline.spans.parent(id));
        }
        t.spans = spans;
        let unless_open = |track, at| if at == Ns::MAX || at == Ns::MIN { at } else { self.time(track, at) };
        for w in &mut t.waits {
            (w.from, w.woken, w.until) = self.wait(w);
        }
        for h in &mut t.holds {
            (h.from, h.to) = (unless_open(h.track, h.from), unless_open(h.track, h.to));
        }
        for r in &mut t.running {
            (r.from, r.to) = (self.time(r.track, r.from), unless_open(r.track, r.to));
        }
        for m in &mut t.marks {
            m.at = self.time(m.track, m.at);
        }
        for b in &mut t.boundaries {
            b.at = self.time(boot, b.at);
        }
        for p in &mut t.processes {
            (p.start, p.end) = (self.time(boot, p.start), p.end.map(|end| self.time(boot, end)));
        }
        for (track, _) in self.timeline.tracks.iter() {
            let created = &mut t.tracks.get_mut(track).created;
            *created = created.map(|(at, by)| (self.time(track, at), by));
        }
        t.end = t.end.map(|end| timeline::End { at: self.time(boot, end.at), ..end });
        t.waits.sort_by_key(|w| (w.track, w.from));
        t.holds.sort_by_key(|h| (h.topic, h.to, h.from));
        t.running.sort_by_key(|r| (r.track, r.from));
        t.marks.sort_by_key(|m| m.at);
        t
    }

    fn wait(&self, w: &Wait) -> (Ns, Ns, Ns) {
        let unless_open = |at| if at == Ns::MAX { at } else { self.time(w.track, at) };
        let from = self.time(w.track, w.from);
        if w.until > w.from {
            return (from, unless_open(w.woken), unless_open(w.until));
        }
        // It took no time, and now may take some: the upper end of the map's step.
        let line = &self.lines[w.track.0 as usize];
        let last = line.marks[..line.marks.partition_point(|m| m.old <= w.until)].last();
        let until = last.filter(|m| m.old == w.until).map_or(from, |m| Ns(m.new.round() as i64));
        (from, until, until)
    }

    /// When a line then gets to where it was at `at`.
    pub fn time(&self, track: TrackId, at: Ns) -> Ns {
        let mut line = &self.lines[track.0 as usize];
        // Before it was created it is its creator, but never later than when it is created.
        let mut latest = f64::INFINITY;
        for _ in 0..DEEPEST {
            let Some((_, by)) = line.born.filter(|&(born, _)| at < born) else { break };
            latest = latest.min(line.marks.first().map_or(latest, |m| m.new));
            line = &self.lines[by.0 as usize];
        }
        Ns(line.at(at).min(latest).round() as i64)
    }
}

impl Line {
    /// When what comes next begins, at `old` or later than all marks.
    fn next(&self, old: Ns) -> f64 {
        match self.marks.last() {
            Some(mark) if mark.old == old => mark.new,
            _ => self.at(old),
        }
    }

    /// Where the map has a step, its lower end.
    fn at(&self, old: Ns) -> f64 {
        let after = self.marks.partition_point(|m| m.old < old);
        match after.checked_sub(1).map_or_else(|| self.marks.first(), |i| self.marks.get(i)) {
            Some(mark) if mark.old < old => mark.new + mark.factor * (old - mark.old).0 as f64,
            Some(mark) => mark.new - (mark.old - old).0 as f64,
            None => old.0 as f64,
        }
    }
}

fn runs(track: TrackId, from: Ns, to: Ns, shrink: &dyn Shrink, steps: &mut Vec<Step>) {
    if from < to {
        let mut last = None;
        shrink.running(track, from, to, &mut |from, factor| {
            if last != Some(factor) {
                steps.push(Step::Run(from, factor));
                last = Some(factor);
            }
        });
    }
}

/// The first and the last time that is known of.
fn extent(timeline: &Timeline) -> (Ns, Ns) {
    let spans = timeline.spans.iter().flat_map(|(_, s)| [s.start, s.end]);
    let waits = timeline.waits.iter().flat_map(|w| [w.from, w.woken, w.until]);
    let holds = timeline.holds.iter().flat_map(|h| [h.from, h.to]);
    let running = timeline.running.iter().flat_map(|r| [r.from, r.to]);
    let created = timeline.tracks.iter().filter_map(|(_, t)| t.created).map(|(at, _)| at);
    let all = spans.chain(waits).chain(holds).chain(running).chain(created).chain(timeline.end.map(|end| end.at));
    let known = all.filter(|&at| at != Ns::MIN && at != Ns::MAX);
    known.fold((Ns::ZERO, Ns::ZERO), |(first, last), at| (first.min(at), last.max(at)))
}

/// Of each track, when it first did something: it was created by then, if nobody says when.
fn first_seen(timeline: &Timeline, segments: &Segments) -> Vec<Ns> {
    let mut first: Vec<Option<Ns>> = timeline.tracks.iter().map(|(track, _)| segments.first(track)).collect();
    let waits = timeline.waits.iter().map(|w| (w.track, w.from));
    let holds = timeline.holds.iter().map(|h| (h.track, if h.from == Ns::MIN { h.to } else { h.from }));
    for (track, at) in waits.chain(holds) {
        let first = &mut first[track.0 as usize];
        *first = Some(first.map_or(at, |known| known.min(at)));
    }
    first.into_iter().map(Option::unwrap_or_default).collect()
}

/// Work that one thread hands to another: the one holds a topic and never releases it, the other releases it and never
/// held it. FreeBSD's g_post_event and its event thread are such a pair. Where the other did nothing until then, it had
/// waited for the work. The first to hold is paired with the first to release. Linear, after sorting.
fn handovers(timeline: &Timeline, segments: &Segments) -> Vec<Wait> {
    let mut found = Vec::new();
    for holds in timeline.holds.chunk_by(|a, b| a.topic == b.topic) {
        let mut given: Vec<_> = holds.iter().filter(|h| h.to == Ns::MAX).collect();
        given.sort_by_key(|h| h.from);
        let mut given = given.into_iter().peekable();
        let mut last_release: HashMap<TrackId, Ns> = HashMap::new();
        for taken in holds.iter().filter(|h| h.from == Ns::MIN) {
            let pair = given.next_if(|given| given.from < taken.to && given.track != taken.track);
            let busy_until = last_release.insert(taken.track, taken.to).unwrap_or(Ns::MIN);
            let Some(pair) = pair else { continue };
            let created = timeline.tracks.get(taken.track).created.map_or(Ns::MIN, |(at, _)| at);
            let idle = segments.idle_since(taken.track, pair.from).map(|at| at.max(created).max(busy_until));
            if let Some(from) = idle.filter(|&at| Ns::MIN < at && at < pair.from) {
                let (woken, by) = (pair.from, WaitedOn::Thread(pair.track));
                found.push(Wait { track: taken.track, from, woken, until: woken, by });
            }
        }
    }
    found
}
