//! Walks over a whole arena: lists its segments, and checks its invariants.

use crate::tag::{Kind, NONE, Tag, TagRef};
use crate::{Arena, Counters};

/// Part of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    pub start: u64,
    /// The size; for an allocated segment the requested size.
    pub size: u64,
    pub is_allocated: bool,
}

/// A broken invariant, which means that the arena has a bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Broken {
    /// Neighbours by address do not point at each other, or their addresses do not ascend.
    OutOfOrder(u64),
    /// The segments of the span that begins there do not cover it.
    NotCovered(u64),
    /// A free segment has a free neighbour.
    NotMerged(u64),
    /// A free segment is not on the list of its size.
    NotListed(u64),
    /// Next fit would continue at an unused tag, or skip addresses.
    Rotor,
    /// The hash does not have exactly the allocated segments, each in its bucket.
    Hash,
    /// The counters or the number of tags are wrong.
    Miscounted,
}

impl<S> Arena<'_, S> {
    /// All segments in the order of addresses.
    pub fn segments(&self) -> impl Iterator<Item = Segment> + '_ {
        let segments = self.walk(self.tags.first).filter(|&tag| !self.tags[tag].is_span());
        segments.map(|tag| {
            let tag = &self.tags[tag];
            Segment { start: tag.start, size: tag.size, is_allocated: tag.kind == Kind::Allocated }
        })
    }

    /// Checks all invariants, in time linear in segments, spans and buckets. Debug builds run this check automatically. They
    /// run it so rarely that it adds a constant to each operation on average.
    pub fn check(&self) -> Result<(), Broken> {
        let (mut tags, mut free, mut allocated) = (0, 0, 0);
        let mut counted = Counters::default();
        let (mut before, mut span) = (NONE, None);
        for at in self.walk(self.tags.first) {
            let tag = &self.tags[at];
            tags += 1;
            if tag.before != before || tags > self.tags.total || span.is_none() && !tag.is_span() {
                return Err(Broken::OutOfOrder(tag.start));
            }
            match tag.kind {
                Kind::Unused => return Err(Broken::OutOfOrder(tag.start)),
                Kind::Span { imported } => {
                    self.check_covered(span)?;
                    if span.is_some_and(|(span, _): (&Tag, u64)| span.last() >= tag.start) {
                        return Err(Broken::OutOfOrder(tag.start));
                    }
                    span = Some((tag, 0));
                    counted.mem_total += tag.size;
                    counted.mem_import += if imported { tag.size } else { 0 };
                }
                Kind::Free | Kind::Allocated => {
                    let (span, covered) = span.as_mut().expect("the first tag is a span's");
                    if tag.start != span.start + *covered || tag.size == 0 || tag.start % self.quantum != 0 {
                        return Err(Broken::OutOfOrder(tag.start));
                    }
                    *covered += self.rounded(tag.size);
                    if tag.kind == Kind::Allocated {
                        allocated += 1;
                        counted.mem_inuse += tag.size;
                    } else {
                        free += 1;
                        if before.some().is_some_and(|before| self.tags[before].kind == Kind::Free) {
                            return Err(Broken::NotMerged(tag.start));
                        }
                    }
                }
            }
            before = at;
        }
        self.check_covered(span)?;
        self.check_lists(free)?;
        let rotor_leads =
            |tag: TagRef| self.tags[tag].kind != Kind::Unused && self.tags[tag].start <= self.rotor.address;
        if !self.rotor.tag.some().is_none_or(rotor_leads) {
            return Err(Broken::Rotor);
        }
        if allocated != self.hash.segments || !self.hash.is_whole(&self.tags) {
            return Err(Broken::Hash);
        }
        let Counters { mem_inuse, mem_import, mem_total, alloc, free, .. } = self.counters;
        let sums = (counted.mem_inuse, counted.mem_import, counted.mem_total) == (mem_inuse, mem_import, mem_total);
        let matches = sums && alloc - free == allocated as u64 && tags + self.tags.left == self.tags.total;
        if matches { Ok(()) } else { Err(Broken::Miscounted) }
    }

    fn check_covered(&self, span: Option<(&Tag, u64)>) -> Result<(), Broken> {
        match span {
            Some((span, covered)) if covered != span.size => Err(Broken::NotCovered(span.start)),
            _ => Ok(()),
        }
    }

    /// Checks that `free` segments are on the lists, each once and on the right list.
    fn check_lists(&self, free: usize) -> Result<(), Broken> {
        let mut listed = 0;
        let mut list = self.lists.next_from(0);
        while let Some(here) = list {
            let (mut before, mut at) = (NONE, self.lists.head(here));
            if at.is_none() {
                return Err(Broken::Miscounted);
            }
            while let Some(segment) = at {
                let tag = &self.tags[segment];
                listed += 1;
                let is_right = tag.kind == Kind::Free && tag.size.ilog2() == here && tag.kin_before == before;
                if !is_right || listed > free {
                    return Err(Broken::NotListed(tag.start));
                }
                (before, at) = (segment, tag.kin_after.some());
            }
            list = self.lists.next_from(here + 1);
        }
        if listed == free { Ok(()) } else { Err(Broken::Miscounted) }
    }

    fn walk(&self, from: TagRef) -> impl Iterator<Item = TagRef> + '_ {
        core::iter::successors(from.some(), |&tag| self.tags[tag].after.some())
    }

    /// Runs [`check`](Arena::check) in debug builds, after as many operations as the check takes steps.
    pub(crate) fn check_periodically(&mut self) {
        if cfg!(debug_assertions) {
            self.unchecked_operations += 1;
            if self.unchecked_operations > self.tags.total - self.tags.left + self.hash.buckets() {
                self.unchecked_operations = 0;
                assert_eq!(self.check(), Ok(()), "vmem: the arena is broken");
            }
        }
    }
}
