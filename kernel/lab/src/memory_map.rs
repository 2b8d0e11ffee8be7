//! The memory of the machine, and its free part.
//!
//! The firmware's map (E820, as PVH hands it over) is a list of ranges with a type. It is not sorted, its ranges may overlap,
//! and it may have empty entries (microvm's map ends with one). Usable memory may contain the kernel and the initrd, which are
//! cut out. The boot information was copied before (`boot.rs`). Memory below 1 MiB is left to the firmware and to the code
//! that wakes application processors.

use core::ops::Range;

/// Size of a page frame.
pub const FRAME_BYTES: u64 = 4096;
/// Largest number of entries of a map that are read.
pub const REGIONS_MAX: usize = 64;
/// Type of usable memory in an E820 map.
pub const USABLE: u32 = 1;
const LOW_MEMORY_END: u64 = 1 << 20;

/// A range of physical memory, as the firmware describes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Region {
    /// Address of the first byte.
    pub from: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Type: [`USABLE`], or another value for memory that is not usable.
    pub kind: u32,
}

impl Region {
    /// Addresses of its whole frames above low memory.
    fn frames(&self) -> Range<u64> {
        let from = self.from.checked_next_multiple_of(FRAME_BYTES).unwrap_or(u64::MAX).max(LOW_MEMORY_END);
        let to = self.from.saturating_add(self.bytes) / FRAME_BYTES * FRAME_BYTES;
        from..to.max(from)
    }
}

/// Calls `each` with every stretch of whole frames that is usable and not in `taken`, in the order of the map. If two usable
/// regions overlap, `each` gets the common part twice.
pub fn free_ranges(map: &[Region], taken: &[Range<u64>], mut each: impl FnMut(Range<u64>)) {
    let unusable = |region: &&Region| region.kind != USABLE && region.bytes > 0;
    for region in map.iter().filter(|region| region.kind == USABLE) {
        let mut rest = region.frames();
        while !rest.is_empty() {
            // The nearest stretch that is not free.
            let not_free = map.iter().filter(unusable).map(|r| r.from..r.from.saturating_add(r.bytes));
            let next = not_free
                .chain(taken.iter().cloned())
                .filter(|range| range.end > rest.start && !range.is_empty())
                .min_by_key(|range| range.start)
                .unwrap_or(rest.end..rest.end);
            let until = (next.start / FRAME_BYTES * FRAME_BYTES).min(rest.end);
            if until > rest.start {
                each(rest.start..until);
            }
            rest.start =
                next.end.checked_next_multiple_of(FRAME_BYTES).unwrap_or(rest.end).max(rest.start + FRAME_BYTES);
        }
    }
}

/// End of the highest usable memory.
pub fn end_of_memory(map: &[Region]) -> u64 {
    map.iter().filter(|region| region.kind == USABLE).map(|region| region.frames().end).max().unwrap_or(0)
}

/// The existing memory, without holes, as the page structures count it.
///
/// An array with a structure for each address would grow with PCI's hole below 4 GiB. As with FreeBSD's
/// `VM_PHYSSEG_SPARSE`, a frame's place in the array is the number of memory frames below it.
#[derive(Clone, Debug)]
pub struct Ram {
    /// Ranges of frame numbers, ascending and disjoint.
    ranges: [Range<u64>; REGIONS_MAX],
    count: usize,
}

impl Ram {
    /// No memory.
    pub const NONE: Ram = Ram { ranges: [const { 0..0 }; REGIONS_MAX], count: 0 };

    /// The usable memory of a map, whose regions may be in any order. Memory in two regions counts once. Stretches after the
    /// first [`REGIONS_MAX`] are ignored.
    pub fn of(map: &[Region]) -> Ram {
        let mut ram = Ram::NONE;
        free_ranges(map, &[], |range| {
            if ram.count < REGIONS_MAX {
                ram.ranges[ram.count] = range.start / FRAME_BYTES..range.end / FRAME_BYTES;
                ram.count += 1;
            }
        });
        ram.ranges[..ram.count].sort_unstable_by_key(|range| range.start);
        // A common part of two stretches is removed from the later one, which may become empty.
        let mut end = 0;
        for range in &mut ram.ranges[..ram.count] {
            *range = range.start.max(end)..range.end.max(end);
            end = range.end;
        }
        ram
    }

    /// Number of frames.
    pub fn frames(&self) -> u64 {
        self.place_of(u64::MAX)
    }

    /// The place of a frame in the array: the number of memory frames below it.
    pub fn place_of(&self, frame: u64) -> u64 {
        let below = |range: &Range<u64>| range.end.min(frame).saturating_sub(range.start);
        self.ranges[..self.count].iter().map(below).sum()
    }

