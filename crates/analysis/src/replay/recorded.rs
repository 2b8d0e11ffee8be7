//! The recorded boot, as input of a replay.

use crate::holds::{Holds, TakenOver, taken_over};
use crate::segments::Segments;
use crate::stays::{Stay, Stays};
use crate::stretch::StretchKind;
use hashbrown::HashMap;
use std::sync::OnceLock;
use timeline::{NameId, Ns, Running, Timeline, Track, TrackId, Wait, WaitedOn};

/// Returns the first and the last time in the evidence.
pub fn extent(timeline: &Timeline) -> (Ns, Ns) {
    let spans = timeline.spans.iter().flat_map(|(_, s)| [s.start, s.end]);
    let waits = timeline.waits.iter().flat_map(|w| [w.from, w.woken, w.until]);
    let holds = timeline.holds.iter().flat_map(|h| [h.from, h.to]);
    let running = timeline.running.iter().flat_map(|r| [r.from, r.to]);
    let created = timeline.tracks.iter().filter_map(|(_, t)| t.created).map(|(at, _)| at);
    let all = spans.chain(waits).chain(holds).chain(running).chain(created).chain(timeline.end.map(|end| end.at));
    let times_in_range = all.filter(|&at| at != Ns::MIN && at != Ns::MAX);
    times_in_range.fold((Ns::ZERO, Ns::ZERO), |(first, last), at| (first.min(at), last.max(at)))
}

/// Data for all replays of one timeline. Each part is calculated on first use.
#[derive(Default)]
pub struct Shared {
    on_path: OnceLock<OnPath>,
    turns: OnceLock<Turns>,
    recorded: OnceLock<Recorded>,
}

/// The recorded boot, before any work is shortened.
pub struct Recorded {
    /// The first and the last time in the evidence.
    pub extent: (Ns, Ns),
    /// The tracks of the boot itself, each with the instant until which the path is on it.
    pub lineage: Vec<(TrackId, Ns)>,
    pub taken_over: Vec<TakenOver>,
    pub holds: Holds,
    /// Holds with a release, in order of time.
    pub releases: Vec<usize>,
    pub lines: Vec<RecordedLine>,
}

/// A line of execution as recorded.
pub struct RecordedLine {
    /// The time at which it was created, and its creator.
    pub born: Option<(Ns, TrackId)>,
    /// The time before which it is not known to have done anything.
    pub begun: Ns,
    /// Its waits, in order of time.
    pub waits: Vec<Wait>,
    /// True if it takes turns on the only CPU.
    pub takes_turns: bool,
}

impl Recorded {
    /// `boot` is the track that reaches the end of the boot.
    fn new(timeline: &Timeline, boot: TrackId, segments: &Segments) -> Recorded {
        let lineage = crate::path::lineage(timeline, boot);
        let taken_over = taken_over(timeline);
        let holds = &timeline.holds;
        let mut releases: Vec<usize> = (0..holds.len()).filter(|&i| holds[i].to < Ns::MAX).collect();
        releases.sort_by_key(|&i| holds[i].to);
        let lines = lines(timeline, boot, segments, &taken_over, &lineage);
        Recorded { extent: extent(timeline), lineage, holds: Holds::new(timeline), releases, taken_over, lines }
    }
}

