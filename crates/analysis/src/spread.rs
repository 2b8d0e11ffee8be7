//! The owners of the time in which a span was the innermost: the span itself, and calls in it that were too short to be
//! spans.
//!
//! The [profile](timeline::Profile) has every call, summed up by path. It also has the part of each path's time that
//! lies in spans of that very path. The rest was spent in short calls, and so lies in the innermost span of their
//! caller. Therefore the spans of a path hold the path's own time, and the rest of each path one call longer. The rests
//! are calculated from the leaves of the tree inwards. A stretch in such a span is shared out in these proportions. The
//! time of whole spans then agrees with the count, to the nanosecond. The time of parts of spans agrees on average.
//!
//! In the profile, interrupts hang from the bottom of a stack, wherever they occurred. If a path's spans hold more than
//! all that was counted under it, the excess belongs to interrupts. It is shared out from the bottom.

use crate::chain::Frame;
use hashbrown::HashMap;
use std::hash::Hash;
use timeline::{Children, NameId, NodeId, Ns, Profile, SpanId, Timeline};

/// A profile, ready to share out time.
pub struct Spread<'a> {
    profile: &'a Profile,
    children: Children,
    /// Time spent in each path and below that does not lie in spans below it.
    pool: Vec<u64>,
    /// The bottom of each path's stack.
    bottom: Vec<NodeId>,
    /// The path of each span, or that of the innermost span around it that has one.
    span_paths: Vec<Option<NodeId>>,
    /// The bottom for each track, by the track's name.
    track_bottoms: Vec<Option<NodeId>>,
}

/// The part of a path that belongs to some others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// True if all of it does.
    pub is_under: bool,
    /// The share of the time in which a span of it was the innermost, 0 to 1.
    pub in_spans: f64,
}

/// A receiver of time that is shared out along paths.
pub trait Follow {
    /// Data that goes with some time, apart from its path.
    type Key: Copy + Eq + Hash;
    /// Returns the key one call further in.
    fn called(&mut self, key: Self::Key, path: NodeId, length: u64) -> Self::Key;
    /// Returns the key of an interrupt of that time.
    fn interrupted(&mut self, key: Self::Key) -> Self::Key;
    /// Receives time that was spent in a path itself.
    fn own(&mut self, key: Self::Key, path: NodeId, length: u64);
}

