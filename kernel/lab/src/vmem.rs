//! An arena of addresses: who has which, in a hash of allocated segments, as illumos' vmem keeps it.
//!
//! A segment is found by its address when it is given back, along the chain of its bucket. The hash begins with 16
//! buckets and grows only when somebody calls [`Arena::rescale`], so that a million segments in it make chains of
//! sixty thousand. New segments are put in front, and a driver gives back in the order in which it took: each search goes
//! to the end of its chain. [`Arena::steps`] counts what illumos counts as `vk_lookup`.

/// What follows their number where the kernel prints it.
pub const CHAIN_STEPS: &str = " chain steps";

/// How many chain steps a boot printed, of its first driver that did.
pub fn printed_steps(console: &str) -> Option<u64> {
    let number = console.lines().find_map(|line| line.trim_end().strip_suffix(CHAIN_STEPS))?;
    number.rsplit(' ').next()?.parse().ok()
}

/// No segment.
const NONE: u32 = u32::MAX;
/// So many buckets at first, and at least.
const BUCKETS_FIRST: usize = 16;
const ALIGN: u64 = 4096;

/// An allocated segment, or a place for one.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    address: u64,
    next: u32,
}

impl Segment {
    /// A place.
    pub const UNUSED: Segment = Segment { address: 0, next: NONE };
}

/// Addresses from a base on, and the segments that are allocated. Its memory is the caller's.
#[derive(Debug)]
pub struct Arena<'a> {
    segments: &'a mut [Segment],
    /// The first segment of each bucket; as many are used as `buckets` says.
    heads: &'a mut [u32],
    buckets: usize,
    /// The first place that is not used.
    unused: u32,
    next_address: u64,
    in_use: usize,
    steps: u64,
}

