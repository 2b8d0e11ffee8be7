//! A zone's free blocks: a list for each order, linked in both directions through the blocks' first records.

use crate::record::{NONE, Record, State};

/// The first block of each list, and which lists have any.
#[derive(Debug)]
pub(crate) struct Lists<const ORDERS: usize> {
    heads: [usize; ORDERS],
    /// Bit k: the list of order k is not empty.
    some: u16,
}

impl<const ORDERS: usize> Lists<ORDERS> {
    pub(crate) const EMPTY: Self = Lists { heads: [NONE; ORDERS], some: 0 };

    /// The smallest order with a block that is at least this large.
    pub(crate) fn smallest(&self, order: usize) -> Option<usize> {
        let large_enough = u32::from(self.some).checked_shr(order as u32).unwrap_or(0);
        (large_enough != 0).then(|| order + large_enough.trailing_zeros() as usize)
    }

    /// The first block of an order's list, if it has one.
    pub(crate) fn head(&self, order: usize) -> Option<usize> {
        Some(self.heads[order]).filter(|&head| head != NONE)
    }

    /// Puts a block in front.
    pub(crate) fn push(&mut self, records: &[Record], block: usize, order: usize) {
        let next = core::mem::replace(&mut self.heads[order], block);
        let record = &records[block];
        record.set(State::Free { order });
        record.set_next(next);
        record.set_previous(NONE);
        if next != NONE {
            records[next].set_previous(block);
        }
        self.some |= 1 << order;
    }

    /// Takes the first block of a list that is not empty.
    pub(crate) fn pop(&mut self, records: &[Record], order: usize) -> usize {
        let block = self.heads[order];
        self.unlink(records, block, order);
        block
    }

    /// Takes a block out of its list. Its record is left as it was.
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
            self.some &= !(1 << order);
        }
    }
}
