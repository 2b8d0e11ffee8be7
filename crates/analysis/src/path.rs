//! The boot path: for each instant of the boot, the thread or device that the boot waited for.
//!
//! The walk goes back from the end mark, on the thread that reached it:
//! * While the thread ran, the time is charged to it.
//! * While it was blocked, the time is charged to the thread that woke it, recursively. That thread's stack lies on top
//!   of the waiter's.
//! * A wait of process 1 for a unit begins at [the unit's fork](crate::unit_starts).
//! * If an interrupt woke the thread, it waited for that timer or device, never for the interrupted thread.
//! * While it was runnable but not running, the time is charged to the thread that ran on its CPU.
//! * If a thread logs what it waited for, the time is charged to the thread that [held](crate::holds) that.
//! * Before a thread's first run, the path goes on in its creator.
//!
//! Every stretch has exactly one owner, and the stretches cover the whole boot. The evidence of threads may [end before
//! the end mark](timeline::Timeline::threads_seen_until). What follows is a wait with unknown cause.
//!
//! Calls without a scheduler trace do not show which thread woke another, but they show what each CPU ran at each
//! instant. Then the walk [follows the CPU](timeline::Timeline::cpus_followed_until): time is charged to what the CPU
//! ran. While the CPU slept, time is charged to what went to sleep.

use crate::chain::{Chain, Frame};
use crate::cpu_occupants::{CpuOccupants, Occupant};
use crate::holds::{Ender, Holds};
use crate::polls::poll_ends;
use crate::segments::Segments;
use crate::stays::{Stay, Stays};
use crate::stretch::{BootPath, CpuHeld, StretchKind};
use crate::unit_starts::{UnitStarts, UnitWait};
use crate::waits::{WaitNo, WaitPiece, Waits};
use hashbrown::HashMap;
use std::cell::OnceCell;
use timeline::{Ns, Running, Timeline, TrackId, Wait, WaitedOn};

/// Returns the path, walked back from the end mark. Empty if the end mark has no track.
///
/// Linear in the number of stretches. Each look-up is logarithmic.
pub fn boot_path(timeline: &Timeline) -> BootPath {
    Stays::new(timeline).path()
}