impl<'a> Arena<'a> {
    /// An arena with room for as many segments as are given, and that many buckets at most.
    ///
    /// # Panics
    /// With less than 16 buckets.
    pub fn new(base: u64, segments: &'a mut [Segment], heads: &'a mut [u32]) -> Arena<'a> {
        assert!(heads.len() >= BUCKETS_FIRST, "Arena::new: {} buckets", heads.len());
        let count = segments.len() as u32;
        for (segment, next) in segments.iter_mut().zip(1..) {
            *segment = Segment { address: 0, next: if next < count { next } else { NONE } };
        }
        heads.fill(NONE);
        let unused = if count == 0 { NONE } else { 0 };
        Arena { segments, heads, buckets: BUCKETS_FIRST, unused, next_address: base, in_use: 0, steps: 0 }
    }

    /// Addresses that nobody has; none if there is no place left for the segment. Constant time.
    pub fn allocate(&mut self, bytes: u64) -> Option<u64> {
        let place = self.unused;
        let segment = self.segments.get_mut(place as usize)?;
        self.unused = segment.next;
        segment.address = self.next_address;
        self.next_address += bytes.next_multiple_of(ALIGN);
        let address = segment.address;
        self.put_in_front(place);
        self.in_use += 1;
        Some(address)
    }

    /// Gives a segment back; false if none begins there. As long as its bucket's chain.
    pub fn free(&mut self, address: u64) -> bool {
        let bucket = self.bucket_of(address);
        let (mut before, mut at) = (NONE, self.heads[bucket]);
        while at != NONE && self.segments[at as usize].address != address {
            (before, at) = (at, self.segments[at as usize].next);
            self.steps += 1;
        }
        let Some(segment) = self.segments.get_mut(at as usize) else { return false };
        let next = core::mem::replace(&mut segment.next, self.unused);
        match before {
            NONE => self.heads[bucket] = next,
            before => self.segments[before as usize].next = next,
        }
        self.unused = at;
        self.in_use -= 1;
        true
    }

    /// Makes the hash as large as there are segments, if it is too small or too large by more than a factor of two.
    pub fn rescale(&mut self) {
        let fitting = self.in_use.next_power_of_two().clamp(BUCKETS_FIRST, self.heads.len());
        if (self.buckets / 2..=self.buckets * 2).contains(&fitting) {
            return;
        }
        let old = core::mem::replace(&mut self.buckets, fitting);
        // All into one chain, then from that into the new buckets.
        let mut chain = NONE;
        for bucket in 0..old {
            let mut at = core::mem::replace(&mut self.heads[bucket], NONE);
            while at != NONE {
                let next = core::mem::replace(&mut self.segments[at as usize].next, chain);
                (chain, at) = (at, next);
            }
        }
        while chain != NONE {
            let next = self.segments[chain as usize].next;
            self.put_in_front(chain);
            chain = next;
        }
    }

    /// How many segments are allocated.
    pub fn in_use(&self) -> usize {
        self.in_use
    }

    /// How many segments were passed in chains that were not the one looked for.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    fn put_in_front(&mut self, place: u32) {
        let bucket = self.bucket_of(self.segments[place as usize].address);
        self.segments[place as usize].next = core::mem::replace(&mut self.heads[bucket], place);
    }

    fn bucket_of(&self, address: u64) -> usize {
        let page = address / ALIGN;
        (page + (page >> 8) + (page >> 16)) as usize % self.buckets
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn chains_are_as_long_as_published_until_the_hash_grows() {
        const COUNT: usize = 4096;
        let steps = |grows: bool| {
            let (mut segments, mut heads) = ([Segment::UNUSED; COUNT], [0; COUNT]);
            let mut arena = Arena::new(1 << 40, &mut segments, &mut heads);
            let all: Vec<u64> = (0..COUNT).map(|_| arena.allocate(2048).unwrap()).collect();
            assert_eq!(arena.allocate(1), None);
            if grows {
                arena.rescale();
            }
            all.into_iter().for_each(|address| assert!(arena.free(address)));
            (arena.steps(), arena.in_use())
        };
        // illumos: 917 504 segments in 16 buckets were 27 606 301 196 steps; half a chain each.
        let slow = steps(false);
        assert_eq!(slow, ((COUNT * (COUNT / 16 - 1) / 2) as u64, 0));
        // And 228 351 when the hash grew in time, a quarter of a step each. Consecutive addresses collide less: only
        // where the page's higher digits carry them past the last bucket.
        assert!(steps(true).0 < COUNT as u64 / 100, "{:?}", steps(true));
    }

    #[test]
    fn printed_steps_are_found() {
        let console = "em0: 525400123456, 25675776 chain steps\r\nem1: 525400123457, 7 chain steps\n";
        assert_eq!(printed_steps(console), Some(25_675_776));
        assert_eq!((printed_steps("em0: many chain steps"), printed_steps("")), (None, None));
    }

    #[test]
    fn what_was_not_allocated_is_not_freed() {
        let (mut segments, mut heads) = ([Segment::UNUSED; 2], [0; 16]);
        let mut arena = Arena::new(0, &mut segments, &mut heads);
        let address = arena.allocate(1).unwrap();
        assert!(!arena.free(address + 4096) && arena.free(address) && !arena.free(address));
    }

    proptest::proptest! {
        #[test]
        fn as_a_set_of_addresses_would(steps in proptest::collection::vec((0u8..8, 0usize..64), 1..300)) {
            let (mut segments, mut heads) = ([Segment::UNUSED; 100], [0; 64]);
            let (mut arena, mut model) = (Arena::new(0, &mut segments, &mut heads), BTreeSet::new());
            for (what, at) in steps {
                match what {
                    0..=4 => {
                        let address = arena.allocate(4096 * (1 + at as u64 % 3));
                        proptest::prop_assert_eq!(address.is_some(), model.len() < 100);
                        proptest::prop_assert!(address.is_none_or(|address| model.insert(address)));
                    }
                    5 => arena.rescale(),
                    _ => {
                        let Some(address) = model.iter().nth(at).copied() else { continue };
                        proptest::prop_assert!(model.remove(&address) && arena.free(address));
                    }
                }
                proptest::prop_assert_eq!(arena.in_use(), model.len());
            }
        }
    }
}
