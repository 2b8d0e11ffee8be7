//! Time that findings have claimed: a later detector does not report it again.

use crate::detector::{Draft, Part};
use hashbrown::HashMap;
use std::collections::BTreeMap;
use timeline::{Ns, TrackId};

/// A draft reports a known cause again if more than this part of the time that it saves is claimed.
const MAX_CLAIMED_SHARE: f64 = 0.5;

/// Stretches by track and start; they are not empty and do not overlap.
#[derive(Default)]
pub struct Claimed(HashMap<TrackId, BTreeMap<Ns, Ns>>);

impl Claimed {
    /// Claims a draft's time, unless most of its saving is claimed already. Returns true if it did. A part that saves nothing is evidence:
    /// it counts only in a draft that has no other parts. If it also has a purpose, it is only listed, and not claimed.
    pub fn claim(&mut self, draft: &Draft) -> bool {
        let is_evidence_alone = !draft.saves();
        let counts = |part: &&Part| part.saves() || is_evidence_alone;
        let whole = Claimed::by(draft.parts.iter().filter(counts));
        let length: Ns = whole.stretches().map(|(_, from, to)| to - from).sum();
        let free_time =
            |(track, from, to)| self.free(track, from, to).into_iter().map(|(from, to)| to - from).sum::<Ns>();
        let free: Ns = whole.stretches().map(free_time).sum();
        if (length - free).0 as f64 > length.0 as f64 * MAX_CLAIMED_SHARE {
            return false;
        }
        let claims = |part: &&Part| part.saves() || part.stretch.purpose.is_empty();
        Claimed::by(draft.parts.iter().filter(claims))
            .stretches()
            .for_each(|(track, from, to)| self.add(track, from, to));
        true
    }

