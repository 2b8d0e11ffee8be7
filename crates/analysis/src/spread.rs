//! Whose time it was while a span was the innermost: its own, and that of the calls in it that were too short to be spans.
//!
//! The [profile](timeline::Profile) has every call, summed up by path; of each path it also says how much of it lies in
//! spans of that very path. What is beyond that was spent in short calls, and so lies in the innermost span of who made
//! them. From the ends of the tree inwards this gives for each path what its spans hold: its own, and of each path one
//! call longer what has no span there. A stretch in such a span is shared out in these proportions, so that the time of
//! whole spans comes out as it was counted, to the nanosecond, and of parts of them in the mean.
//!
//! Interrupts hang from the bottom of a stack in the profile, wherever they came: what a path's spans hold beyond all that
//! was counted under it is theirs, and is shared out from the bottom.

use crate::chain::Frame;
use hashbrown::HashMap;
use std::hash::Hash;
use timeline::{Children, NameId, NodeId, Ns, Profile, SpanId, Timeline};

/// A profile, ready to share out time.
pub struct Spread<'a> {
    profile: &'a Profile,
    children: Children,
    /// Of each path, what was spent in it and below without lying in spans below it.
    pool: Vec<u64>,
    /// Of each path, the bottom of its stack.
    bottom: Vec<NodeId>,
    /// Of each span, its path, or that of the innermost span around it that has one.
    of_span: Vec<Option<NodeId>>,
    /// The bottom of each track by the track's name.
    of_track: Vec<Option<NodeId>>,
}

/// How much of a path belongs to some others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// Whether all of it does.
    pub is_under: bool,
    /// Of the time while a span of it was the innermost, 0 to 1.
    pub in_spans: f64,
}

/// What follows time on its way through paths.
pub trait Follow {
    /// What is known of some time beside its path.
    type Key: Copy + Eq + Hash;
    /// The key one call further in.
    fn called(&mut self, key: Self::Key, path: NodeId, length: u64) -> Self::Key;
    /// The key of an interrupt of that time.
    fn interrupted(&mut self, key: Self::Key) -> Self::Key;
    /// Time that was spent in a path itself.
    fn own(&mut self, key: Self::Key, path: NodeId, length: u64);
}

