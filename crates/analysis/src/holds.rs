//! The threads that held what others waited for, and which of them to blame.
//!
//! The method is Percival's (Profiling the FreeBSD kernel boot, 2018). Blame the last thread to release, for the time
//! in which it held, but not from before it was created. Then blame the thread that released before it, and so on until
//! the start of the wait. Therefore, at any instant, the blame is on the thread that releases last of those that hold.
//!
//! If a thread still holds when a wait ends, it did not end the wait. Therefore a release inside the wait has priority.
//! Threads that still hold count only in two cases. In the first, no thread released inside the wait: the wait timed
//! out. In the second, a release just after the end is nearer to the end than the last release inside. This happens if
//! the waiter is woken on another CPU before the release is logged. If several threads still hold, the first to release
//! is to blame.
//!
//! FreeBSD waits for the root mount in turns of at most a second. Each turn ends with the next release or with its
//! time-out. Turns in one function are [one wait](crate::polls) here, which ends when the last turn does.
//!
//! A hold that ends by [another thread's release](taken_over) counts as that thread's hold, from the moment it was
//! taken.

use hashbrown::{HashMap, HashSet};
use timeline::{NameId, Ns, Timeline, TrackId, Wait};

/// A stretch in which a track kept others waiting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Held {
    pub track: TrackId,
    /// The latest of three: the start of this hold, the start of the hold that it was taken over from, and the track's
    /// creation.
    pub from: Ns,
    pub to: Ns,
    /// True if a thread is seen to take it. A release alone does not show when the hold began.
    pub seen_taken: bool,
}

/// The end of a wait for a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ender {
    /// A release inside the wait, at this time.
    Release(Ns),
    /// No release by then. This is the first thread to release of those that still hold.
    StillHeld(TrackId),
    /// No thread that held the topic.
    NoHolder,
}

/// All holds, by topic. The topics share lists, because a log can have a new topic in each line.
#[derive(Default)]
pub struct Holds {
    /// Each topic in order, with the places of its first hold in `held` and of its first block in `earliest`.
    topics: Vec<(NameId, u32, u32)>,
    held: Vec<Held>,
    earliest: Vec<Ns>,
    others: Vec<u32>,
}

/// The holds of one topic, ordered by release.
struct Topic<'a> {
    held: &'a [Held],
    /// The earliest start in each block of [`BLOCK`] holds, so that blocks that cannot match are skipped.
    earliest: &'a [Ns],
    /// For each hold, the number of holds up to the last earlier one of another thread.
    others: &'a [u32],
}

const BLOCK: usize = 256;

impl Holds {
    /// `O(n log n)` in the number of holds.
    pub fn new(timeline: &Timeline) -> Holds {
        let mut holds = Holds::default();
        // The start of each hold that was taken over.
        let mut since: HashMap<usize, Ns> = HashMap::new();
        let mut handed_over: HashSet<usize> = HashSet::new();
        for TakenOver { releaser, taker } in taken_over(timeline) {
            since.extend(taker.map(|taker| (releaser, timeline.holds[taker].from)));
            handed_over.extend(taker);
        }
        for (i, hold) in timeline.holds.iter().enumerate().filter(|(i, _)| !handed_over.contains(i)) {
            let created = timeline.tracks.get(hold.track).created.map_or(Ns::MIN, |(at, _)| at);
            let taken = since.get(&i).copied().unwrap_or(hold.from);
            let from = taken.max(created);
            if from < hold.to {
                let held = Held { track: hold.track, from, to: hold.to, seen_taken: taken > Ns::MIN };
                // A timeline has its holds by topic.
                if holds.topics.last().is_none_or(|(topic, ..)| *topic != hold.topic) {
                    holds.topics.push((hold.topic, timeline::number(holds.held.len()), 0));
                }
                holds.held.push(held);
            }
        }
        for i in 0..holds.topics.len() {
            let next = holds.topics.get(i + 1).map_or(holds.held.len(), |next| next.1 as usize);
            let held = &mut holds.held[holds.topics[i].1 as usize..next];
            // If several are released at one instant, the one that was held longest counts as the last.
            held.sort_by_key(|h| (h.to, std::cmp::Reverse(h.from)));
            holds.topics[i].2 = timeline::number(holds.earliest.len());
            let earliest = |block: &[Held]| block.iter().map(|h| h.from).min().unwrap_or(Ns::MAX);
            holds.earliest.extend(held.chunks(BLOCK).map(earliest));
            others(held, &mut holds.others);
        }
        holds
    }

