//! What a replay has to know of the evidence beforehand.

use crate::holds::{Holds, TakenOver, taken_over};
use crate::segments::Segments;
use crate::stays::{Stay, Stays};
use crate::stretch::StretchKind;
use hashbrown::HashMap;
use std::sync::OnceLock;
use timeline::{NameId, Ns, Running, Timeline, Track, TrackId, Wait, WaitedOn};

/// The first and the last time that is known of.
pub fn extent(timeline: &Timeline) -> (Ns, Ns) {
    let spans = timeline.spans.iter().flat_map(|(_, s)| [s.start, s.end]);
    let waits = timeline.waits.iter().flat_map(|w| [w.from, w.woken, w.until]);
    let holds = timeline.holds.iter().flat_map(|h| [h.from, h.to]);
    let running = timeline.running.iter().flat_map(|r| [r.from, r.to]);
    let created = timeline.tracks.iter().filter_map(|(_, t)| t.created).map(|(at, _)| at);
    let all = spans.chain(waits).chain(holds).chain(running).chain(created).chain(timeline.end.map(|end| end.at));
    let known = all.filter(|&at| at != Ns::MIN && at != Ns::MAX);
    known.fold((Ns::ZERO, Ns::ZERO), |(first, last), at| (first.min(at), last.max(at)))
}

/// What all replays of one timeline need alike, each worked out when it is first asked for.
#[derive(Default)]
pub struct Shared {
    on_path: OnceLock<OnPath>,
    turns: OnceLock<Turns>,
    before: OnceLock<Before>,
}

/// What was there before any of the work is shortened.
pub struct Before {
    /// The first and the last time there is.
    pub extent: (Ns, Ns),
    /// The boot's own tracks, each until which instant.
    pub lineage: Vec<(TrackId, Ns)>,
    pub taken_over: Vec<TakenOver>,
    pub holds: Holds,
    /// The holds that are released at all, in order of time.
    pub releases: Vec<usize>,
    /// Each track's line.
    pub lines: Vec<LineBefore>,
}

/// A line of execution as it was.
pub struct LineBefore {
    /// When it was created, and by whom.
    pub born: Option<(Ns, TrackId)>,
    /// It is not known to have done anything before.
    pub begun: Ns,
    /// Where it waited, in order of time.
    pub waits: Vec<Wait>,
    /// Whether it takes turns on the only CPU.
    pub takes_turns: bool,
}

impl Before {
    /// Of a boot that this track reaches the end of.
    fn new(timeline: &Timeline, boot: TrackId, segments: &Segments) -> Before {
        let lineage = crate::path::lineage(timeline, boot);
        let taken_over = taken_over(timeline);
        let holds = &timeline.holds;
        let mut releases: Vec<usize> = (0..holds.len()).filter(|&i| holds[i].to < Ns::MAX).collect();
        releases.sort_by_key(|&i| holds[i].to);
        let lines = lines(timeline, boot, segments, &taken_over, &lineage);
        Before { extent: extent(timeline), lineage, holds: Holds::new(timeline), releases, taken_over, lines }
    }
}

/// Each track's line, before anything is shortened.
fn lines(
    timeline: &Timeline,
    boot: TrackId,
    segments: &Segments,
    taken_over: &[TakenOver],
    lineage: &[(TrackId, Ns)],
) -> Vec<LineBefore> {
    let mut takes_turns = vec![false; timeline.tracks.len()];
    if timeline.occupancy.is_of_one_cpu() {
        timeline.occupancy.turns.iter().for_each(|turn| takes_turns[turn.track.0 as usize] = true);
    }
    let mut waits: Vec<Vec<Wait>> = vec![Vec::new(); timeline.tracks.len()];
    let found = handovers(timeline, segments, taken_over).into_iter().chain(turns(timeline));
    for wait in timeline.waits.iter().copied().chain(found) {
        waits[wait.track.0 as usize].push(wait);
    }
    let seen = first_seen(timeline, segments, taken_over);
    let boots_waits: Vec<Wait> = waits[boot.0 as usize].clone();
    let line = |((track, t), mut waits): ((TrackId, &Track), Vec<Wait>)| {
        let its_own = lineage.iter().any(|&(known, _)| known == track);
        let first = seen[track.0 as usize];
        // It was created by then, if nobody says when.
        let by_then = t.created.map_or(first.unwrap_or_default(), |(at, _)| at);
        // Who waits creates nobody: a CPU that is waited for was started before, and is first seen when it is there.
        let waited_for = |w: &&Wait| w.by == WaitedOn::Thread(track) && w.from < by_then && by_then <= w.woken;
        let (born, first) = match t.created.filter(|&(_, by)| by != track) {
            None if its_own => (None, first),
            None => match boots_waits.iter().find(waited_for).filter(|_| t.created.is_none()) {
                Some(wait) => (Some((wait.from, boot)), Some(wait.from)),
                None => (Some((by_then, boot)), first),
            },
            born => (born, first),
        };
        let takes_turns = takes_turns[track.0 as usize];
        let idle = born.filter(|_| !its_own && !takes_turns).and_then(|(at, _)| not_begun(track, at, first));
        let begun = idle.map_or(Ns::MIN, |idle| idle.until);
        waits.extend(idle);
        waits.sort_by_key(|w| w.from);
        LineBefore { born, begun, waits, takes_turns }
    };
    timeline.tracks.iter().zip(waits).map(line).collect()
}

