//! The boot path: for each instant of the boot, who was being waited for.
//!
//! Walking back from the end mark on the thread that reached it: while it ran, the time is its own;
//! while it was blocked, the time belongs to whoever woke it, recursively, and its stack lies on top
//! of the waiter's; where process 1 waited for a unit, that wait is since [the unit's fork](crate::unit_starts); an interrupt that woke it is a wait for that timer or device, never for the
//! thread that happened to be interrupted; while it was runnable but not running, the time belongs
//! to whoever ran on its CPU. Where a thread says itself what it waited for, the time belongs to
//! whoever [held](crate::holds) it. Before a thread's first run the path goes on in its creator.
//! Every stretch has exactly one owner, and the stretches cover the whole boot. Where the evidence of threads
//! [ends before the end mark](timeline::Timeline::threads_seen_until), what follows is a wait for nobody knows what.
//!
//! Where nothing says who woke whom, but what each CPU ran is known at each instant (calls without a trace), the
//! [CPU is followed](timeline::Timeline::cpus_followed_until): the time belongs to whatever it ran, and while it slept, to what
//! went to sleep.

use crate::chain::{Chain, Frame};
use crate::cpus::{Cpus, Had};
use crate::holds::{Ender, Holds};
use crate::polls::poll_ends;
use crate::segments::Segments;
use crate::stays::{Stay, Stays};
use crate::stretch::{BootPath, CpuHeld, StretchKind};
use crate::unit_starts::{Meanwhile, UnitStarts};
use crate::waits::{WaitNo, WaitPiece, Waits};
use hashbrown::HashMap;
use std::cell::OnceCell;
use timeline::{Ns, Running, Timeline, TrackId, Wait, WaitedOn};

/// Walks the path back from the end mark. Empty if the end mark has no track.
///
/// Linear in the number of stretches, of which each look-up is logarithmic: walked backwards, they come in order.
pub fn boot_path(timeline: &Timeline) -> BootPath {
    Stays::new(timeline).path()
}

impl<'a> Stays<'a> {
    /// Walks the path back from the end mark. Empty if the end mark has no track.
    pub fn new(timeline: &'a Timeline) -> Stays<'a> {
        let mut stays = Stays::none(timeline);
        if let Some((track, end)) = timeline.end.and_then(|e| Some((e.track?, e.at))) {
            let mut walk = Walk::new(timeline);
            let seen = timeline.threads_seen_until.map_or(end, |until| until.clamp(Ns::ZERO, end));
            walk.not_seen(track, seen, end);
            walk.back(track, Ns::ZERO, seen, &mut Vec::new());
            stays.too_deep = walk.too_deep + walk.waits.too_deep;
            stays.all = walk.stays;
            stays.all.reverse();
            stays.cpu_held = walk.cpu_held;
            stays.segments = walk.segments;
        }
        stays
    }
}

/// Waits and creations nested deeper than this are not a boot's but broken evidence's (a cycle).
const DEEPEST_WALK: usize = 64;

struct Walk<'a> {
    timeline: &'a Timeline,
    /// Made when first asked for: who follows one thread alone does not.
    segments: OnceCell<Segments>,
    /// Of each track, its entries in the timeline's `running`.
    running: Vec<&'a [Running]>,
    waits: Waits<'a>,
    holds: Holds,
    units: UnitStarts,
    /// Of each wait, when the last of its turns ended.
    poll_ends: Vec<Ns>,
    /// What each CPU ran, by time, as places in the timeline's `running`.
    cpus: HashMap<u32, Vec<u32>>,
    /// The same by a kernel's own log.
    had: Cpus<'a>,
    cpu_held: Vec<CpuHeld>,
    /// The last first.
    stays: Vec<Stay>,
    /// How many walks are under way inside each other.
    nested: usize,
    /// How often it was too many.
    too_deep: u64,
}