impl<'a> Spread<'a> {
    /// Linear in paths and spans; none where calls were not followed.
    pub fn new(timeline: &'a Timeline) -> Option<Spread<'a>> {
        let profile = &timeline.profile;
        if profile.is_empty() {
            return None;
        }
        let mut pool: Vec<u64> = profile.nodes().map(|(_, node)| node.own).collect();
        let mut bottom: Vec<NodeId> = Vec::with_capacity(profile.len());
        for (id, node) in profile.nodes() {
            bottom.push(node.parent.map_or(id, |parent| bottom[parent.index()]));
        }
        for (id, node) in profile.nodes().rev() {
            if let Some(parent) = node.parent {
                let beyond = pool[id.index()].saturating_sub(profile.in_spans(id));
                pool[parent.index()] = pool[parent.index()].saturating_add(beyond);
            }
        }
        let spans = &timeline.spans;
        let mut of_span: Vec<Option<NodeId>> = Vec::with_capacity(spans.len());
        for i in (0..timeline::number(spans.len())).map(SpanId) {
            let around = spans.parent(i).and_then(|parent| of_span[parent.0 as usize]);
            of_span.push(spans.node(i).or(around));
        }
        let bottom_of = |name: NameId| profile.find(None, name);
        let of_track = timeline.tracks.iter().map(|(_, track)| bottom_of(track.name)).collect();
        Some(Spread { profile, children: profile.children(), pool, bottom, of_span, of_track })
    }

    /// The path that a frame is in.
    pub fn path(&self, frame: Frame) -> Option<NodeId> {
        let of_track = || self.of_track[frame.track.0 as usize];
        frame.span.and_then(|span| self.of_span[span.0 as usize]).or_else(of_track)
    }

    /// Of each path, the share of the time in its spans that belongs to some paths or to what they call.
    pub fn share_of(&self, is_one: impl Fn(NodeId) -> bool) -> Vec<Share> {
        let mut under: Vec<bool> = Vec::with_capacity(self.pool.len());
        for (id, node) in self.profile.nodes() {
            under.push(is_one(id) || node.parent.is_some_and(|parent| under[parent.index()]));
        }
        let mut meant: Vec<f64> =
            self.profile.nodes().map(|(id, node)| if under[id.index()] { node.own as f64 } else { 0.0 }).collect();
        for (id, node) in self.profile.nodes().rev() {
            let pool = self.pool[id.index()];
            if let Some(parent) = node.parent.filter(|_| pool > 0) {
                let beyond = pool.saturating_sub(self.profile.in_spans(id));
                meant[parent.index()] += meant[id.index()] * (beyond as f64 / pool as f64);
            }
        }
        let of_own = |id: NodeId| meant[id.index()] / (self.pool[id.index()].max(1) as f64);
        let share = |(id, _): (NodeId, _)| {
            let held = self.profile.in_spans(id).max(1);
            let elsewhere = self.interrupts(id, held) as f64 / held as f64;
            let in_spans = of_own(id) * (1.0 - elsewhere) + of_own(self.bottom[id.index()]) * elsewhere;
            Share { is_under: under[id.index()], in_spans: in_spans.clamp(0.0, 1.0) }
        };
        self.profile.nodes().map(share).collect()
    }

    /// Shares out time that was spent while spans of some paths were the innermost.
    pub fn share<F: Follow>(&self, time: impl IntoIterator<Item = ((NodeId, F::Key), Ns)>, follow: &mut F) {
        let mut at: Vec<Vec<(F::Key, u64)>> = vec![Vec::new(); self.profile.len()];
        for ((path, key), length) in time {
            let length = length.0.max(0).unsigned_abs();
            let elsewhere = self.interrupts(path, length);
            if elsewhere > 0 {
                let key = follow.interrupted(key);
                at[self.bottom[path.index()].index()].push((key, elsewhere));
            }
            at[path.index()].push((key, length - elsewhere));
        }
        self.flow(&mut at, follow);
    }

    /// How much of time in a path's spans went to interrupts.
    fn interrupts(&self, path: NodeId, length: u64) -> u64 {
        let (held, counted) = (self.profile.in_spans(path), self.pool[path.index()]);
        let bottom = self.bottom[path.index()];
        if held <= counted || bottom == path || self.pool[bottom.index()] == 0 {
            return 0;
        }
        part_of(length, held - counted, held)
    }

    /// From the bottoms outwards: each path keeps its own, and hands on the rest.
    fn flow<F: Follow>(&self, at: &mut [Vec<(F::Key, u64)>], follow: &mut F) {
        for (path, node) in self.profile.nodes() {
            let pool = self.pool[path.index()];
            for (key, length) in summed(std::mem::take(&mut at[path.index()])) {
                if length == 0 {
                    continue;
                }
                let mut parts = Parts { length, whole: pool, summed: 0, given: 0 };
                for child in self.children.of(path) {
                    let beyond = self.pool[child.index()].saturating_sub(self.profile.in_spans(child));
                    let part = parts.part(beyond);
                    if part > 0 {
                        let key = follow.called(key, child, part);
                        at[child.index()].push((key, part));
                    }
                }
                debug_assert!(parts.summed.saturating_add(node.own) >= pool);
                if length > parts.given {
                    follow.own(key, path, length - parts.given);
                }
            }
        }
    }
}

/// One entry for each key, in the order in which they first come.
fn summed<K: Copy + Eq + Hash>(list: Vec<(K, u64)>) -> Vec<(K, u64)> {
    if list.len() < 2 {
        return list;
    }
    let mut places: HashMap<K, usize> = HashMap::with_capacity(list.len());
    let mut sums: Vec<(K, u64)> = Vec::with_capacity(list.len());
    for (key, length) in list {
        let place = *places.entry(key).or_insert(sums.len());
        match sums.get_mut(place) {
            Some((_, sum)) => *sum += length,
            None => sums.push((key, length)),
        }
    }
    sums
}

/// A length shared out so that the parts sum to it.
struct Parts {
    length: u64,
    whole: u64,
    summed: u64,
    given: u64,
}

/// The part of a length that `of` is of `whole`, which is not less and not zero.
fn part_of(length: u64, of: u64, whole: u64) -> u64 {
    let part = u128::from(length) * u128::from(of) / u128::from(whole);
    u64::try_from(part).unwrap_or(length)
}

impl Parts {
    fn part(&mut self, share: u64) -> u64 {
        if self.whole == 0 {
            return 0;
        }
        self.summed = self.summed.saturating_add(share).min(self.whole);
        let until = part_of(self.length, self.summed, self.whole);
        let part = until - self.given;
        self.given = until;
        part
    }
}
