//! A hash of the allocated segments by address: buckets with chains, the newest segment first in its chain.
//!
//! The table begins with 16 buckets inside the arena. It grows and shrinks only when the caller updates it. Until then the
//! chains grow and shrink instead.

use crate::tag::{Kind, NONE, TagRef, Tags};

/// Smallest number of buckets, and the number at first.
pub(crate) const MIN_BUCKETS: usize = 16;

/// The first element of a chain. The caller provides memory for
/// [`Arena::wanted_buckets`](crate::Arena::wanted_buckets) buckets.
#[derive(Clone, Debug)]
pub struct Bucket(TagRef);

impl Bucket {
    /// An empty bucket.
    pub const fn new() -> Bucket {
        Bucket(NONE)
    }
}

impl Default for Bucket {
    fn default() -> Self {
        Bucket::new()
    }
}

#[derive(Debug)]
pub(crate) struct Hash<'a> {
    first: [Bucket; MIN_BUCKETS],
    /// The table in use instead of `first`.
    larger: Option<&'a mut [Bucket]>,
    /// A power of two.
    buckets: usize,
    /// log2 of the arena's quantum.
    quantum_bits: u32,
    pub(crate) segments: usize,
}

impl<'a> Hash<'a> {
    pub(crate) const fn new(quantum_bits: u32) -> Self {
        let first = [const { Bucket::new() }; MIN_BUCKETS];
        Hash { first, larger: None, buckets: MIN_BUCKETS, quantum_bits, segments: 0 }
    }

    /// illumos' hash function. Let b be the number of bits of a bucket's number. The function adds the address, the address
    /// shifted right by b, and the address shifted right by 2 b. Then it takes b bits of the sum, from the quantum's bit
    /// upwards.
    fn bucket_of(&self, address: u64) -> usize {
        let bits = self.buckets.ilog2();
        let mixed = address.wrapping_add(address >> bits).wrapping_add(address.checked_shr(2 * bits).unwrap_or(0));
        (mixed >> self.quantum_bits) as usize & (self.buckets - 1)
    }

    fn table(&mut self) -> &mut [Bucket] {
        match &mut self.larger {
            Some(larger) => larger,
            None => &mut self.first,
        }
    }

    fn head(&self, bucket: usize) -> TagRef {
        self.larger.as_deref().unwrap_or(&self.first)[bucket].0
    }

    fn push(&mut self, tags: &mut Tags, tag: TagRef) {
        let bucket = self.bucket_of(tags[tag].start);
        tags[tag].kin_after = core::mem::replace(&mut self.table()[bucket].0, tag);
    }

    pub(crate) fn insert(&mut self, tags: &mut Tags, tag: TagRef) {
        self.push(tags, tag);
        self.segments += 1;
    }

    /// Takes out the segment that begins at `address` if it has this size. If it has another size, returns that size as the
    /// error. Counts the segments before it in the chain.
    ///
    /// Never inlined, so that a debugger's stack shows this function during a slow free.
    #[inline(never)]
    pub(crate) fn delete(
        &mut self,
        tags: &mut Tags,
        address: u64,
        size: u64,
        passed: &mut u64,
    ) -> Option<Result<TagRef, u64>> {
        let (mut before, mut at) = (NONE, self.head(self.bucket_of(address)));
        while at != NONE {
            let tag = &tags[at];
            if tag.start == address {
                return Some(if tag.size == size { Ok(self.remove(tags, before, at)) } else { Err(tag.size) });
            }
            *passed += 1;
            (before, at) = (at, tag.kin_after);
        }
        None
    }

    /// Takes a segment out of its chain. `before` is the segment before it in the chain, or `NONE`.
    fn remove(&mut self, tags: &mut Tags, before: TagRef, tag: TagRef) -> TagRef {
        let after = tags[tag].kin_after;
        match before.some() {
            Some(before) => tags[before].kin_after = after,
            None => {
                let bucket = self.bucket_of(tags[tag].start);
                self.table()[bucket].0 = after;
            }
        }
        self.segments -= 1;
        tag
    }

    /// The number of buckets that suits the number of segments. `None` if the present number is within a factor of two of
    /// it.
    pub(crate) fn wanted(&self) -> Option<usize> {
        // A quarter of the next power of two above 3 n + 4, which gives 3/4 to 3/2 buckets for each segment.
        let bits = (3 * self.segments as u64 + 4).ilog2() + 1;
        let wanted = MIN_BUCKETS.max(1 << (bits - 2));
        let near = (self.buckets / 2..=self.buckets * 2).contains(&wanted);
        (!near).then_some(wanted)
    }

    /// Moves all segments into this number of buckets, in the given table. Without a table, the number is
    /// [`MIN_BUCKETS`] and the buckets are those inside the arena. Returns the table that is no longer used.
    pub(crate) fn rescale(
        &mut self,
        tags: &mut Tags,
        buckets: usize,
        table: Option<&'a mut [Bucket]>,
    ) -> Option<&'a mut [Bucket]> {
        let old_buckets = core::mem::replace(&mut self.buckets, buckets);
        let mut old = match table {
            Some(table) => {
                table[..buckets].fill(Bucket::new());
                self.larger.replace(table)
            }
            None => self.larger.take(),
        };
        let mut first = [const { Bucket::new() }; MIN_BUCKETS];
        core::mem::swap(&mut first, &mut self.first);
        let chains = old.as_deref_mut().unwrap_or(&mut first);
        for chain in &mut chains[..old_buckets] {
            let mut at = chain.0;
            while at != NONE {
                let next = tags[at].kin_after;
                self.push(tags, at);
                at = next;
            }
        }
        old
    }

    /// True if every chain has only allocated segments of its bucket, and if the chains together have all segments.
    pub(crate) fn is_whole(&self, tags: &Tags) -> bool {
        let mut chained = 0;
        for bucket in 0..self.buckets {
            let mut at = self.head(bucket);
            while at != NONE {
                chained += 1;
                let tag = &tags[at];
                if tag.kind != Kind::Allocated || self.bucket_of(tag.start) != bucket || chained > self.segments {
                    return false;
                }
                at = tag.kin_after;
            }
        }
        chained == self.segments
    }

    pub(crate) fn buckets(&self) -> usize {
        self.buckets
    }
}
