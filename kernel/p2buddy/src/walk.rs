//! Walks over every list and checks the allocator's invariants.

use crate::record::State;
use crate::{Buddy, Record};

/// A broken invariant. Either the allocator has a bug, or the kernel wrote into a free frame's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Broken {
    /// A block on the list of an order is not marked as free with that order.
    NotMarked(usize),
    /// A block's neighbour in its list does not point back at it.
    NotLinkedBack(usize),
    /// A block does not begin at a multiple of its size, or has frames that were never added.
    Misplaced(usize),
    /// A block is on the list of another zone.
    OtherZone(usize),
    /// A block and its buddy are both free, and were not merged.
    NotMerged(usize),
    /// The lists have this number of frames, which differs from the number of free frames.
    Miscounted(usize),
}

impl<const ORDERS: usize, const ZONES: usize, const RANGES: usize> Buddy<'_, ORDERS, ZONES, RANGES> {
    /// Checks every list, in time linear in the number of free blocks. Debug builds run this check automatically. They run it
    /// so rarely that it adds a constant to each operation on average.
    pub fn check(&self) -> Result<(), Broken> {
        let mut frames = 0;
        for zone in 0..ZONES {
            for order in 0..ORDERS {
                let (mut before, mut at) = (None, self.zones[zone].head(order));
                while let Some(block) = at {
                    self.check_block(block, order, zone)?;
                    if before != self.link(self.records[block].previous()) {
                        return Err(Broken::NotLinkedBack(block + self.first));
                    }
                    frames += 1 << order;
                    if frames > self.records.len() {
                        // The list is circular.
                        return Err(Broken::Miscounted(frames));
                    }
                    (before, at) = (at, self.link(self.records[block].next()));
                }
            }
        }
        if frames == self.free { Ok(()) } else { Err(Broken::Miscounted(frames)) }
    }

    fn check_block(&self, block: usize, order: usize, zone: usize) -> Result<(), Broken> {
        let frame = block + self.first;
        let size = 1 << order;
        let is_free = |record: Option<&Record>| record.is_some_and(|r| r.state() == State::Free { order });
        match () {
            () if !is_free(self.records.get(block)) => Err(Broken::NotMarked(frame)),
            () if block % size != 0 || !self.ranges.contain(block) || !self.ranges.contain(block + size - 1) => {
                Err(Broken::Misplaced(frame))
            }
            () if self.zone_of(block) != zone => Err(Broken::OtherZone(frame)),
            () if order + 1 < ORDERS && is_free(self.records.get(block ^ size)) => Err(Broken::NotMerged(frame)),
            () => Ok(()),
        }
    }

    fn link(&self, to: usize) -> Option<usize> {
        Some(to).filter(|&to| to != crate::record::NONE)
    }

    /// Runs [`check`](Buddy::check) in debug builds, after as many operations as the check may take steps.
    pub(crate) fn check_periodically(&mut self) {
        if cfg!(debug_assertions) {
            self.unchecked_operations += 1;
            if self.unchecked_operations > self.free {
                self.unchecked_operations = 0;
                assert_eq!(self.check(), Ok(()), "p2buddy: the free lists are broken");
            }
        }
    }
}