    /// Calls `each` with each stretch of the frames at these places, and with the place of the stretch's first frame.
    pub fn for_each_stretch(&self, places: Range<u64>, mut each: impl FnMut(Range<u64>, u64)) {
        let mut first = 0;
        for range in &self.ranges[..self.count] {
            let frames = range.end - range.start;
            let from = places.start.clamp(first, first + frames);
            let to = places.end.clamp(from, first + frames);
            if from < to {
                each(range.start + (from - first)..range.start + (to - first), from);
            }
            first += frames;
        }
    }
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "lists of ranges, and some have one")]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn check(map: &[(u64, u64, u32)], taken: &[Range<u64>], free: &[Range<u64>]) {
        let map: Vec<Region> = map.iter().map(|&(from, bytes, kind)| Region { from, bytes, kind }).collect();
        let mut ranges = Vec::new();
        free_ranges(&map, taken, |range| ranges.push(range));
        assert_eq!(ranges, free);
    }

    #[test]
    fn taken_memory_is_cut_out() {
        check(&[(0, 64 * MIB, 1)], &[2 * MIB..3 * MIB], &[MIB..2 * MIB, 3 * MIB..64 * MIB]);
        check(&[(0, 4 * MIB, 1)], &[0..9 * MIB], &[]);
        check(&[(MIB, MIB, 1)], &[MIB + 1..MIB + 2], &[MIB + 4096..2 * MIB]);
        check(&[(MIB, MIB, 1)], &[MIB..MIB + 4096, 2 * MIB - 1..3 * MIB], &[MIB + 4096..2 * MIB - 4096]);
    }

    #[test]
    fn low_memory_and_partial_frames_are_left_alone() {
        check(&[(0, 0x9fc00, 1), (MIB + 1, 8191, 1)], &[], &[MIB + 4096..MIB + 8192]);
    }

    #[test]
    fn reserved_memory_inside_usable_memory_is_cut_out_too() {
        check(&[(MIB, 4 * MIB, 1), (2 * MIB, MIB, 2), (0, 0, 2)], &[], &[MIB..2 * MIB, 3 * MIB..5 * MIB]);
    }

    #[test]
    fn a_map_of_nonsense_ends() {
        check(&[(u64::MAX - 5, u64::MAX, 1), (0, 0, 1), (5 * MIB, u64::MAX, 2)], &[u64::MAX..u64::MAX], &[]);
        assert_eq!(end_of_memory(&[]), 0);
    }

    #[test]
    fn holes_have_no_place() {
        // QEMU's `pc` with 4 GiB: 3 GiB below the hole, 1 GiB above.
        let usable = |from, bytes| Region { from, bytes, kind: USABLE };
        let (gib, frames) = (1 << 30, (1 << 30) / FRAME_BYTES);
        let ram = Ram::of(&[usable(4 * gib, gib), usable(0, 3 * gib)]);
        let low = LOW_MEMORY_END / FRAME_BYTES;
        assert_eq!(ram.frames(), 4 * frames - low);
        assert_eq!(ram.place_of(4 * frames), 3 * frames - low);
        let mut stretches = Vec::new();
        ram.for_each_stretch(3 * frames - low - 2..3 * frames - low + 5, |frames, place| {
            stretches.push((frames, place))
        });
        let last = 3 * frames - 2..3 * frames;
        assert_eq!(stretches, [(last, 3 * frames - low - 2), (4 * frames..4 * frames + 5, 3 * frames - low)]);
        assert_eq!(Ram::of(&[]).frames(), 0);
    }

    proptest::proptest! {
        #[test]
        fn places_are_the_usable_frames_in_order(
            map in proptest::collection::vec((0u64..64, 0u64..64, 1u32..3), 0..8),
            from in 0u64..80,
            count in 0u64..80,
        ) {
            let map: Vec<Region> = map
                .iter()
                .map(|&(at, len, kind)| Region { from: MIB + at * FRAME_BYTES, bytes: len * FRAME_BYTES, kind })
                .collect();
            let mut frames = std::collections::BTreeSet::new();
            free_ranges(&map, &[], |range| frames.extend(range.start / FRAME_BYTES..range.end / FRAME_BYTES));
            let ram = Ram::of(&map);
            proptest::prop_assert_eq!(ram.frames(), frames.len() as u64);
            let mut visited = Vec::new();
            ram.for_each_stretch(from..from + count, |frames, place| visited.extend(frames.zip(place..)));
            let expected: Vec<(u64, u64)> =
                frames.into_iter().zip(0..).skip(from as usize).take(count as usize).collect();
            proptest::prop_assert_eq!(&visited, &expected);
            for (frame, place) in visited {
                proptest::prop_assert_eq!(ram.place_of(frame), place);
            }
        }

        #[test]
        fn free_is_usable_and_not_taken(
            map in proptest::collection::vec((0u64..64, 0u64..64, 1u32..3), 0..8),
            taken in proptest::collection::vec((0u64..64, 0u64..8), 0..4),
        ) {
            // In units of half a frame, so that partial frames occur.
            let half = FRAME_BYTES / 2;
            let map: Vec<Region> =
                map.iter().map(|&(at, len, kind)| Region { from: MIB + at * half, bytes: len * half, kind }).collect();
            let taken: Vec<_> = taken.iter().map(|&(at, len)| MIB + at * half..MIB + (at + len) * half).collect();
            let mut free = Vec::new();
            free_ranges(&map, &taken, |range| free.push(range));
            for frame in (MIB..MIB + 80 * FRAME_BYTES).step_by(FRAME_BYTES as usize) {
                let here = frame..frame + FRAME_BYTES;
                let touches = |r: &Range<u64>| r.start < here.end && r.end > here.start && !r.is_empty();
                let range = |r: &Region| r.from..r.from + r.bytes;
                let usable = map.iter().any(|r| r.kind == 1 && r.from <= here.start && here.end <= r.from + r.bytes);
                let blocked = map.iter().any(|r| r.kind != 1 && touches(&range(r))) || taken.iter().any(touches);
                proptest::prop_assert_eq!(free.iter().any(touches), usable && !blocked, "{:x?}", here);
            }
        }
    }
}