impl<'a> Walk<'a> {
    fn new(timeline: &'a Timeline) -> Self {
        let running = by_track(timeline, &timeline.running, |r| r.track);
        let mut cpus: HashMap<u32, Vec<u32>> = HashMap::new();
        for (i, r) in (0..).zip(&timeline.running) {
            cpus.entry(r.cpu).or_default().push(i);
        }
        for ran in cpus.values_mut() {
            ran.sort_by_key(|&i| timeline.running[i as usize].from);
        }
        let segments = OnceCell::new();
        let poll_ends = match timeline.waits[..] {
            [] => Vec::new(),
            _ => poll_ends(timeline, segments.get_or_init(|| Segments::new(timeline))),
        };
        Walk {
            timeline,
            poll_ends,
            segments,
            running,
            waits: Waits::new(timeline),
            holds: Holds::new(timeline),
            units: UnitStarts::new(timeline),
            cpus,
            had: Cpus::new(timeline),
            cpu_held: Vec::new(),
            stays: Vec::new(),
            nested: 0,
            too_deep: 0,
        }
    }

    /// Gives `from..to` of `track` to its owners. `chain` holds who waits for this track.
    fn back(&mut self, track: TrackId, from: Ns, to: Ns, chain: &mut Vec<Frame>) {
        if self.nested == DEEPEST_WALK {
            self.too_deep += 1;
            return self.own(track, from, to, StretchKind::Wait, chain);
        }
        self.nested += 1;
        let mut at = to;
        while at > from {
            if self.timeline.cpus_followed_until.is_some_and(|until| at <= until) {
                self.follow_cpu(track, from, at, chain);
                break;
            }
            at = match self.units.meanwhile(self.timeline, track, at).filter(|ended| ended.exited > from) {
                Some(ended) => self.meanwhile(track, (from, at), &ended, chain),
                None => self.step_back(track, from, at, chain),
            };
        }
        self.nested -= 1;
    }

    /// One stretch or wait of a track back from `at`. Returns where that begins.
    fn step_back(&mut self, track: TrackId, from: Ns, at: Ns, chain: &mut Vec<Frame>) -> Ns {
        let ran = last_before(self.running[track.0 as usize], at, |r| r.from);
        let waited = self.waits.before(track, at);
        match (ran, waited) {
            (Some(r), _) if r.to >= at => self.ran(track, r.from.max(from), at, chain),
            (_, Some(w)) if w.to >= at => self.waited(w, from, at, chain),
            _ => {
                let known = ran.map(|r| r.to).max(waited.map(|w| w.to));
                self.unseen(track, known, from, at, chain)
            }
        }
    }

    /// Process 1 waited for a unit whose process ended while it was busy: since then the time is its own.
    fn meanwhile(&mut self, track: TrackId, (from, to): (Ns, Ns), ended: &Meanwhile, chain: &mut Vec<Frame>) -> Ns {
        let mut at = to;
        while at > ended.exited {
            at = self.step_back(track, ended.exited, at, chain);
        }
        let start = ended.forked.clamp(from, ended.exited);
        let mut span = None;
        self.segments().within_backwards(track, at, at + Ns(1), |piece| span = piece.span);
        chain.push(Frame { track, span });
        self.back(ended.track, start, at, chain);
        chain.pop();
        start
    }

    /// The evidence of threads ended before: the time is nobody's, whoever was seen to run last.
    fn not_seen(&mut self, track: TrackId, from: Ns, to: Ns) {
        if from < to {
            self.wait(from, to, StretchKind::Wait, Frame { track, span: None }, &[]);
        }
    }

    /// Follows a track and, while it did not run, what its CPU did; before its first run, whatever ran there before.
    fn follow_cpu(&mut self, mut track: TrackId, from: Ns, to: Ns, chain: &[Frame]) {
        let (mut at, mut cpu) = (to, None);
        while at > from {
            match last_before(self.running[track.0 as usize], at, |r| r.from) {
                Some(r) if r.to >= at => {
                    cpu = Some(r.cpu);
                    at = self.ran(track, r.from.max(from), at, chain);
                }
                Some(r) => {
                    let back = r.to.max(from);
                    self.cpu_did(cpu.unwrap_or(r.cpu), back, at, track, chain);
                    at = back;
                }
                None => match self.ran_on(cpu.unwrap_or_else(|| self.first_cpu()), at) {
                    Some(other) => track = other.track,
                    None => return self.before_all(track, from, at, chain),
                },
            }
        }
    }

