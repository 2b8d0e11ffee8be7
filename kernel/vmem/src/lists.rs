//! Free segments: list n has those of 2ⁿ to 2ⁿ⁺¹ − 1, the one freed last in front.

use crate::tag::{NONE, TagRef, Tags};

#[derive(Debug)]
pub(crate) struct Lists {
    heads: [TagRef; 64],
    /// Bit n: list n is not empty.
    some: u64,
}

impl Lists {
    pub(crate) const fn new() -> Self {
        Lists { heads: [NONE; 64], some: 0 }
    }

    /// The first list from this one on that is not empty.
    pub(crate) fn next_from(&self, list: u32) -> Option<u32> {
        let large_enough = self.some.checked_shr(list).unwrap_or(0);
        (large_enough != 0).then(|| list + large_enough.trailing_zeros())
    }

    pub(crate) fn head(&self, list: u32) -> Option<TagRef> {
        self.heads[list as usize].some()
    }

    pub(crate) fn push(&mut self, tags: &mut Tags, tag: TagRef) {
        let list = tags[tag].size.ilog2();
        let next = core::mem::replace(&mut self.heads[list as usize], tag);
        tags[tag].kin_before = NONE;
        tags[tag].kin_after = next;
        if let Some(next) = next.some() {
            tags[next].kin_before = tag;
        }
        self.some |= 1 << list;
    }

    /// Takes a segment out. Its size is still the one that it was put in with.
    pub(crate) fn remove(&mut self, tags: &mut Tags, tag: TagRef) {
        let list = tags[tag].size.ilog2();
        let (before, after) = (tags[tag].kin_before, tags[tag].kin_after);
        match before.some() {
            Some(before) => tags[before].kin_after = after,
            None => self.heads[list as usize] = after,
        }
        if let Some(after) = after.some() {
            tags[after].kin_before = before;
        }
        if self.heads[list as usize] == NONE {
            self.some &= !(1 << list);
        }
    }
}
