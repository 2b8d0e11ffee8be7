//! The frame allocator, which records the free page frames. There are three (`frames=`), so that a boot shows the effect of
//! replacing one by another.
//!
//! `recycle` and `scan` are as slow as described (Lorentzon 2024): both search an array that grows with the frames in use.
//! `p2buddy` is the crate beside this one. Freeing a frame that is not allocated is a caller's error, and is reported.
//! Frames are counted by number (address / 4096).

mod recycle;
mod scan;

pub use recycle::Recycle;
pub use scan::Scan;

use crate::switches;
use p2buddy::{Buddy, Record};

/// The error of freeing a frame that is not allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAllocated {
    /// Number of the frame.
    pub frame: u64,
}

/// One of the allocators. The caller provides its memory, which can lie in the memory that it manages.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one, in a static, before there is a heap")]
pub enum Frames<'a> {
    /// An array of ranges.
    Recycle(Recycle<'a>),
    /// A byte for each frame.
    Scan(Scan<'a>),
    /// Power-of-two blocks.
    P2buddy(Buddy<'a>),
}

/// Number of bytes that an allocator needs for this number of frames.
pub const fn bytes_for(which: switches::Frames, frames: u64) -> u64 {
    let each = match which {
        // In the worst case every second frame is a separate range.
        switches::Frames::Recycle => size_of::<recycle::Piece>() / 2,
        switches::Frames::Scan => size_of::<scan::Usage>(),
        switches::Frames::P2buddy => size_of::<Record>(),
    };
    (frames + 1) * each as u64
}

impl Frames<'_> {
    /// Makes `count` frames from `first` on free. They were not added before, and the allocator has memory for them.
    ///
    /// # Panics
    /// If this does not hold, because then the memory map is wrong.
    pub fn add(&mut self, first: u64, count: u64) {
        match self {
            Frames::Recycle(recycle) => recycle.add(first, count),
            Frames::Scan(scan) => scan.add(first, count),
            Frames::P2buddy(buddy) => buddy
                .add(first as usize..(first + count) as usize)
                .unwrap_or_else(|error| panic!("frames::add: {error}")),
        }
    }

    /// Allocates `count` contiguous frames, and returns the first one.
    pub fn allocate(&mut self, count: u64) -> Option<u64> {
        match self {
            Frames::Recycle(recycle) => recycle.allocate(count),
            Frames::Scan(scan) => scan.allocate(count),
            Frames::P2buddy(buddy) => buddy.allocate(order_of(count)).map(|frame| frame as u64),
        }
    }

    /// Frees frames, in the same pieces as they were allocated.
    pub fn free(&mut self, first: u64, count: u64) -> Result<(), NotAllocated> {
        match self {
            Frames::Recycle(recycle) => recycle.free(first, count),
            Frames::Scan(scan) => scan.free(first, count),
            Frames::P2buddy(buddy) => {
                buddy.free(first as usize, order_of(count)).map_err(|_| NotAllocated { frame: first })
            }
        }
    }

    /// Number of free frames.
    pub fn count(&self) -> u64 {
        match self {
            Frames::Recycle(recycle) => recycle.count(),
            Frames::Scan(scan) => scan.count(),
            Frames::P2buddy(buddy) => buddy.free_frames() as u64,
        }
    }
}

/// Order of the smallest block with at least `count` frames.
fn order_of(count: u64) -> usize {
    count.max(1).next_power_of_two().trailing_zeros() as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const FRAMES: u64 = 256;

    fn each(mut check: impl FnMut(Frames)) {
        let mut pieces = vec![recycle::Piece::default(); FRAMES as usize / 2 + 1];
        check(Frames::Recycle(Recycle::new(&mut pieces)));
        let mut usage = vec![scan::Usage::Free; FRAMES as usize];
        check(Frames::Scan(Scan::new(&mut usage)));
        let records: Vec<Record> = (0..FRAMES).map(|_| Record::new()).collect();
        check(Frames::P2buddy(Buddy::new(&records, 0).unwrap()));
    }

    #[test]
    fn all_frames_come_once_and_come_back() {
        each(|mut frames| {
            assert_eq!(frames.allocate(1), None);
            frames.add(60, 10);
            frames.add(100, 1);
            assert_eq!(frames.count(), 11);
            let all: BTreeSet<u64> = core::iter::from_fn(|| frames.allocate(1)).collect();
            assert_eq!(all, (60..70).chain([100]).collect());
            frames.free(62, 1).unwrap();
            assert_eq!(frames.free(62, 1), Err(NotAllocated { frame: 62 }));
            assert_eq!(frames.free(5, 1), Err(NotAllocated { frame: 5 }));
            assert_eq!(frames.free(FRAMES + 3, 1), Err(NotAllocated { frame: FRAMES + 3 }));
            assert_eq!(frames.allocate(1), Some(62));
        });
    }

    #[test]
    fn several_frames_are_in_one_piece() {
        each(|mut frames| {
            frames.add(8, 4);
            frames.add(16, 16);
            let eight = frames.allocate(8).unwrap();
            assert!((16..=24).contains(&eight), "{eight}");
            assert_eq!(frames.count(), 12);
            assert_eq!(frames.allocate(32), None);
            frames.free(eight, 8).unwrap();
            // `recycle` never joins freed frames with frames that were never allocated.
            let again = frames.allocate(16);
            assert!(again == Some(16) || matches!(frames, Frames::Recycle(_)) && again.is_none(), "{again:?}");
        });
    }

    #[test]
    fn the_allocators_need_the_documented_bytes() {
        assert_eq!(bytes_for(switches::Frames::Recycle, 255), 256 * 8);
        assert_eq!(bytes_for(switches::Frames::Scan, 255), 256);
        assert_eq!(bytes_for(switches::Frames::P2buddy, 255), 256 * 16);
    }

    proptest::proptest! {
        #[test]
        fn as_a_set_of_numbers_would(steps in proptest::collection::vec((0u8..4, 0u64..FRAMES, 1u64..9), 1..300)) {
            each(|mut frames| {
                let (mut added, mut adds) = (BTreeSet::new(), 0);
                let (mut free, mut taken) = (BTreeSet::new(), Vec::new());
                for &(what, at, count) in &steps {
                    match what {
                        0 => {
                            let range = at..(at + count).min(FRAMES);
                            // A memory map has no more ranges than `REGIONS_MAX`.
                            let is_new = range.clone().all(|frame| !added.contains(&frame));
                            if is_new && adds < crate::memory_map::REGIONS_MAX {
                                adds += 1;
                                frames.add(at, range.end - at);
                                added.extend(range.clone());
                                free.extend(range);
                            }
                        }
                        1 | 2 => {
                            let count = if what == 1 { 1 } else { count.next_power_of_two() };
                            let allocated = frames.allocate(count);
                            assert!(allocated.is_some() || count > 1 || free.is_empty());
                            if let Some(first) = allocated {
                                assert!((first..first + count).all(|frame| free.remove(&frame)), "given twice");
                                taken.push((first, count));
                            }
                        }
                        _ if taken.is_empty() => assert!(frames.free(at, 1).is_err()),
                        _ => {
                            let (first, count) = taken.swap_remove(at as usize % taken.len());
                            assert_eq!(frames.free(first, count), Ok(()));
                            assert_eq!(frames.free(first, count), Err(NotAllocated { frame: first }));
                            free.extend(first..first + count);
                        }
                    }
                    assert_eq!(frames.count(), free.len() as u64);
                }
            });
        }
    }
}