/// Returns each track's line, before anything is shortened.
fn lines(
    timeline: &Timeline,
    boot: TrackId,
    segments: &Segments,
    taken_over: &[TakenOver],
    lineage: &[(TrackId, Ns)],
) -> Vec<RecordedLine> {
    let mut takes_turns = vec![false; timeline.tracks.len()];
    if timeline.occupancy.is_of_one_cpu() {
        timeline.occupancy.turns.iter().for_each(|turn| takes_turns[turn.track.0 as usize] = true);
    }
    let mut waits: Vec<Vec<Wait>> = vec![Vec::new(); timeline.tracks.len()];
    let derived_waits = handovers(timeline, segments, taken_over).into_iter().chain(followed_turns(timeline));
    for wait in timeline.waits.iter().copied().chain(derived_waits) {
        waits[wait.track.0 as usize].push(wait);
    }
    let first_events = first_seen(timeline, segments, taken_over);
    let boots_waits: Vec<Wait> = waits[boot.0 as usize].clone();
    let line = |((track, t), mut waits): ((TrackId, &Track), Vec<Wait>)| {
        let is_own = lineage.iter().any(|&(known_track, _)| known_track == track);
        let first = first_events[track.0 as usize];
        // Without a recorded creation, the track existed by its first event.
        let by_then = t.created.map_or(first.unwrap_or_default(), |(at, _)| at);
        // A waiting thread creates no other. A CPU that is waited for was started before, and is first seen when it is
        // up.
        let is_for_track = |w: &&Wait| w.by == WaitedOn::Thread(track) && w.from < by_then && by_then <= w.woken;
        let (born, first) = match t.created.filter(|&(_, by)| by != track) {
            None if is_own => (None, first),
            None => match boots_waits.iter().find(is_for_track).filter(|_| t.created.is_none()) {
                Some(wait) => (Some((wait.from, boot)), Some(wait.from)),
                None => (Some((by_then, boot)), first),
            },
            born => (born, first),
        };
        let takes_turns = takes_turns[track.0 as usize];
        let idle =
            born.filter(|_| !is_own && !takes_turns).and_then(|(at, _)| wait_before_first_event(track, at, first));
        let begun = idle.map_or(Ns::MIN, |idle| idle.until);
        waits.extend(idle);
        waits.sort_by_key(|w| w.from);
        RecordedLine { born, begun, waits, takes_turns }
    };
    timeline.tracks.iter().zip(waits).map(line).collect()
}

impl Shared {
    /// Returns the recorded boot. `boot` is the track that reaches its end.
    pub fn recorded(&self, timeline: &Timeline, boot: TrackId, segments: &Segments) -> &Recorded {
        self.recorded.get_or_init(|| Recorded::new(timeline, boot, segments))
    }

    /// Returns the threads that ran on the boot path. Only threads that wait for work need them.
    pub fn on_path(&self, timeline: &Timeline) -> &OnPath {
        self.on_path.get_or_init(|| OnPath::new(timeline))
    }

    /// Returns the order of the threads on each CPU.
    pub fn turns(&self, timeline: &Timeline) -> &Turns {
        self.turns.get_or_init(|| Turns::new(timeline))
    }
}

/// The threads that ran on the boot path, and when. They give work to threads that wait for it.
pub struct OnPath(Vec<(Ns, Ns, TrackId)>);

impl OnPath {
    /// Costs as much as a walk of the path.
    pub fn new(timeline: &Timeline) -> OnPath {
        let stays = Stays::new(timeline);
        let runs = |stay: &&Stay| matches!(stay.kind, StretchKind::Running | StretchKind::Runqueue);
        OnPath(stays.iter().filter(runs).map(|stay| (stay.from, stay.to, stay.waiters_and_owner().1.track)).collect())
    }

    /// Returns the last instant, not after `at`, at which a thread ran on the path, and that thread.
    pub fn last_ran(&self, at: Ns) -> Option<(Ns, TrackId)> {
        let before = self.0.partition_point(|ran| ran.0 < at).checked_sub(1)?;
        let (_, to, track) = self.0[before];
        Some((to.min(at), track))
    }
}

