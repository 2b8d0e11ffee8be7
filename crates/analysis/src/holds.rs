//! Who held what others waited for, and who of them is to blame.
//!
//! The method is Percival's (Profiling the FreeBSD kernel boot, 2018): blame the last thread to release, for as long as
//! it held, but not from before it was created; then the one before it, until the start of the wait. At any instant
//! that is, of those who then held, the one that released last.
//!
//! Who still holds when the wait ends was waited for too, and rather than whoever released before: a waiter may be woken
//! just before the release is logged, and a wait may time out. Of several, the first to release then. A hold that ends
//! by [another thread's release](taken_over) is that thread's, since it was taken.

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

/// All holds, by topic.
pub struct Holds(HashMap<NameId, Topic>);

/// The holds of one topic, the first to be released first.
#[derive(Default)]
struct Topic {
    held: Vec<Held>,
    /// Of each [`BLOCK`] of them, when the earliest began, so that those of no use are skipped together.
    earliest: Vec<Ns>,
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
        }
        Holds(topics)
    }

    /// Who is to blame for `from..to` of a wait for `topic`, from the end backwards and without gap; none where nobody
    /// held it who `may` have.
    pub fn blame(
        &self,
        wait: &Wait,
        topic: NameId,
        (from, to): (Ns, Ns),
        may: impl Fn(TrackId) -> bool,
    ) -> Vec<(Option<TrackId>, Ns, Ns)> {
        let mut blame = Vec::new();
        let mut at = to;
        if let Some(topic) = self.0.get(&topic) {
            let released = topic.held.partition_point(|h| h.to <= wait.woken);
            let mut above = released;
            while let Some(i) = topic.first(above, at).filter(|_| at > from) {
                above = i + 1;
                let held = topic.held[i];
                if held.seen_taken && held.track != wait.track && may(held.track) {
                    let since = held.from.max(from);
                    blame.push((Some(held.track), since, at));
                    at = since;
                }
            }
            let mut below = released;
            while let Some(i) = topic.last(below, at).filter(|&i| at > from && topic.held[i].to > from) {
                below = i;
                let held = topic.held[i];
                if held.track == wait.track || !may(held.track) {
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

    /// Who still holds a topic when a wait for it ends; of several, the first to release it then.
    pub fn still_held(&self, waiter: TrackId, topic: NameId, end: Ns) -> Option<TrackId> {
        let topic = self.0.get(&topic)?;
        let mut above = topic.held.partition_point(|h| h.to <= end);
        while let Some(i) = topic.first(above, end) {
            let held = topic.held[i];
            if held.seen_taken && held.track != waiter {
                return Some(held.track);
            }
            above = i + 1;
        }
        None
    }
}

impl Topic {
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