    /// What a CPU did, which nobody else is known to have done. While it ran nothing, it slept in what it ran last.
    fn cpu_did(&mut self, cpu: u32, from: Ns, to: Ns, instead_of: TrackId, chain: &[Frame]) {
        let mut at = to;
        while at > from {
            let Some(other) = self.ran_on(cpu, at) else {
                return self.own(instead_of, from, at, StretchKind::Wait, chain);
            };
            let (begin, kind) = match other.to >= at {
                true => (other.from.max(from), StretchKind::Running),
                false => (other.to.max(from), StretchKind::Wait),
            };
            self.own(other.track, begin, at, kind, chain);
            at = begin;
        }
    }

    /// The one that boots.
    fn first_cpu(&self) -> u32 {
        self.cpus.keys().min().copied().unwrap_or_default()
    }

    /// The last to run on a CPU before `at`.
    fn ran_on(&self, cpu: u32, at: Ns) -> Option<Running> {
        let ran = self.cpus.get(&cpu)?;
        let all = &self.timeline.running;
        let after = ran.partition_point(|&i| all[i as usize].from < at);
        after.checked_sub(1).map(|i| all[ran[i] as usize])
    }

    /// Before anything ran: who created the track has the time, as the monitor does that of the firmware.
    fn before_all(&mut self, track: TrackId, from: Ns, to: Ns, chain: &[Frame]) {
        let owner = self.timeline.tracks.get(track).created.map_or(track, |(_, by)| by);
        self.own(owner, from, to, StretchKind::Running, chain);
    }

    /// The track ran: the time is its own, span by span.
    fn ran(&mut self, track: TrackId, from: Ns, to: Ns, chain: &[Frame]) -> Ns {
        self.own(track, from, to, StretchKind::Running, chain);
        from
    }

    /// The time is the track's, but for what it waited for a CPU that another had.
    fn own(&mut self, track: TrackId, from: Ns, to: Ns, kind: StretchKind, chain: &[Frame]) {
        if self.had.is_empty() {
            return self.all_own(track, from, to, kind, chain);
        }
        self.may_have_slept(track, (from, to), chain);
        let mut own = |walk: &mut Self, from, to| walk.all_own(track, from, to, kind, chain);
        self.own_since(track, (from, to), None, chain, &mut own);
    }

    /// The same; `ready`: since when the track could have run, if its own log does not say so. `own` charges what is its own.
    fn own_since(
        &mut self,
        track: TrackId,
        (from, to): (Ns, Ns),
        ready: Option<Ns>,
        chain: &[Frame],
        own: &mut dyn FnMut(&mut Self, Ns, Ns),
    ) {
        if self.had.is_empty() {
            return own(self, from, to);
        }
        let mut end = to;
        for piece in self.had.pieces(track, (from, to), ready).into_iter().rev() {
            if let Had::Other(other) = piece.had {
                if piece.to < end {
                    own(self, piece.to, end);
                }
                self.queued(track, (piece.from, piece.to), other, chain);
                end = piece.from;
            }
        }
        if from < end {
            own(self, from, end);
        }
    }

    /// The track was ready, and another had the CPU: the time is that one's.
    fn queued(&mut self, track: TrackId, (from, to): (Ns, Ns), other: TrackId, chain: &[Frame]) {
        let mut waiting = Vec::new();
        self.segments().within_backwards(track, from, to, |piece| waiting.push(piece));
        for piece in waiting {
            let chain: Vec<Frame> = chain.iter().copied().chain([Frame { track, span: piece.span }]).collect();
            self.all_own(other, piece.from, piece.to, StretchKind::Runqueue, &chain);
        }
    }

    /// Where the track slept, and nobody says until when, it keeps the time, whoever had the CPU.
    fn may_have_slept(&mut self, track: TrackId, (from, to): (Ns, Ns), chain: &[Frame]) {
        let mut held = std::mem::take(&mut self.cpu_held);
        for piece in self.had.pieces(track, (from, to), None) {
            let Had::Perhaps(by) = piece.had else { continue };
            self.segments().within_backwards(track, piece.from, piece.to, |piece| {
                let chain = Chain::new(chain, Frame { track, span: piece.span });
                let (kind, length) = (StretchKind::Running, piece.to - piece.from);
                held.push(CpuHeld { from: piece.from, length, by, kind, chain });
            });
        }
        self.cpu_held = held;
    }