/// Returns, for each track, the first event in the evidence. A thread may release a hold that it never took. Then it held
/// it since its creation, or since another thread took it, if that was later.
pub fn first_seen(timeline: &Timeline, segments: &Segments, taken_over: &[TakenOver]) -> Vec<Option<Ns>> {
    let mut first: Vec<Option<Ns>> = timeline.tracks.iter().map(|(track, _)| segments.first(track)).collect();
    let since = |t: &TakenOver| {
        let release = timeline.holds[t.releaser];
        let taken_at = t.taker.map_or(Ns::MIN, |taker| timeline.holds[taker].from);
        let created = timeline.tracks.get(release.track).created;
        (release.track, created.map_or(release.to, |(at, _)| at.max(taken_at).min(release.to)))
    };
    let held = timeline.holds.iter().filter(|h| h.from > Ns::MIN).map(|h| (h.track, h.from));
    let held = held.chain(taken_over.iter().map(since));
    let waits = timeline.waits.iter().map(|w| (w.track, w.from));
    let running = timeline.running.iter().map(|r| (r.track, r.from));
    for (track, at) in held.chain(waits).chain(running) {
        let first = &mut first[track.0 as usize];
        *first = Some(first.map_or(at, |earlier| earlier.min(at)));
    }
    first
}

/// Returns a wait from a thread's creation to its first event. In between it is not known to run, and the wait has an
/// unknown cause.
pub fn wait_before_first_event(track: TrackId, created: Ns, first: Option<Ns>) -> Option<Wait> {
    let woken = first.filter(|&first| first > created)?;
    Some(Wait { track, from: created, woken, until: woken, by: WaitedOn::Unknown, uninterruptible: false })
}

/// Returns waits for a CPU. While only the CPUs are known to have been followed, each CPU did one thing after the
/// other. A thread goes on when the thread before it leaves the CPU.
pub fn followed_turns(timeline: &Timeline) -> Vec<Wait> {
    let Some(until) = timeline.cpus_followed_until else { return Vec::new() };
    let mut pieces: Vec<_> = timeline.running.iter().filter(|r| r.from < until).collect();
    pieces.sort_by_key(|r| (r.cpu, r.from));
    let mut left: HashMap<TrackId, Ns> = HashMap::new();
    let mut waits = Vec::new();
    for (i, piece) in pieces.iter().enumerate() {
        let before = i.checked_sub(1).map(|i| pieces[i]).filter(|before| before.cpu == piece.cpu);
        if let (Some(before), Some(&from)) = (before, left.get(&piece.track)) {
            if before.track != piece.track && from < piece.from {
                let (woken, by) = (piece.from, WaitedOn::Thread(before.track));
                waits.push(Wait { track: piece.track, from, woken, until: woken, by, uninterruptible: false });
            }
        }
        left.insert(piece.track, piece.to);
    }
    waits
}

/// Maximum number of runs to look back for the threads that a thread waited for. A larger number takes long and changes
/// little.
const MAX_TURNS: usize = 256;

/// The order of the threads on each CPU.
pub struct Turns {
    /// Runs by CPU, in order of time.
    pieces: Vec<Running>,
    /// The index in `pieces` at which a track begins to run.
    run_starts: HashMap<(TrackId, Ns), usize>,
}

impl Turns {
    /// Linear, apart from sorting.
    pub fn new(timeline: &Timeline) -> Turns {
        let mut pieces = timeline.running.clone();
        pieces.sort_by_key(|r| (r.cpu, r.from));
        let run_starts = pieces.iter().enumerate().map(|(i, r)| ((r.track, r.from), i)).collect();
        Turns { pieces, run_starts }
    }

    /// Returns what ran on the CPU since a track was `woken`, before the track goes on there at `at`. The track waited
    /// for these runs. The last run first.
    pub fn waited_for(&self, track: TrackId, woken: Ns, at: Ns) -> impl Iterator<Item = Running> + use<'_> {
        let end = self.run_starts.get(&(track, at)).copied().unwrap_or(0);
        let cpu = self.pieces.get(end).map(|piece| piece.cpu);
        let before = self.pieces[..end].iter().rev().take(MAX_TURNS);
        before.take_while(move |r| Some(r.cpu) == cpu && woken < r.to && r.track != track).map(move |r| Running {
            from: r.from.max(woken),
            to: r.to.min(at),
            ..*r
        })
    }
}

