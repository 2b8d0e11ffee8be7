//! Who held what others waited for, and who of them is to blame.
//!
//! The method is Percival's (Profiling the FreeBSD kernel boot, 2018): blame the last thread to release, for as long as
//! it held, but not from before it was created; then the one before it, until the start of the wait. At any instant
//! that is, of those who then held, the one that released last.
//!
//! A wait that ends while a thread still holds was not ended by that thread, so a release inside the wait comes first.
//! Those who still hold count only in two cases. In the first, nobody released inside the wait: it timed out. In the
//! second, a release just after the end is nearer to it than the last one inside: the waiter is woken before the release
//! is logged, on another CPU. Of several who still hold, the first to release then is to blame.
//!
//! FreeBSD waits for the root mount in turns of at most a second, each of which ends with the next release or with its
//! time-out. Turns of one function are [one wait](crate::polls) here: it ends when the last one does.
//!
//! A hold that ends by [another thread's release](taken_over) is that thread's, since it was taken.

use hashbrown::{HashMap, HashSet};
use timeline::{NameId, Ns, Timeline, TrackId, Wait};

/// A track kept others waiting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Held {
    pub track: TrackId,
    /// The latest of its hold, that of whom it took it from, and its creation.
    pub from: Ns,
    pub to: Ns,
    /// Whether anybody is seen to take it: a release alone says nothing of when it began.
    pub seen_taken: bool,
}

/// What ended a wait for a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ender {
    /// A release inside it, then.
    Release(Ns),
    /// Nothing that released by then: of those who still hold, the first to release.
    StillHeld(TrackId),
    /// Nobody who held it.
    Nobody,
}

/// All holds, by topic.
pub struct Holds(HashMap<NameId, Topic>);

/// The holds of one topic, the first to be released first.
#[derive(Default)]
struct Topic {
    held: Vec<Held>,
    /// Of each [`BLOCK`] of them, when the earliest began, so that those of no use are skipped together.
    earliest: Vec<Ns>,
    /// Of each of them, how many there are up to the last before it that is another thread's.
    others: Vec<usize>,
}

const BLOCK: usize = 256;

impl Holds {
    /// `O(n log n)` in the number of holds.
    pub fn new(timeline: &Timeline) -> Holds {
        let mut topics: HashMap<NameId, Topic> = HashMap::new();
        // Of each hold that was taken over, since when it was held.
        let mut since: HashMap<usize, Ns> = HashMap::new();
        let mut over: HashSet<usize> = HashSet::new();
        for TakenOver { taken, given } in taken_over(timeline) {
            since.extend(given.map(|given| (taken, timeline.holds[given].from)));
            over.extend(given);
        }
        for (i, hold) in timeline.holds.iter().enumerate().filter(|(i, _)| !over.contains(i)) {
            let created = timeline.tracks.get(hold.track).created.map_or(Ns::MIN, |(at, _)| at);
            let taken = since.get(&i).copied().unwrap_or(hold.from);
            let from = taken.max(created);
            if from < hold.to {
                let held = Held { track: hold.track, from, to: hold.to, seen_taken: taken > Ns::MIN };
                topics.entry(hold.topic).or_default().held.push(held);
            }
        }
        for topic in topics.values_mut() {
            // Of those released at one instant, the one that was held longest counts as the last.
            topic.held.sort_by_key(|h| (h.to, std::cmp::Reverse(h.from)));
            let earliest = |block: &[Held]| block.iter().map(|h| h.from).min().unwrap_or(Ns::MAX);
            topic.earliest = topic.held.chunks(BLOCK).map(earliest).collect();
            topic.others = others(&topic.held);
        }
        Holds(topics)
    }