    /// The time is the track's, whatever it then was in.
    fn all_own(&mut self, track: TrackId, from: Ns, to: Ns, kind: StretchKind, chain: &[Frame]) {
        if from < to {
            let chain = Chain::new(chain, Frame { track, span: None });
            self.stays.push(Stay { from, to, kind, chain, goes_on: true });
        }
    }

    fn segments(&self) -> &Segments {
        self.segments.get_or_init(|| Segments::new(self.timeline))
    }

    /// The track did not run: blocked until it was woken, then waiting for its turn.
    fn waited(&mut self, piece: WaitPiece, from: Ns, to: Ns, chain: &mut Vec<Frame>) -> Ns {
        let wait = self.waits.get(piece.wait);
        // Where process 1 waited for a unit, it did so since it had forked for that.
        let since = self.units.since(self.timeline, &wait).unwrap_or(piece.from);
        let start = since.min(piece.from).max(from);
        let woken = wait.woken.clamp(start, to);
        let waiter = self.waiter(&wait);
        if woken < to {
            self.runqueue(wait, woken, to, waiter, chain);
        }
        if start < woken {
            match wait.by {
                WaitedOn::Thread(waker) if waker != wait.track => {
                    chain.push(waiter);
                    self.back(waker, start, woken, chain);
                    chain.pop();
                }
                WaitedOn::Interrupt(name) => self.wait(start, woken, StretchKind::Interrupt(name), waiter, chain),
                WaitedOn::Holders(_) => self.held_up(piece.wait, start, woken, chain),
                _ => self.wait(start, woken, StretchKind::Wait, waiter, chain),
            }
        }
        start
    }

    /// Who waited, and what it was doing then.
    fn waiter(&self, wait: &Wait) -> Frame {
        Frame { track: wait.track, span: self.segments().waiting(wait) }
    }

    /// The time of a wait for a topic: whoever held it has it. While nobody did, a wait around this one has it, which
    /// would have gone on all the same; else the waiter.
    fn held_up(&mut self, no: WaitNo, from: Ns, to: Ns, chain: &mut Vec<Frame>) {
        let wait = self.waits.get(no);
        let WaitedOn::Holders(topic) = wait.by else { return self.alone(&wait, from, to, chain) };
        // Who waits for this thread cannot be what it waits for.
        let ended = self.poll_ends[no as usize];
        let may = |holder| chain.iter().all(|f| f.track != holder);
        let blame = self.holds.blame(&wait, topic, (from, to), ended, may);
        // After the last release the thread can run.
        let released = match blame[..] {
            [(None, at, end), (Some(_), ..), ..] if end == wait.woken => Some(at),
            // It was before the time in question.
            [(None, at, _)] => match self.holds.ender(wait.track, topic, (wait.from, ended)) {
                Ender::Release(released) if released <= at => Some(at),
                _ => None,
            },
            _ => None,
        };
        for (held_by, from, to) in blame {
            match held_by {
                Some(holder) => {
                    chain.push(self.waiter(&wait));
                    self.back(holder, from, to, chain);
                    chain.pop();
                }
                None => {
                    let ready = released.filter(|&at| at == from);
                    self.own_since(wait.track, (from, to), ready, &chain.clone(), &mut |walk, from, to| match walk
                        .waits
                        .outer(no)
                    {
                        Some(outer) => walk.held_up(outer, from, to, chain),
                        None => walk.alone(&wait, from, to, chain),
                    });
                }
            }
        }
    }

    /// There is nobody to blame: what the thread entered after it began to wait, it ran; else it waited.
    fn alone(&mut self, wait: &Wait, from: Ns, to: Ns, chain: &[Frame]) {
        let waited = match wait.by {
            WaitedOn::Holders(topic) => StretchKind::Topic(topic),
            _ => StretchKind::Wait,
        };
        let mut pieces = Vec::new();
        self.segments().within_backwards(wait.track, from, to, |piece| pieces.push(piece));
        for piece in pieces {
            let entered = piece.span.is_some_and(|span| self.timeline.spans.get(span).start > wait.from);
            let kind = if entered { StretchKind::Running } else { waited };
            self.wait(piece.from, piece.to, kind, Frame { track: wait.track, span: piece.span }, chain);
        }
    }

