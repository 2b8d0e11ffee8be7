//! Allocated segments by address: buckets of chains, the newest segment in front of its chain.
//!
//! The table begins with 16 buckets inside the arena. It grows and shrinks only where the caller says so: until then the
//! chains do.

use crate::tag::{Kind, NONE, TagRef, Tags};

/// So many buckets at first, and at least.
pub(crate) const BUCKETS_FIRST: usize = 16;

/// The head of a chain. The caller gives memory for as many as [`Arena::wanted_buckets`](crate::Arena::wanted_buckets)
/// says.
#[derive(Clone, Debug)]
pub struct Bucket(TagRef);

impl Bucket {
    /// A bucket with nothing in it.
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
    first: [Bucket; BUCKETS_FIRST],
    /// In use instead of `first`.
    larger: Option<&'a mut [Bucket]>,
    /// A power of two.
    buckets: usize,
    /// log2 of the arena's quantum.
    quantum_bits: u32,
    pub(crate) segments: usize,
}

impl<'a> Hash<'a> {
    pub(crate) const fn new(quantum_bits: u32) -> Self {
        let first = [const { Bucket::new() }; BUCKETS_FIRST];
        Hash { first, larger: None, buckets: BUCKETS_FIRST, quantum_bits, segments: 0 }
    }

    /// The sum of the address, the address shifted right by the bits of a bucket's number, and the address shifted right by twice
    /// as many: of that sum, as many bits from the quantum's upwards. This is illumos' function.
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

    /// Takes out the segment that begins there, if it has this size, or says which size it has. Counts each segment that is
    /// passed. It is a function of its own in the kernel, because it is what a debugger's stack has to show of a slow free.
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

    /// Takes a segment out of its chain, in which another one is before it, or none.
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

    /// How many buckets suit what is allocated, if those there are do not by more than a factor of two.
    pub(crate) fn wanted(&self) -> Option<usize> {
        // A quarter of the next power of two above 3 n + 4: from 3/4 to 3/2 of a bucket for each segment.
        let bits = (3 * self.segments as u64 + 4).ilog2() + 1;
        let wanted = BUCKETS_FIRST.max(1 << (bits - 2));
        let near = (self.buckets / 2..=self.buckets * 2).contains(&wanted);
        (!near).then_some(wanted)
    }

    /// Spreads all segments over as many buckets, in the table given or, if they are as few as at first, in the own one.
    /// Returns the table that is not used any more.
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
        let mut first = [const { Bucket::new() }; BUCKETS_FIRST];
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

    /// Whether every chain has only allocated segments of its bucket, and all chains together as many as there are.
    pub(crate) fn is_whole(&self, tags: &Tags) -> bool {
        let mut found = 0;
        for bucket in 0..self.buckets {
            let mut at = self.head(bucket);
            while at != NONE {
                found += 1;
                let tag = &tags[at];
                if tag.kind != Kind::Allocated || self.bucket_of(tag.start) != bucket || found > self.segments {
                    return false;
                }
                at = tag.kin_after;
            }
        }
        found == self.segments
    }

    pub(crate) fn buckets(&self) -> usize {
        self.buckets
    }
}