    /// Who is to blame for `from..to` of a wait for `topic`, from the end backwards and without gap; none where nobody
    /// held it who `may` have. `ended` is when the wait ended, with all the turns that it was waited in.
    pub fn blame(
        &self,
        wait: &Wait,
        topic: NameId,
        (from, to): (Ns, Ns),
        ended: Ns,
        may: impl Fn(TrackId) -> bool,
    ) -> Vec<(Option<TrackId>, Ns, Ns)> {
        let mut blame = Vec::new();
        let mut at = to;
        if let Some(topic) = self.0.get(&topic) {
            let may = |held: &Held| held.track != wait.track && may(held.track);
            let released = topic.held.partition_point(|h| h.to <= ended);
            let by_release = topic.ended_by_release((wait.from, ended), may).is_some();
            let mut above = if by_release { topic.held.len() } else { released };
            while let Some(i) = topic.first(above, at).filter(|_| at > from) {
                above = i + 1;
                let held = topic.held[i];
                if held.seen_taken && may(&held) {
                    let since = held.from.max(from);
                    blame.push((Some(held.track), since, at));
                    at = since;
                }
            }
            let mut below = released;
            while let Some(i) = topic.last(below, at).filter(|&i| at > from && topic.held[i].to > from) {
                below = i;
                let held = topic.held[i];
                if !may(&held) {
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

    /// What ended a wait for a topic that lasted `from..end`.
    pub fn ender(&self, waiter: TrackId, topic: NameId, (from, end): (Ns, Ns)) -> Ender {
        let Some(topic) = self.0.get(&topic) else { return Ender::Nobody };
        let may = |held: &Held| held.track != waiter;
        match (topic.ended_by_release((from, end), may), topic.still(end, may)) {
            (Some(at), _) => Ender::Release(at),
            (None, Some(held)) => Ender::StillHeld(held.track),
            (None, None) => Ender::Nobody,
        }
    }
}

impl Topic {
    /// The last release inside a wait, if none is nearer to its end.
    fn ended_by_release(&self, (from, end): (Ns, Ns), may: impl Fn(&Held) -> bool) -> Option<Ns> {
        let mut count = self.held.partition_point(|h| h.to <= end);
        while count > 0 && !may(&self.held[count - 1]) {
            count = self.others[count - 1];
        }
        let last = count.checked_sub(1).map(|i| self.held[i]);
        let last = last.filter(|held| held.to > from)?;
        let next = self.still(end, may).filter(|held| held.to < Ns::MAX);
        next.is_none_or(|next| end - last.to <= next.to - end).then_some(last.to)
    }

    /// Of those who hold at an instant and may be to blame, the first to release.
    fn still(&self, at: Ns, may: impl Fn(&Held) -> bool) -> Option<Held> {
        let mut above = self.held.partition_point(|h| h.to <= at);
        while let Some(i) = self.first(above, at) {
            if self.held[i].seen_taken && may(&self.held[i]) {
                return Some(self.held[i]);
            }
            above = i + 1;
        }
        None
    }

    /// The first from `above` on that began before `at`.
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

    /// The last of the first `below` that began before `at`.
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

/// Of each hold, how many there are up to the last before it that is another thread's.
fn others(held: &[Held]) -> Vec<usize> {
    let mut others = Vec::with_capacity(held.len());
    for (i, this) in held.iter().enumerate() {
        let before = i.checked_sub(1).filter(|&before| held[before].track == this.track);
        others.push(before.map_or(i, |before| others[before]));
    }
    others
}

/// A release by a thread that never took the hold, as places in the timeline's `holds`.
pub struct TakenOver {
    /// Held by who released it.
    pub taken: usize,
    /// By who took it and never released it, if anybody did.
    pub given: Option<usize>,
}

/// All releases without a hold. Of each topic the first to hold is paired with the first to release. Linear, after
/// sorting.
pub fn taken_over(timeline: &Timeline) -> Vec<TakenOver> {
    let all = &timeline.holds;
    let mut found = Vec::new();
    let mut begin = 0;
    for topic in all.chunk_by(|a, b| a.topic == b.topic) {
        let places = begin..begin + topic.len();
        begin = places.end;
        let mut given: Vec<usize> = places.clone().filter(|&i| all[i].to == Ns::MAX).collect();
        given.sort_by_key(|&i| all[i].from);
        let mut given = given.into_iter().peekable();
        for taken in places.filter(|&i| all[i].from == Ns::MIN) {
            let hands_over = |&given: &usize| all[given].from < all[taken].to && all[given].track != all[taken].track;
            found.push(TakenOver { taken, given: given.next_if(hands_over) });
        }
    }
    found
}