impl Shared {
    /// What was there before, in a boot that this track reaches the end of.
    pub fn before(&self, timeline: &Timeline, boot: TrackId, segments: &Segments) -> &Before {
        self.before.get_or_init(|| Before::new(timeline, boot, segments))
    }

    /// Who ran on the boot path. Only threads that wait for work ask.
    pub fn on_path(&self, timeline: &Timeline) -> &OnPath {
        self.on_path.get_or_init(|| OnPath::new(timeline))
    }

    /// Who had each CPU before whom.
    pub fn turns(&self, timeline: &Timeline) -> &Turns {
        self.turns.get_or_init(|| Turns::new(timeline))
    }
}

/// Who ran on the boot path when: it is they who give work to threads that wait for some.
pub struct OnPath(Vec<(Ns, Ns, TrackId)>);

impl OnPath {
    /// As expensive as walking the path.
    pub fn new(timeline: &Timeline) -> OnPath {
        let stays = Stays::new(timeline);
        let runs = |stay: &&Stay| matches!(stay.kind, StretchKind::Running | StretchKind::Runqueue);
        OnPath(stays.iter().filter(runs).map(|stay| (stay.from, stay.to, stay.waiters_and_owner().1.track)).collect())
    }

    /// The last instant, not after `at`, at which anybody ran there, and who.
    pub fn last_ran(&self, at: Ns) -> Option<(Ns, TrackId)> {
        let before = self.0.partition_point(|ran| ran.0 < at).checked_sub(1)?;
        let (_, to, track) = self.0[before];
        Some((to.min(at), track))
    }
}

/// Of each track, when it first did something that is known of. Who releases what it never took held it since it was
/// created, or since another took it then.
pub fn first_seen(timeline: &Timeline, segments: &Segments, taken_over: &[TakenOver]) -> Vec<Option<Ns>> {
    let mut first: Vec<Option<Ns>> = timeline.tracks.iter().map(|(track, _)| segments.first(track)).collect();
    let since = |t: &TakenOver| {
        let taken = timeline.holds[t.releaser];
        let given = t.taker.map_or(Ns::MIN, |given| timeline.holds[given].from);
        let created = timeline.tracks.get(taken.track).created;
        (taken.track, created.map_or(taken.to, |(at, _)| at.max(given).min(taken.to)))
    };
    let held = timeline.holds.iter().filter(|h| h.from > Ns::MIN).map(|h| (h.track, h.from));
    let held = held.chain(taken_over.iter().map(since));
    let waits = timeline.waits.iter().map(|w| (w.track, w.from));
    let running = timeline.running.iter().map(|r| (r.track, r.from));
    for (track, at) in held.chain(waits).chain(running) {
        let first = &mut first[track.0 as usize];
        *first = Some(first.map_or(at, |known| known.min(at)));
    }
    first
}

/// From its creation to the first that is known of it a thread is not known to run: it waits for who knows what.
pub fn not_begun(track: TrackId, created: Ns, first: Option<Ns>) -> Option<Wait> {
    let woken = first.filter(|&first| first > created)?;
    Some(Wait { track, from: created, woken, until: woken, by: WaitedOn::Unknown, uninterruptible: false })
}

/// While only the CPUs are known to have been followed, each did one thing after the other: whoever goes on, goes on when
/// the one before it leaves the CPU.
pub fn turns(timeline: &Timeline) -> Vec<Wait> {
    let Some(until) = timeline.cpus_followed_until else { return Vec::new() };
    let mut pieces: Vec<_> = timeline.running.iter().filter(|r| r.from < until).collect();
    pieces.sort_by_key(|r| (r.cpu, r.from));
    let mut left: HashMap<TrackId, Ns> = HashMap::new();
    let mut found = Vec::new();
    for (i, piece) in pieces.iter().enumerate() {
        let before = i.checked_sub(1).map(|i| pieces[i]).filter(|before| before.cpu == piece.cpu);
        if let (Some(before), Some(&from)) = (before, left.get(&piece.track)) {
            if before.track != piece.track && from < piece.from {
                let (woken, by) = (piece.from, WaitedOn::Thread(before.track));
                found.push(Wait { track: piece.track, from, woken, until: woken, by, uninterruptible: false });
            }
        }
        left.insert(piece.track, piece.to);
    }
    found
}

