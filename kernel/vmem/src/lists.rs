//! Lists of free segments. List n has the segments of sizes 2ⁿ to 2ⁿ⁺¹ − 1, the last one freed first.

use crate::tag::{NONE, TagRef, Tags};

#[derive(Debug)]
pub(crate) struct Lists {
    heads: [TagRef; 64],
    /// Bit n is set if list n is not empty.
    nonempty: u64,
}

impl Lists {
    pub(crate) const fn new() -> Self {
        Lists { heads: [NONE; 64], nonempty: 0 }
    }

    /// The first list at `list` or above that is not empty.
    pub(crate) fn next_from(&self, list: u32) -> Option<u32> {
        let large_enough = self.nonempty.checked_shr(list).unwrap_or(0);
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
        self.nonempty |= 1 << list;
    }

    /// Takes a segment out of its list. Its size must be unchanged since it was pushed.
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
            self.nonempty &= !(1 << list);
        }
    }
}