impl<'a> Stays<'a> {
    /// Walks the path back from the end mark. Empty if the end mark has no track.
    pub fn new(timeline: &'a Timeline) -> Stays<'a> {
        let mut stays = Stays::empty(timeline);
        if let Some((track, end)) = timeline.end.and_then(|e| Some((e.track?, e.at))) {
            let mut walk = Walk::new(timeline);
            let seen = timeline.threads_seen_until.map_or(end, |until| until.clamp(Ns::ZERO, end));
            walk.charge_unseen_end(track, seen, end);
            walk.walk_back(track, Ns::ZERO, seen, &mut Vec::new());
            stays.too_deep = walk.too_deep + walk.waits.too_deep;
            stays.all = walk.stays;
            stays.all.reverse();
            stays.cpu_held = walk.cpu_held;
            stays.segments = walk.segments;
        }
        stays
    }
}

/// Waits and creations nested deeper than this are a cycle in broken evidence, not part of a boot.
const MAX_NESTED_WALKS: usize = 64;

struct Walk<'a> {
    timeline: &'a Timeline,
    /// Built on first use. A path that stays on one thread does not need it.
    segments: OnceCell<Segments>,
    /// Entries of the timeline's `running` for each track.
    running: Vec<&'a [Running]>,
    waits: Waits<'a>,
    holds: Holds,
    units: UnitStarts,
    /// The end of the last turn of each wait.
    poll_ends: Vec<Ns>,
    /// The runs on each CPU, by time, as indices into the timeline's `running`.
    cpus: HashMap<u32, Vec<u32>>,
    /// The CPU's occupants by a kernel's own log.
    occupancy: CpuOccupants<'a>,
    cpu_held: Vec<CpuHeld>,
    /// The last stay first.
    stays: Vec<Stay>,
    /// The number of nested walks in progress.
    nested: usize,
    /// The number of times that `nested` reached [`MAX_NESTED_WALKS`].
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
            occupancy: CpuOccupants::new(timeline),
            cpu_held: Vec::new(),
            stays: Vec::new(),
            nested: 0,
            too_deep: 0,
        }
    }

    /// Charges `from..to` of `track` to its owners. `chain` holds the frames that wait for this track.
    fn walk_back(&mut self, track: TrackId, from: Ns, to: Ns, chain: &mut Vec<Frame>) {
        if self.nested == MAX_NESTED_WALKS {
            self.too_deep += 1;
            return self.charge_thread(track, from, to, StretchKind::Wait, chain);
        }
        self.nested += 1;
        let mut at = to;
        while at > from {
            if self.timeline.cpus_followed_until.is_some_and(|until| at <= until) {
                self.follow_cpu(track, from, at, chain);
                break;
            }
            at = match self.units.unit_wait(self.timeline, track, at).filter(|ended| ended.exited > from) {
                Some(ended) => self.charge_unit_wait(track, (from, at), &ended, chain),
                None => self.step_back(track, from, at, chain),
            };
        }
        self.nested -= 1;
    }

    /// Walks one stretch or wait of a track back from `at`. Returns its start.
    fn step_back(&mut self, track: TrackId, from: Ns, at: Ns, chain: &mut Vec<Frame>) -> Ns {
        let ran = last_before(self.running[track.0 as usize], at, |r| r.from);
        let waited = self.waits.before(track, at);
        match (ran, waited) {
            (Some(r), _) if r.to >= at => self.charge_running(track, r.from.max(from), at, chain),
            (_, Some(w)) if w.to >= at => self.charge_wait(w, from, at, chain),
            _ => {
                let last_seen = ran.map(|r| r.to).max(waited.map(|w| w.to));
                self.charge_unseen(track, last_seen, from, at, chain)
            }
        }
    }

    /// Charges a wait of process 1 for a unit whose process ended while process 1 was busy. Time after that end is
    /// charged to process 1.
    fn charge_unit_wait(
        &mut self,
        track: TrackId,
        (from, to): (Ns, Ns),
        ended: &UnitWait,
        chain: &mut Vec<Frame>,
    ) -> Ns {
        let mut at = to;
        while at > ended.exited {
            at = self.step_back(track, ended.exited, at, chain);
        }
        let start = ended.forked.clamp(from, ended.exited);
        let mut span = None;
        self.segments().within_backwards(track, at, at + Ns(1), |piece| span = piece.span);
        chain.push(Frame { track, span });
        self.walk_back(ended.track, start, at, chain);
        chain.pop();
        start
    }

    /// Charges the time after the evidence of threads ended to an unknown wait, whichever thread ran last.
    fn charge_unseen_end(&mut self, track: TrackId, from: Ns, to: Ns) {
        if from < to {
            self.push_wait(from, to, StretchKind::Wait, Frame { track, span: None }, &[]);
        }
    }

    /// Follows a track and, while it did not run, its CPU. Before the track's first run, follows what ran on that CPU.
    fn follow_cpu(&mut self, mut track: TrackId, from: Ns, to: Ns, chain: &[Frame]) {
        let (mut at, mut cpu) = (to, None);
        while at > from {
            match last_before(self.running[track.0 as usize], at, |r| r.from) {
                Some(r) if r.to >= at => {
                    cpu = Some(r.cpu);
                    at = self.charge_running(track, r.from.max(from), at, chain);
                }
                Some(r) => {
                    let back = r.to.max(from);
                    self.charge_cpu(cpu.unwrap_or(r.cpu), back, at, track, chain);
                    at = back;
                }
                None => match self.last_run_on(cpu.unwrap_or_else(|| self.boot_cpu()), at) {
                    Some(other) => track = other.track,
                    None => return self.charge_before_first_run(track, from, at, chain),
                },
            }
        }
    }

    /// Charges time of a CPU with no other known owner. While the CPU ran nothing, it slept in what it ran last.
    fn charge_cpu(&mut self, cpu: u32, from: Ns, to: Ns, instead_of: TrackId, chain: &[Frame]) {
        let mut at = to;
        while at > from {
            let Some(other) = self.last_run_on(cpu, at) else {
                return self.charge_thread(instead_of, from, at, StretchKind::Wait, chain);
            };
            let (begin, kind) = match other.to >= at {
                true => (other.from.max(from), StretchKind::Running),
                false => (other.to.max(from), StretchKind::Wait),
            };
            self.charge_thread(other.track, begin, at, kind, chain);
            at = begin;
        }
    }

    /// Returns the boot CPU.
    fn boot_cpu(&self) -> u32 {
        self.cpus.keys().min().copied().unwrap_or_default()
    }

    /// Returns the last run on a CPU before `at`.
    fn last_run_on(&self, cpu: u32, at: Ns) -> Option<Running> {
        let ran = self.cpus.get(&cpu)?;
        let all = &self.timeline.running;
        let after = ran.partition_point(|&i| all[i as usize].from < at);
        after.checked_sub(1).map(|i| all[ran[i] as usize])
    }

    /// Charges the time before anything ran to the creator of the track. For example, the monitor created the firmware.
    fn charge_before_first_run(&mut self, track: TrackId, from: Ns, to: Ns, chain: &[Frame]) {
        let owner = self.timeline.tracks.get(track).created.map_or(track, |(_, by)| by);
        self.charge_thread(owner, from, to, StretchKind::Running, chain);
    }

    /// Charges `from..to` to the track as running. Returns `from`.
    fn charge_running(&mut self, track: TrackId, from: Ns, to: Ns, chain: &[Frame]) -> Ns {
        self.charge_thread(track, from, to, StretchKind::Running, chain);
        from
    }

    /// Charges the time to the track, except where it waited for a CPU that another thread had.
    fn charge_thread(&mut self, track: TrackId, from: Ns, to: Ns, kind: StretchKind, chain: &[Frame]) {
        if self.occupancy.is_empty() {
            return self.charge_stay(track, from, to, kind, chain);
        }
        self.note_cpu_held(track, (from, to), chain);
        let mut charge_own = |walk: &mut Self, from, to| walk.charge_stay(track, from, to, kind, chain);
        self.charge_thread_since(track, (from, to), None, chain, &mut charge_own);
    }

    /// Does the same with `ready`: since when the track could have run, if its own log does not show it. `own` charges
    /// the track's part.
    fn charge_thread_since(
        &mut self,
        track: TrackId,
        (from, to): (Ns, Ns),
        ready: Option<Ns>,
        chain: &[Frame],
        charge_own: &mut dyn FnMut(&mut Self, Ns, Ns),
    ) {
        if self.occupancy.is_empty() {
            return charge_own(self, from, to);
        }
        let mut end = to;
        for piece in self.occupancy.pieces(track, (from, to), ready).into_iter().rev() {
            if let Occupant::Other(other) = piece.occupant {
                if piece.to < end {
                    charge_own(self, piece.to, end);
                }
                self.charge_queued(track, (piece.from, piece.to), other, chain);
                end = piece.from;
            }
        }
        if from < end {
            charge_own(self, from, end);
        }
    }

    /// Charges the time in which the track was ready to the thread that had the CPU.
    fn charge_queued(&mut self, track: TrackId, (from, to): (Ns, Ns), other: TrackId, chain: &[Frame]) {
        let mut waiting = Vec::new();
        self.segments().within_backwards(track, from, to, |piece| waiting.push(piece));
        for piece in waiting {
            let chain: Vec<Frame> = chain.iter().copied().chain([Frame { track, span: piece.span }]).collect();
            self.charge_stay(other, piece.from, piece.to, StretchKind::Runqueue, &chain);
        }
    }

    /// Notes the threads that had the CPU while the track slept, if the end of the sleep is unknown. The track keeps
    /// the time.
    fn note_cpu_held(&mut self, track: TrackId, (from, to): (Ns, Ns), chain: &[Frame]) {
        let mut held = std::mem::take(&mut self.cpu_held);
        for piece in self.occupancy.pieces(track, (from, to), None) {
            let Occupant::MaybeOther(by) = piece.occupant else { continue };
            self.segments().within_backwards(track, piece.from, piece.to, |piece| {
                let chain = Chain::new(chain, Frame { track, span: piece.span });
                let (kind, length) = (StretchKind::Running, piece.to - piece.from);
                held.push(CpuHeld { from: piece.from, length, by, kind, chain });
            });
        }
        self.cpu_held = held;
    }

    /// Charges the time to the track, whichever span it was in.
    fn charge_stay(&mut self, track: TrackId, from: Ns, to: Ns, kind: StretchKind, chain: &[Frame]) {
        if from < to {
            let chain = Chain::new(chain, Frame { track, span: None });
            self.stays.push(Stay { from, to, kind, chain, goes_on: true });
        }
    }

    fn segments(&self) -> &Segments {
        self.segments.get_or_init(|| Segments::new(self.timeline))
    }

    /// Charges the time in which the track did not run: blocked until it was woken, then in the run queue.
    fn charge_wait(&mut self, piece: WaitPiece, from: Ns, to: Ns, chain: &mut Vec<Frame>) -> Ns {
        let wait = self.waits.get(piece.wait);
        // A wait of process 1 for a unit begins when process 1 forked for it.
        let since = self.units.since(self.timeline, &wait).unwrap_or(piece.from);
        let start = since.min(piece.from).max(from);
        let woken = wait.woken.clamp(start, to);
        let waiter = self.waiter(&wait);
        if woken < to {
            self.charge_runqueue(wait, woken, to, waiter, chain);
        }
        if start < woken {
            match wait.by {
                WaitedOn::Thread(waker) if waker != wait.track => {
                    chain.push(waiter);
                    self.walk_back(waker, start, woken, chain);
                    chain.pop();
                }
                WaitedOn::Interrupt(name) => self.push_wait(start, woken, StretchKind::Interrupt(name), waiter, chain),
                WaitedOn::Holders(_) => self.charge_holders(piece.wait, start, woken, chain),
                _ => self.push_wait(start, woken, StretchKind::Wait, waiter, chain),
            }
        }
        start
    }

    /// Returns the waiter and its innermost span.
    fn waiter(&self, wait: &Wait) -> Frame {
        Frame { track: wait.track, span: self.segments().waiting(wait) }
    }

    /// Charges a wait for a topic to the threads that held it. While no thread held it, the wait around this one has
    /// the time, because it would have gone on anyway. Without such a wait, the waiter has it.
    fn charge_holders(&mut self, no: WaitNo, from: Ns, to: Ns, chain: &mut Vec<Frame>) {
        let wait = self.waits.get(no);
        let WaitedOn::Holders(topic) = wait.by else { return self.charge_waiter(&wait, from, to, chain) };
        // A thread that waits for this thread cannot be the one that this thread waits for.
        let ended = self.poll_ends[no as usize];
        let may_hold = |holder| chain.iter().all(|f| f.track != holder);
        let blame = self.holds.blame(&wait, topic, (from, to), ended, may_hold);
        // After the last release, the thread can run.
        let released = match blame[..] {
            [(None, at, end), (Some(_), ..), ..] if end == wait.woken => Some(at),
            // The release came before the time in question.
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
                    self.walk_back(holder, from, to, chain);
                    chain.pop();
                }
                None => {
                    let ready = released.filter(|&at| at == from);
                    self.charge_thread_since(wait.track, (from, to), ready, &chain.clone(), &mut |walk, from, to| {
                        match walk.waits.outer(no) {
                            Some(outer) => walk.charge_holders(outer, from, to, chain),
                            None => walk.charge_waiter(&wait, from, to, chain),
                        }
                    });
                }
            }
        }
    }

    /// Charges time without a thread to blame. Spans that the thread entered after the wait began ran. The rest is
    /// waiting.
    fn charge_waiter(&mut self, wait: &Wait, from: Ns, to: Ns, chain: &[Frame]) {
        let kind_of_wait = match wait.by {
            WaitedOn::Holders(topic) => StretchKind::Topic(topic),
            _ => StretchKind::Wait,
        };
        let mut pieces = Vec::new();
        self.segments().within_backwards(wait.track, from, to, |piece| pieces.push(piece));
        for piece in pieces {
            let entered = piece.span.is_some_and(|span| self.timeline.spans.get(span).start > wait.from);
            let kind = if entered { StretchKind::Running } else { kind_of_wait };
            self.push_wait(piece.from, piece.to, kind, Frame { track: wait.track, span: piece.span }, chain);
        }
    }

    fn push_wait(&mut self, from: Ns, to: Ns, kind: StretchKind, waiter: Frame, chain: &[Frame]) {
        self.stays.push(Stay { from, to, kind, chain: Chain::new(chain, waiter), goes_on: false });
    }

    /// Charges the time in the run queue to the thread that ran on the CPU on which the track ran next.
    fn charge_runqueue(&mut self, wait: Wait, from: Ns, to: Ns, waiter: Frame, chain: &mut Vec<Frame>) {
        let runs = self.running[wait.track.0 as usize];
        let next = runs.get(runs.partition_point(|r| r.from < wait.until));
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
                self.push_wait(end, at, StretchKind::Runqueue, waiter, chain);
            }
            if self.timeline.tracks.get(other.track).idle {
                // The CPU was idle: the time went into waking it up.
                self.push_wait(begin, end, StretchKind::Runqueue, waiter, chain);
            } else {
                chain.push(waiter);
                self.charge_thread(other.track, begin, end, StretchKind::Runqueue, chain);
                chain.pop();
            }
            at = begin;
        }
        if from < at {
            self.push_wait(from, at, StretchKind::Runqueue, waiter, chain);
        }
    }

    /// Charges time after `last_seen`, the end of the track's last evidence. Before the track's creation the path goes
    /// on in its creator. Otherwise the track counts as running.
    fn charge_unseen(&mut self, track: TrackId, last_seen: Option<Ns>, from: Ns, to: Ns, chain: &mut Vec<Frame>) -> Ns {
        let start = last_seen.unwrap_or(Ns(i64::MIN)).max(from);
        let created = self.timeline.tracks.get(track).created.filter(|&(at, by)| at > start && by != track);
        match created {
            Some((at, creator)) => {
                let born = at.min(to);
                if born < to {
                    self.charge_thread(track, born, to, StretchKind::Running, chain);
                }
                // The creator did not wait for its child: it takes its place.
                self.walk_back(creator, start, born, chain);
                start
            }
            _ => self.charge_running(track, start, to, chain),
        }
    }
}

