//! Time that a finding has claimed: a later detector does not find the same again.

use crate::detector::Draft;
use hashbrown::HashMap;
use std::collections::BTreeMap;
use timeline::{Ns, TrackId};

/// A draft is another's word for the same if more of its time than this is claimed.
const SHARE_MAX: f64 = 0.5;

/// Stretches by track and start; none overlaps another.
#[derive(Default)]
pub struct Claimed(HashMap<TrackId, BTreeMap<Ns, Ns>>);

impl Claimed {
    /// Claims a draft's time, unless most of that is claimed already. Whether it did.
    pub fn claim(&mut self, draft: &Draft) -> bool {
        let mut whole = Ns::ZERO;
        let mut free = Vec::new();
        for part in &draft.parts {
            whole += part.stretch.length();
            free.extend(self.free(part.stretch.track, part.stretch.from, part.stretch.to));
        }
        let claimed = whole - free.iter().map(|&(_, from, to)| to - from).sum::<Ns>();
        if claimed.0 as f64 > whole.0 as f64 * SHARE_MAX {
            return false;
        }
        for (track, from, to) in free {
            self.0.entry(track).or_default().insert(from, to);
        }
        true
    }

    /// What of a stretch nobody has claimed.
    fn free(&self, track: TrackId, from: Ns, to: Ns) -> Vec<(TrackId, Ns, Ns)> {
        let Some(claimed) = self.0.get(&track) else { return vec![(track, from, to)] };
        let mut at = claimed.range(..=from).next_back().map_or(from, |(_, &end)| end.max(from));
        let mut free = Vec::new();
        while at < to {
            let next = claimed.range(at..to).next().map_or((to, to), |(&start, &end)| (start, end));
            if at < next.0 {
                free.push((track, at, next.0));
            }
            at = next.1;
        }
        free
    }
}