    /// The stretches of these parts. Parts may overlap: a call, and another one within it.
    fn by<'p>(parts: impl IntoIterator<Item = &'p Part>) -> Claimed {
        let mut claimed = Claimed::default();
        parts.into_iter().for_each(|Part { stretch, .. }| claimed.add(stretch.track, stretch.from, stretch.to));
        claimed
    }

    /// Claims the free parts of a stretch.
    fn add(&mut self, track: TrackId, from: Ns, to: Ns) {
        self.free(track, from, to).into_iter().for_each(|(from, to)| self.insert(track, from, to));
    }

    /// Claims a free stretch, and joins it with its neighbours, so that many adjacent small ones are found at once.
    fn insert(&mut self, track: TrackId, from: Ns, mut to: Ns) {
        let all = self.0.entry(track).or_default();
        if let Some(end) = all.remove(&to) {
            to = end;
        }
        match all.range_mut(..from).next_back() {
            Some((_, end)) if *end == from => *end = to,
            _ => drop(all.insert(from, to)),
        }
    }

    fn stretches(&self) -> impl Iterator<Item = (TrackId, Ns, Ns)> + '_ {
        self.0.iter().flat_map(|(&track, all)| all.iter().map(move |(&from, &to)| (track, from, to)))
    }

    /// The unclaimed parts of a stretch. They are never empty: an empty part would be found again at its start for ever.
    fn free(&self, track: TrackId, from: Ns, to: Ns) -> Vec<(Ns, Ns)> {
        let nothing = BTreeMap::new();
        let claimed = self.0.get(&track).unwrap_or(&nothing);
        let mut at = claimed.range(..=from).next_back().map_or(from, |(_, &end)| end.max(from));
        let mut free = Vec::new();
        while at < to {
            let next = claimed.range(at..to).next().map_or((to, to), |(&start, &end)| (start, end));
            if at < next.0 {
                free.push((at, next.0));
            }
            at = next.1;
        }
        free
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Remedy;
    use crate::detector::{Left, Part};
    use crate::facts::{Confidence, Stretch};
    use timeline::NameId;

    fn draft(stretches: &[(u32, i64, i64)]) -> Draft {
        let named: Vec<Named> = stretches.iter().map(|&(track, from, to)| (track, from, to, true)).collect();
        with_evidence(&named)
    }

    /// A track, a start, an end, and true if that time is saved.
    type Named = (u32, i64, i64, bool);

    fn with_evidence(named: &[Named]) -> Draft {
        let part = |&(track, from, to, is_saved): &Named| {
            let (name, detail) = (NameId::EMPTY, NameId::EMPTY);
            let stretch = Stretch { track: TrackId(track), from: Ns(from), to: Ns(to), name, detail, purpose: "" };
            Part { stretch, left: if is_saved { Left::NOTHING } else { Left::ALL } }
        };
        Draft {
            about: (NameId::EMPTY, NameId::EMPTY),
            figures: Vec::new(),
            parts: named.iter().map(part).collect(),
            confidence: Confidence::High,
            remedy: Remedy::code("nothing"),
        }
    }

    #[test]
    fn what_takes_no_time_claims_nothing() {
        let mut claimed = Claimed::default();
        assert!(claimed.claim(&draft(&[(0, 5, 5)])));
        // Its start is within the next stretch, which then never ended.
        assert!(claimed.claim(&draft(&[(0, 0, 10)])));
        // An empty stretch at the start of the next one hid that one.
        let mut claimed = Claimed::default();
        assert!(claimed.claim(&draft(&[(0, 0, 10), (0, 0, 0)])));
        assert!(!claimed.claim(&draft(&[(0, 0, 10)])));
    }

    #[test]
    fn what_a_draft_names_twice_counts_once() {
        let mut claimed = Claimed::default();
        assert!(claimed.claim(&draft(&[(0, 0, 10), (0, 2, 8)])));
        assert!(claimed.claim(&draft(&[(0, 4, 20), (0, 12, 20), (0, 12, 20)])), "6 of 16 are claimed");
        assert!(!claimed.claim(&draft(&[(0, 0, 20)])));
        assert!(claimed.claim(&draft(&[(1, 0, 20)])), "another track's");
    }

    #[test]
    fn evidence_that_saves_nothing_makes_nothing_new() {
        let mut claimed = Claimed::default();
        assert!(claimed.claim(&draft(&[(0, 0, 10)])));
        assert!(!claimed.claim(&with_evidence(&[(0, 0, 10, true), (1, 0, 10, false)])), "the same, sold twice");
        assert!(claimed.claim(&with_evidence(&[(0, 0, 10, false), (1, 0, 10, true)])), "what it saves is new");
        assert!(!claimed.claim(&with_evidence(&[(0, 0, 10, false)])), "nothing else says what it is about");
    }

    #[test]
    fn a_part_that_is_only_listed_is_not_claimed() {
        let mut claimed = Claimed::default();
        let mut draft = with_evidence(&[(0, 0, 10, true), (0, 10, 20, false)]);
        draft.parts[1].stretch.purpose = "left out";
        assert!(claimed.claim(&draft) && claimed.claim(&with_evidence(&[(0, 10, 20, true)])));
    }

    fn drafts() -> impl proptest::strategy::Strategy<Value = Vec<Vec<Named>>> {
        let named = (0u32..2, 0i64..40, 0i64..40, proptest::bool::ANY);
        proptest::collection::vec(proptest::collection::vec(named, 0..6), 0..8)
    }

    proptest::proptest! {
        #[test]
        fn each_instant_is_claimed_once_and_by_the_first_draft(drafts in drafts()) {
            let mut claimed = Claimed::default();
            let mut model = [[false; 40]; 2];
            for named in drafts {
                let (mut own, mut counts) = ([[false; 40]; 2], [[false; 40]; 2]);
                let saves = named.iter().any(|&(.., is_saved)| is_saved);
                for &(track, from, to, is_saved) in &named {
                    (from..to).for_each(|at| own[track as usize][at as usize] = true);
                    (from..to).for_each(|at| counts[track as usize][at as usize] |= is_saved || !saves);
                }
                let instants = || (0..2).flat_map(|track| (0..40).map(move |at| (track, at)));
                let whole = instants().filter(|&(track, at)| counts[track][at]).count();
                let taken = instants().filter(|&(track, at)| counts[track][at] && model[track][at]).count();
                let is_new = taken as f64 <= whole as f64 * MAX_CLAIMED_SHARE;
                proptest::prop_assert_eq!(claimed.claim(&with_evidence(&named)), is_new, "{:?}", named);
                if is_new {
                    instants().for_each(|(track, at)| model[track][at] |= own[track][at]);
                }
                let mut covered = [[0; 40]; 2];
                for (track, from, to) in claimed.stretches() {
                    proptest::prop_assert!(from < to);
                    (from.0..to.0).for_each(|at| covered[track.0 as usize][at as usize] += 1);
                }
                for (track, at) in instants() {
                    proptest::prop_assert_eq!(covered[track][at], i32::from(model[track][at]));
                }
            }
        }
    }
}
