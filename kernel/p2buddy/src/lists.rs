//! The free blocks of a zone: a list for each order, linked in both directions through the blocks' first records.

use crate::record::{NONE, Record, State};

#[derive(Debug)]
pub(crate) struct Lists<const ORDERS: usize> {
    /// The first block of each list.
    heads: [usize; ORDERS],
    /// Bit k is set if the list of order k is not empty.
    nonempty: u16,
}

impl<const ORDERS: usize> Lists<ORDERS> {
    pub(crate) const EMPTY: Self = Lists { heads: [NONE; ORDERS], nonempty: 0 };

    /// The smallest order at `order` or above that has a block.
    pub(crate) fn smallest(&self, order: usize) -> Option<usize> {
        let large_enough = u32::from(self.nonempty).checked_shr(order as u32).unwrap_or(0);
        (large_enough != 0).then(|| order + large_enough.trailing_zeros() as usize)
    }

    /// The first block of an order's list, if the list has one.
    pub(crate) fn head(&self, order: usize) -> Option<usize> {
        Some(self.heads[order]).filter(|&head| head != NONE)
    }

    /// Puts a block at the front of its list.
    pub(crate) fn push(&mut self, records: &[Record], block: usize, order: usize) {
        let next = core::mem::replace(&mut self.heads[order], block);
        let record = &records[block];
        record.set(State::Free { order });
        record.set_next(next);
        record.set_previous(NONE);
        if next != NONE {
            records[next].set_previous(block);
        }
        self.nonempty |= 1 << order;
    }

    /// Takes the first block of a list that is not empty.
    pub(crate) fn pop(&mut self, records: &[Record], order: usize) -> usize {
        let block = self.heads[order];
        self.unlink(records, block, order);
        block
    }

    /// Takes a block out of its list. Its record is unchanged.
    pub(crate) fn unlink(&mut self, records: &[Record], block: usize, order: usize) {
        let (next, previous) = (records[block].next(), records[block].previous());
        if next != NONE {
            records[next].set_previous(previous);
        }
        match previous {
            NONE => self.heads[order] = next,
            previous => records[previous].set_next(next),
        }
        if self.heads[order] == NONE {
            self.nonempty &= !(1 << order);
        }
    }
}