    fn wait(&mut self, from: Ns, to: Ns, kind: StretchKind, waiter: Frame, chain: &[Frame]) {
        self.stays.push(Stay { from, to, kind, chain: Chain::new(chain, waiter), goes_on: false });
    }

    /// The track was runnable: the time belongs to whoever ran on the CPU that it then ran on.
    fn runqueue(&mut self, wait: Wait, from: Ns, to: Ns, waiter: Frame, chain: &mut Vec<Frame>) {
        let own = self.running[wait.track.0 as usize];
        let next = own.get(own.partition_point(|r| r.from < wait.until));
        let others: Vec<Running> = match next.and_then(|next| self.cpus.get(&next.cpu)) {
            Some(ran) => {
                let all = &self.timeline.running;
                let first = ran.partition_point(|&i| all[i as usize].to <= from);
                let here = ran[first..].iter().map(|&i| all[i as usize]).take_while(|r| r.from < to);
                here.filter(|r| r.track != wait.track).collect()
            }
            None => Vec::new(),
        };
        let mut at = to;
        for other in others.into_iter().rev() {
            let (begin, end) = (other.from.max(from), other.to.min(at));
            if begin >= end {
                continue;
            }
            if end < at {
                self.wait(end, at, StretchKind::Runqueue, waiter, chain);
            }
            if self.timeline.tracks.get(other.track).idle {
                // The CPU was idle: waking it up is what took the time.
                self.wait(begin, end, StretchKind::Runqueue, waiter, chain);
            } else {
                chain.push(waiter);
                self.own(other.track, begin, end, StretchKind::Runqueue, chain);
                chain.pop();
            }
            at = begin;
        }
        if from < at {
            self.wait(from, at, StretchKind::Runqueue, waiter, chain);
        }
    }

    /// Nothing is known of the track from `known` on: before its creation the path goes on in its
    /// creator; else it is taken to have run.
    fn unseen(&mut self, track: TrackId, known: Option<Ns>, from: Ns, to: Ns, chain: &mut Vec<Frame>) -> Ns {
        let start = known.unwrap_or(Ns(i64::MIN)).max(from);
        let created = self.timeline.tracks.get(track).created.filter(|&(at, by)| at > start && by != track);
        match created {
            Some((at, creator)) => {
                let born = at.min(to);
                if born < to {
                    self.own(track, born, to, StretchKind::Running, chain);
                }
                // The creator did not wait for its child: it takes its place.
                self.back(creator, start, born, chain);
                start
            }
            _ => self.ran(track, start, to, chain),
        }
    }
}

/// The tracks that the path is walked on where nobody is blamed: the one that reached the end mark, its creator, and so
/// on, each with the instant until which it is.
pub(crate) fn lineage(timeline: &Timeline, end: TrackId) -> Vec<(TrackId, Ns)> {
    let mut lineage = vec![(end, Ns::MAX)];
    let mut track = end;
    while let Some((at, by)) = timeline.tracks.get(track).created {
        if lineage.iter().any(|&(known, _)| known == by) {
            break;
        }
        lineage.push((by, at));
        track = by;
    }
    lineage
}

/// Cuts what is sorted by track where tracks change.
fn by_track<'a, T>(timeline: &Timeline, sorted: &'a [T], track: impl Fn(&T) -> TrackId) -> Vec<&'a [T]> {
    let mut each: Vec<&[T]> = vec![&[]; timeline.tracks.len()];
    for chunk in sorted.chunk_by(|a, b| track(a) == track(b)) {
        each[track(&chunk[0]).0 as usize] = chunk;
    }
    each
}

/// The last entry that begins before `at`.
fn last_before<T: Copy>(sorted: &[T], at: Ns, start: impl Fn(&T) -> Ns) -> Option<T> {
    let after = sorted.partition_point(|entry| start(entry) < at);
    after.checked_sub(1).map(|i| sorted[i])
}