    fn topic(&self, topic: NameId) -> Option<Topic<'_>> {
        let place = self.topics.binary_search_by_key(&topic, |(topic, ..)| *topic).ok()?;
        let (_, first, block) = self.topics[place];
        let next = self.topics.get(place + 1);
        let (end, last_block) = next.map_or((self.held.len(), self.earliest.len()), |n| (n.1 as usize, n.2 as usize));
        let places = first as usize..end;
        Some(Topic {
            held: &self.held[places.clone()],
            earliest: &self.earliest[block as usize..last_block],
            others: &self.others[places],
        })
    }

    /// Returns the thread to blame for each part of `from..to` of a wait for `topic`, from the end backwards and
    /// without gaps. `None`: no thread for which `may_blame` is true held the topic. `ended` is the end of the wait,
    /// including all its turns.
    pub fn blame(
        &self,
        wait: &Wait,
        topic: NameId,
        (from, to): (Ns, Ns),
        ended: Ns,
        may_blame: impl Fn(TrackId) -> bool,
    ) -> Vec<(Option<TrackId>, Ns, Ns)> {
        let mut blame = Vec::new();
        let mut at = to;
        if let Some(topic) = self.topic(topic) {
            let may_blame = |held: &Held| held.track != wait.track && may_blame(held.track);
            let released = topic.held.partition_point(|h| h.to <= ended);
            let ended_inside = topic.last_release_inside((wait.from, ended), may_blame).is_some();
            let mut above = if ended_inside { topic.held.len() } else { released };
            while let Some(i) = topic.first(above, at).filter(|_| at > from) {
                above = i + 1;
                let held = topic.held[i];
                if held.seen_taken && may_blame(&held) {
                    let since = held.from.max(from);
                    blame.push((Some(held.track), since, at));
                    at = since;
                }
            }
            let mut below = released;
            while let Some(i) = topic.last(below, at).filter(|&i| at > from && topic.held[i].to > from) {
                below = i;
                let held = topic.held[i];
                if !may_blame(&held) {
                    continue;
                }
                if held.to < at {
                    blame.push((None, held.to, at));
                    at = held.to;
                }
                let since = held.from.max(from);
                blame.push((Some(held.track), since, at));
                at = since;
            }
        }
        if at > from {
            blame.push((None, from, at));
        }
        blame
    }

    /// Returns what ended a wait for a topic that lasted `from..end`.
    pub fn ender(&self, waiter: TrackId, topic: NameId, (from, end): (Ns, Ns)) -> Ender {
        let Some(topic) = self.topic(topic) else { return Ender::NoHolder };
        let may_blame = |held: &Held| held.track != waiter;
        match (topic.last_release_inside((from, end), may_blame), topic.first_still_held(end, may_blame)) {
            (Some(at), _) => Ender::Release(at),
            (None, Some(held)) => Ender::StillHeld(held.track),
            (None, None) => Ender::NoHolder,
        }
    }
}

impl Topic<'_> {
    /// Returns the last release inside a wait, unless a release after its end is nearer to the end.
    fn last_release_inside(&self, (from, end): (Ns, Ns), may_blame: impl Fn(&Held) -> bool) -> Option<Ns> {
        let mut count = self.held.partition_point(|h| h.to <= end);
        while count > 0 && !may_blame(&self.held[count - 1]) {
            count = self.others[count - 1] as usize;
        }
        let last = count.checked_sub(1).map(|i| self.held[i]);
        let last = last.filter(|held| held.to > from)?;
        let next = self.first_still_held(end, may_blame).filter(|held| held.to < Ns::MAX);
        next.is_none_or(|next| end - last.to <= next.to - end).then_some(last.to)
    }

    /// Returns the first to release of the threads that hold at `at` and may be to blame.
    fn first_still_held(&self, at: Ns, may_blame: impl Fn(&Held) -> bool) -> Option<Held> {
        let mut above = self.held.partition_point(|h| h.to <= at);
        while let Some(i) = self.first(above, at) {
            if self.held[i].seen_taken && may_blame(&self.held[i]) {
                return Some(self.held[i]);
            }
            above = i + 1;
        }
        None
    }

    /// Returns the first hold from `above` on that began before `at`.
    fn first(&self, above: usize, at: Ns) -> Option<usize> {
        let mut begin = above;
        while begin < self.held.len() {
            let block = begin / BLOCK;
            let end = ((block + 1) * BLOCK).min(self.held.len());
            if self.earliest[block] < at {
                if let Some(i) = self.held[begin..end].iter().position(|h| h.from < at) {
                    return Some(begin + i);
                }
            }
            begin = end;
        }
        None
    }

    /// Returns the last of the first `below` holds that began before `at`.
    fn last(&self, below: usize, at: Ns) -> Option<usize> {
        let mut end = below;
        while end > 0 {
            let block = (end - 1) / BLOCK;
            let begin = block * BLOCK;
            if self.earliest[block] < at {
                if let Some(i) = self.held[begin..end].iter().rposition(|h| h.from < at) {
                    return Some(begin + i);
                }
            }
            end = begin;
        }
        None
    }
}

/// Adds, for each hold of a topic, the number of holds up to the last earlier one of another thread.
fn others(held: &[Held], others: &mut Vec<u32>) {
    for (i, this) in held.iter().enumerate() {
        let is_same = i.checked_sub(1).is_some_and(|before| held[before].track == this.track);
        let same = others.last().copied().filter(|_| is_same);
        others.push(same.unwrap_or(timeline::number(i)));
    }
}

/// A release by a thread that never took the hold. The fields are indices into the timeline's `holds`.
pub struct TakenOver {
    /// The hold of the thread that released.
    pub releaser: usize,
    /// The hold of the thread that took it and never released it, if there is one.
    pub taker: Option<usize>,
}

/// Returns all releases without a hold. In each topic, the first to hold is paired with the first to release. Linear,
/// after sorting.
pub fn taken_over(timeline: &Timeline) -> Vec<TakenOver> {
    let all = &timeline.holds;
    let mut all_releases = Vec::new();
    let mut begin = 0;
    for topic in all.chunk_by(|a, b| a.topic == b.topic) {
        let places = begin..begin + topic.len();
        begin = places.end;
        let mut takers: Vec<usize> = places.clone().filter(|&i| all[i].to == Ns::MAX).collect();
        takers.sort_by_key(|&i| all[i].from);
        let mut takers = takers.into_iter().peekable();
        for releaser in places.filter(|&i| all[i].from == Ns::MIN) {
            let hands_over =
                |&taker: &usize| all[taker].from < all[releaser].to && all[taker].track != all[releaser].track;
            all_releases.push(TakenOver { releaser, taker: takers.next_if(hands_over) });
        }
    }
    all_releases
}