/// Returns the tracks on which the path is walked while no thread is blamed. They are the track that reached the end
/// mark, its creator, and so on. With each comes the instant until which the path is on it.
pub(crate) fn lineage(timeline: &Timeline, end: TrackId) -> Vec<(TrackId, Ns)> {
    let mut lineage = vec![(end, Ns::MAX)];
    let mut track = end;
    while let Some((at, by)) = timeline.tracks.get(track).created {
        if lineage.iter().any(|&(recorded, _)| recorded == by) {
            break;
        }
        lineage.push((by, at));
        track = by;
    }
    lineage
}

/// Cuts a list that is sorted by track into one slice for each track.
fn by_track<'a, T>(timeline: &Timeline, sorted: &'a [T], track: impl Fn(&T) -> TrackId) -> Vec<&'a [T]> {
    let mut each: Vec<&[T]> = vec![&[]; timeline.tracks.len()];
    for chunk in sorted.chunk_by(|a, b| track(a) == track(b)) {
        each[track(&chunk[0]).0 as usize] = chunk;
    }
    each
}

/// Returns the last entry that begins before `at`.
fn last_before<T: Copy>(sorted: &[T], at: Ns, start: impl Fn(&T) -> Ns) -> Option<T> {
    let after = sorted.partition_point(|entry| start(entry) < at);
    after.checked_sub(1).map(|i| sorted[i])
}