/// Returns waits for work that one thread hands to another. The first thread holds a topic and never releases it. The
/// second releases it and never took it. FreeBSD's `g_post_event` and its event thread are such a pair. If the second
/// thread did nothing before, or slept outside of any work, it waited for the work.
pub fn handovers(timeline: &Timeline, segments: &Segments, taken_over: &[TakenOver]) -> Vec<Wait> {
    let mut waits = Vec::new();
    let mut last_release: HashMap<(NameId, TrackId), Ns> = HashMap::new();
    let asleep = Asleep::new(timeline, taken_over);
    for t in taken_over {
        let release = timeline.holds[t.releaser];
        let busy_until = last_release.insert((release.topic, release.track), release.to).unwrap_or(Ns::MIN);
        let Some(taking) = t.taker.map(|taker| timeline.holds[taker]) else { continue };
        let created = timeline.tracks.get(release.track).created.map_or(Ns::MIN, |(at, _)| at);
        let idle = segments.idle_since(release.track, taking.from).or_else(|| asleep.since(release.track, taking.from));
        let idle = idle.map(|at| at.max(created).max(busy_until));
        if let Some(from) = idle.filter(|&at| Ns::MIN < at && at < taking.from) {
            let (woken, by) = (taking.from, WaitedOn::Thread(taking.track));
            waits.push(Wait { track: release.track, from, woken, until: woken, by, uninterruptible: false });
        }
    }
    waits
}

/// The function in which a thread sleeps until another wakes it, in logs that have a record for it.
const SLEEP: &str = "_sleep";

/// Sleeps of threads outside of any span: the threads had no work. Only threads that take over work are included.
struct Asleep(HashMap<TrackId, Vec<(Ns, Ns)>>);

impl Asleep {
    /// Linear in the number of spans.
    fn new(timeline: &Timeline, taken_over: &[TakenOver]) -> Asleep {
        let mut sleeps_by_track: HashMap<TrackId, Vec<(Ns, Ns)>> =
            taken_over.iter().map(|t| (timeline.holds[t.releaser].track, Vec::new())).collect();
        if sleeps_by_track.is_empty() {
            return Asleep(sleeps_by_track);
        }
        for (_, span) in timeline.spans.iter().filter(|(id, _)| timeline.spans.parent(*id).is_none()) {
            if let Some(sleeps) =
                sleeps_by_track.get_mut(&span.track).filter(|_| timeline.names.get(span.name) == SLEEP)
            {
                sleeps.push((span.start, span.end));
            }
        }
        Asleep(sleeps_by_track)
    }

    /// Returns since when a thread has been asleep at an instant.
    fn since(&self, track: TrackId, at: Ns) -> Option<Ns> {
        let sleeps = self.0.get(&track)?;
        let (from, to) = *sleeps.get(sleeps.partition_point(|sleep| sleep.0 <= at).checked_sub(1)?)?;
        (at < to).then_some(from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use timeline::TimeBase;

    /// The firmware runs until 10 and goes on when the ROM, which it calls then, leaves the CPU.
    #[test]
    fn a_thread_waits_for_its_cpu_only_if_another_had_it_for_some_time() {
        let waits = |rom_until: i64| -> Vec<(TrackId, Ns, Ns, WaitedOn)> {
            let mut boot = Timeline::new(TimeBase::Evidence);
            boot.cpus_followed_until = Some(Ns::MAX);
            for (track, from, to) in [(0, 0, 10), (1, 10, rom_until), (0, rom_until, 20)] {
                boot.running.push(Running { track: TrackId(track), cpu: 0, from: Ns(from), to: Ns(to) });
            }
            followed_turns(&boot).iter().map(|wait| (wait.track, wait.from, wait.until, wait.by)).collect()
        };
        assert_eq!(waits(15), [(TrackId(0), Ns(10), Ns(15), WaitedOn::Thread(TrackId(1)))]);
        assert_eq!(waits(10), []);
    }
}
