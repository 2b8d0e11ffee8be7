//! Who held what others waited for, and who of them is to blame.
//!
//! The method is Percival's (Profiling the FreeBSD kernel boot, 2018): blame the last thread to release, for as long as
//! it held, but not from before it was created; then the one before it, until the start of the wait. At any instant
//! that is, of those who then held, the one that released last.
//!
//! A hold that outlasts the wait did not end it: the thread went on although this was held, so it did not wait for it.
//! Only where the wait itself never ends can a hold that is never released be what it waits for.

use hashbrown::HashMap;
use timeline::{NameId, Ns, Timeline, TrackId, Wait};

/// A track kept others waiting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Held {
    pub track: TrackId,
    /// The later of its hold and its creation.
    pub from: Ns,
    pub to: Ns,
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
        for hold in &timeline.holds {
            let created = timeline.tracks.get(hold.track).created.map_or(Ns::MIN, |(at, _)| at);
            let from = hold.from.max(created);
            if from < hold.to {
                topics.entry(hold.topic).or_default().held.push(Held { track: hold.track, from, to: hold.to });
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
    /// held it.
    pub fn blame(&self, wait: &Wait, topic: NameId, from: Ns, to: Ns) -> Vec<(Option<TrackId>, Ns, Ns)> {
        let mut blame = Vec::new();
        let mut at = to;
        if let Some(topic) = self.0.get(&topic) {
            let mut below = topic.held.partition_point(|h| h.to <= wait.woken);
            while let Some(i) = topic.last(below, at).filter(|&i| at > from && topic.held[i].to > from) {
                below = i;
                let held = topic.held[i];
                if held.track == wait.track {
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
}

impl Topic {
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