impl<'a> Spread<'a> {
    /// Linear in paths and spans. `None` if calls were not followed.
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
        let mut span_paths: Vec<Option<NodeId>> = Vec::with_capacity(spans.len());
        for i in (0..timeline::number(spans.len())).map(SpanId) {
            let around = spans.parent(i).and_then(|parent| span_paths[parent.0 as usize]);
            span_paths.push(spans.node(i).or(around));
        }
        let bottom_of = |name: NameId| profile.find(None, name);
        let track_bottoms = timeline.tracks.iter().map(|(_, track)| bottom_of(track.name)).collect();
        Some(Spread { profile, children: profile.children(), pool, bottom, span_paths, track_bottoms })
    }

    /// Returns the path that a frame is in.
    pub fn path(&self, frame: Frame) -> Option<NodeId> {
        let track_bottoms = || self.track_bottoms[frame.track.0 as usize];
        frame.span.and_then(|span| self.span_paths[span.0 as usize]).or_else(track_bottoms)
    }

    /// Returns, for each path, the share of the time in its spans that belongs to some paths or to what they call.
    /// These are the paths for which `is_one` is true.
    pub fn share_of(&self, is_one: impl Fn(NodeId) -> bool) -> Vec<Share> {
        let mut under: Vec<bool> = Vec::with_capacity(self.pool.len());
        for (id, node) in self.profile.nodes() {
            under.push(is_one(id) || node.parent.is_some_and(|parent| under[parent.index()]));
        }
        let mut matching: Vec<f64> =
            self.profile.nodes().map(|(id, node)| if under[id.index()] { node.own as f64 } else { 0.0 }).collect();
        for (id, node) in self.profile.nodes().rev() {
            let pool = self.pool[id.index()];
            if let Some(parent) = node.parent.filter(|_| pool > 0) {
                let beyond = pool.saturating_sub(self.profile.in_spans(id));
                matching[parent.index()] += matching[id.index()] * (beyond as f64 / pool as f64);
            }
        }
        let share_in_pool = |id: NodeId| matching[id.index()] / (self.pool[id.index()].max(1) as f64);
        let share = |(id, _): (NodeId, _)| {
            let held = self.profile.in_spans(id).max(1);
            let interrupted = self.interrupts(id, held) as f64 / held as f64;
            let in_spans =
                share_in_pool(id) * (1.0 - interrupted) + share_in_pool(self.bottom[id.index()]) * interrupted;
            Share { is_under: under[id.index()], in_spans: in_spans.clamp(0.0, 1.0) }
        };
        self.profile.nodes().map(share).collect()
    }

    /// Shares out time in which spans of these paths were the innermost.
    pub fn share<F: Follow>(&self, time: impl IntoIterator<Item = ((NodeId, F::Key), Ns)>, follow: &mut F) {
        let mut pending: Vec<Vec<(F::Key, u64)>> = vec![Vec::new(); self.profile.len()];
        for ((path, key), length) in time {
            let length = length.0.max(0).unsigned_abs();
            let interrupted = self.interrupts(path, length);
            if interrupted > 0 {
                let key = follow.interrupted(key);
                pending[self.bottom[path.index()].index()].push((key, interrupted));
            }
            pending[path.index()].push((key, length - interrupted));
        }
        self.flow(&mut pending, follow);
    }

    /// Returns the part of the time in a path's spans that went to interrupts.
    fn interrupts(&self, path: NodeId, length: u64) -> u64 {
        let (held, counted) = (self.profile.in_spans(path), self.pool[path.index()]);
        let bottom = self.bottom[path.index()];
        if held <= counted || bottom == path || self.pool[bottom.index()] == 0 {
            return 0;
        }
        part_of(length, held - counted, held)
    }

    /// Passes time on from the bottoms outwards. Each path keeps its own part.
    fn flow<F: Follow>(&self, pending: &mut [Vec<(F::Key, u64)>], follow: &mut F) {
        for (path, node) in self.profile.nodes() {
            let pool = self.pool[path.index()];
            for (key, length) in summed(std::mem::take(&mut pending[path.index()])) {
                if length == 0 {
                    continue;
                }
                let mut parts = Parts { length, whole: pool, summed: 0, handed_out: 0 };
                for child in self.children.of(path) {
                    let beyond = self.pool[child.index()].saturating_sub(self.profile.in_spans(child));
                    let part = parts.part(beyond);
                    if part > 0 {
                        let key = follow.called(key, child, part);
                        pending[child.index()].push((key, part));
                    }
                }
                debug_assert!(parts.summed.saturating_add(node.own) >= pool);
                if length > parts.handed_out {
                    follow.own(key, path, length - parts.handed_out);
                }
            }
        }
    }
}

/// Returns one entry for each key, in order of first appearance.
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

/// A length that is shared out so that the parts sum to it.
struct Parts {
    length: u64,
    whole: u64,
    summed: u64,
    handed_out: u64,
}

/// Returns `length` × `part` / `whole`. `whole` is not zero and not less than `part`.
fn part_of(length: u64, part: u64, whole: u64) -> u64 {
    let quotient = u128::from(length) * u128::from(part) / u128::from(whole);
    u64::try_from(quotient).unwrap_or(length)
}

impl Parts {
    fn part(&mut self, share: u64) -> u64 {
        if self.whole == 0 {
            return 0;
        }
        self.summed = self.summed.saturating_add(share).min(self.whole);
        let until = part_of(self.length, self.summed, self.whole);
        let part = until - self.handed_out;
        self.handed_out = until;
        part
    }
}