/// Looking back further for whom a CPU was waited for takes long and moves little.
const TURNS_MAX: usize = 256;

/// Who had each CPU before whom.
pub struct Turns {
    /// By CPU, in order of time.
    pieces: Vec<Running>,
    /// Where in these a track begins to run.
    begins: HashMap<(TrackId, Ns), usize>,
}

impl Turns {
    /// Linear but for sorting.
    pub fn new(timeline: &Timeline) -> Turns {
        let mut pieces = timeline.running.clone();
        pieces.sort_by_key(|r| (r.cpu, r.from));
        let begins = pieces.iter().enumerate().map(|(i, r)| ((r.track, r.from), i)).collect();
        Turns { pieces, begins }
    }

    /// What ran on the CPU on which a track goes on at `at`, from when it was `woken` on, and so was waited for; the last first.
    pub fn waited_for(&self, track: TrackId, woken: Ns, at: Ns) -> impl Iterator<Item = Running> + use<'_> {
        let end = self.begins.get(&(track, at)).copied().unwrap_or(0);
        let cpu = self.pieces.get(end).map(|piece| piece.cpu);
        let before = self.pieces[..end].iter().rev().take(TURNS_MAX);
        before.take_while(move |r| Some(r.cpu) == cpu && woken < r.to && r.track != track).map(move |r| Running {
            from: r.from.max(woken),
            to: r.to.min(at),
            ..*r
        })
    }
}

/// Work that one thread hands to another: the one holds a topic and never releases it, the other releases it and never
/// held it. FreeBSD's g_post_event and its event thread are such a pair. Where the other did nothing until then, or slept
/// outside of any work, it had waited for the work.
pub fn handovers(timeline: &Timeline, segments: &Segments, taken_over: &[TakenOver]) -> Vec<Wait> {
    let mut found = Vec::new();
    let mut last_release: HashMap<(NameId, TrackId), Ns> = HashMap::new();
    let asleep = Asleep::new(timeline, taken_over);
    for t in taken_over {
        let taken = timeline.holds[t.releaser];
        let busy_until = last_release.insert((taken.topic, taken.track), taken.to).unwrap_or(Ns::MIN);
        let Some(given) = t.taker.map(|given| timeline.holds[given]) else { continue };
        let created = timeline.tracks.get(taken.track).created.map_or(Ns::MIN, |(at, _)| at);
        let idle = segments.idle_since(taken.track, given.from).or_else(|| asleep.since(taken.track, given.from));
        let idle = idle.map(|at| at.max(created).max(busy_until));
        if let Some(from) = idle.filter(|&at| Ns::MIN < at && at < given.from) {
            let (woken, by) = (given.from, WaitedOn::Thread(given.track));
            found.push(Wait { track: taken.track, from, woken, until: woken, by, uninterruptible: false });
        }
    }
    found
}

/// The function that a thread sleeps in until another wakes it, in logs that have a record for it.
const SLEEP: &str = "_sleep";

/// When threads slept with nothing around it: they had no work. Only of threads that take work over.
struct Asleep(HashMap<TrackId, Vec<(Ns, Ns)>>);

impl Asleep {
    /// Linear in the number of spans.
    fn new(timeline: &Timeline, taken_over: &[TakenOver]) -> Asleep {
        let mut found: HashMap<TrackId, Vec<(Ns, Ns)>> =
            taken_over.iter().map(|t| (timeline.holds[t.releaser].track, Vec::new())).collect();
        if found.is_empty() {
            return Asleep(found);
        }
        for (_, span) in timeline.spans.iter().filter(|(id, _)| timeline.spans.parent(*id).is_none()) {
            if let Some(sleeps) = found.get_mut(&span.track).filter(|_| timeline.names.get(span.name) == SLEEP) {
                sleeps.push((span.start, span.end));
            }
        }
        Asleep(found)
    }

    /// Since when a thread slept at an instant.
    fn since(&self, track: TrackId, at: Ns) -> Option<Ns> {
        let sleeps = self.0.get(&track)?;
        let (from, to) = *sleeps.get(sleeps.partition_point(|sleep| sleep.0 <= at).checked_sub(1)?)?;
        (at < to).then_some(from)
    }
}
