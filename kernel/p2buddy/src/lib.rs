//! A frame allocator for kernels: blocks of 2ⁿ frames, in constant time for any number of frames.
//!
//! The kernel has a [`Record`] of two words for each frame. While a frame is in use, its record holds the kernel's
//! reference count. While it is free, the same words link it into the list of its block's size. So the allocator's only
//! memory is a table of list heads. Allocating takes the smallest block that is large enough and splits it. Freeing merges
//! a block with its free neighbours. Both take at most one step per order, and each step touches a bounded number of
//! records.
//!
//! ```
//! use p2buddy::{Buddy, Record};
//!
//! let records: Vec<Record> = (0..4096).map(|_| Record::new()).collect();
//! let mut frames: Buddy = Buddy::new(&records, 0)?;
//! frames.add(16..1000)?;            // the memory map has holes
//! frames.add(2048..4096)?;
//!
//! let block = frames.allocate(3).expect("8 frames in one piece");
//! records[block].acquire();         // mapped once
//! assert!(frames.free(block, 3).is_err());
//! records[block].release();
//! frames.free(block, 3)?;
//! # Ok::<(), p2buddy::Error>(())
//! ```
//!
//! The kernel provides locking ([`Buddy`] takes `&mut`), clears frames, and provides memory for the records, all zeros at
//! first. Records are atomic: the kernel may change a count at any time while the frame is in use.
//!
//! The method is that of Redox's `p2buddy` (Lorentzon, *Significant performance and correctness improvements to the
//! kernel*, 2024), which Linux and FreeBSD have in other forms.

#![no_std]
#![forbid(unsafe_code)]

mod lists;
mod ranges;
mod record;
mod walk;

pub use ranges::frames_in;
pub use record::Record;
pub use walk::Broken;

use core::fmt;
use core::ops::Range;
use lists::Lists;
use ranges::Ranges;
use record::State;

/// Largest number of orders: a record has four bits for the order.
pub const ORDERS_MAX: usize = 15;

/// An allocator of frames by number, in blocks of 2⁰ to 2^(`ORDERS` − 1) frames. Zones are counted from the lowest
/// addresses. `RANGES` is the largest number of pieces of memory with holes between them.
#[derive(Debug)]
pub struct Buddy<'a, const ORDERS: usize = 11, const ZONES: usize = 1, const RANGES: usize = 64> {
    records: &'a [Record],
    /// Number of the frame of the first record.
    first: usize,
    /// The end of each zone but the last, as an index of `records`.
    borders: [usize; ZONES],
    zones: [Lists<ORDERS>; ZONES],
    ranges: Ranges<RANGES>,
    free: usize,
    /// Number of operations since the last check of all lists, in debug builds.
    unchecked_operations: usize,
}

/// The reason why an operation failed. The allocator is unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The first record's frame, or a zone's border, is not a multiple of the largest block. Or a range of bytes does not
    /// begin and end at a frame's border.
    NotAligned(usize),
    /// The range has no frame, or ends before it begins.
    Empty,
    /// The range of bytes ends beyond the last address.
    Wraps,
    /// Frames of the range have no record.
    NoRecord(Range<usize>),
    /// Frames of the range were added already.
    Overlaps(Range<usize>),
    /// There would be more than this number of ranges with holes between them.
    TooManyRanges(usize),
    /// No block has this order.
    NoSuchOrder(usize),
    /// The frame was never added.
    NotManaged(usize),
    /// No allocated block begins at this frame: it is free already, or was never allocated.
    NotAllocated(usize),
    /// An allocated block of another order begins at the frame.
    OtherOrder {
        /// First frame of the block.
        frame: usize,
        /// Order with which the block was allocated.
        is: usize,
    },
    /// The reference count of the block's first record is not zero.
    InUse(usize),
}

impl<'a, const ORDERS: usize, const RANGES: usize> Buddy<'a, ORDERS, 1, RANGES> {
    /// An allocator with one zone and no frame yet. `records[0]` belongs to the frame `first`, a multiple of the largest
    /// block. Records must be [new](Record::new), which is all zeros.
    pub fn new(records: &'a [Record], first: usize) -> Result<Self, Error> {
        Buddy::with_zones(records, first, [])
    }
}

impl<'a, const ORDERS: usize, const ZONES: usize, const RANGES: usize> Buddy<'a, ORDERS, ZONES, RANGES> {
    const LARGEST: usize = 1 << (ORDERS - 1);
    const ORDERS_FIT: () = assert!(ORDERS > 0 && ORDERS <= ORDERS_MAX && ZONES > 0);

    /// As [`new`](Buddy::new), with several zones. `begin` has the frame numbers at which the second and each further zone
    /// begin. `[4096, 1 << 20]` makes zones below 16 MB, below 4 GB, and above, with frames of 4 KiB. The numbers ascend, and
    /// each is a multiple of the largest block.
    pub fn with_zones<const BORDERS: usize>(
        records: &'a [Record],
        first: usize,
        begin: [usize; BORDERS],
    ) -> Result<Self, Error> {
        const { assert!(BORDERS + 1 == ZONES, "one border fewer than zones") };
        let () = Self::ORDERS_FIT;
        let mut borders = [usize::MAX; ZONES];
        let mut before = 0;
        for (border, begins) in borders.iter_mut().zip(begin) {
            if begins % Self::LARGEST != 0 || begins < before {
                return Err(Error::NotAligned(begins));
            }
            before = begins;
            *border = begins.saturating_sub(first);
        }
        if first % Self::LARGEST != 0 {
            return Err(Error::NotAligned(first));
        }
        Ok(Buddy {
            records,
            first,
            borders,
            zones: [const { Lists::EMPTY }; ZONES],
            ranges: Ranges::new(),
            free: 0,
            unchecked_operations: 0,
        })
    }

    /// Adds free frames, in the fewest and largest blocks possible. Touches one record of each block.
    pub fn add(&mut self, frames: Range<usize>) -> Result<(), Error> {
        if frames.is_empty() {
            return Err(Error::Empty);
        }
        let from = frames.start.checked_sub(self.first).filter(|_| frames.end - self.first <= self.records.len());
        let from = from.ok_or_else(|| Error::NoRecord(frames.clone()))?;
        let to = frames.end - self.first;
        self.ranges.insert(from..to, &frames)?;
        let mut at = from;
        while at < to {
            // The largest aligned block that begins at `at` and ends inside the range.
            let aligned = if at == 0 { usize::BITS } else { at.trailing_zeros() };
            let order = aligned.min((to - at).ilog2()).min(ORDERS as u32 - 1) as usize;
            self.free_block(at, order);
            at += 1 << order;
        }
        self.free += to - from;
        self.check_periodically();
        Ok(())
    }

    /// Allocates 2^`order` frames in the highest zone that has them, and returns the first frame. Returns `None` if there is
    /// no such block.
    pub fn allocate(&mut self, order: usize) -> Option<usize> {
        self.allocate_below(order, ZONES - 1)
    }

    /// As [`allocate`](Buddy::allocate), in this zone or a lower one. A device that cannot reach all memory needs this.
    pub fn allocate_below(&mut self, order: usize, zone: usize) -> Option<usize> {
        let zone = (0..=zone.min(ZONES - 1)).rev().find_map(|z| Some((z, self.zones[z].smallest(order)?)));
        let (zone, mut block_order) = zone?;
        let block = self.zones[zone].pop(self.records, block_order);
        // The upper half goes back to its list, until the block has the right size.
        while block_order > order {
            block_order -= 1;
            self.zones[zone].push(self.records, block + (1 << block_order), block_order);
        }
        self.records[block].set(State::Allocated { order });
        self.free -= 1 << order;
        self.check_periodically();
        Some(block + self.first)
    }

    /// Frees a block, with the order of its allocation. The count of its first record must be zero.
    pub fn free(&mut self, frame: usize, order: usize) -> Result<(), Error> {
        if order >= ORDERS {
            return Err(Error::NoSuchOrder(order));
        }
        let block = frame.checked_sub(self.first).filter(|&block| self.ranges.contain(block));
        let block = block.ok_or(Error::NotManaged(frame))?;
        match self.records[block].state() {
            State::Allocated { order: is } if is != order => return Err(Error::OtherOrder { frame, is }),
            State::Allocated { .. } if self.records[block].count() > 0 => return Err(Error::InUse(frame)),
            State::Allocated { .. } => {}
            State::Free { .. } | State::Inside => return Err(Error::NotAllocated(frame)),
        }
        self.free_block(block, order);
        self.free += 1 << order;
        self.check_periodically();
        Ok(())
    }

    /// Number of free frames.
    pub fn free_frames(&self) -> usize {
        self.free
    }

    /// Number of frames that were added, free or allocated.
    pub fn frames(&self) -> usize {
        self.ranges.frames()
    }

    /// Merges a block with its free neighbours and puts it on its list.
    fn free_block(&mut self, mut block: usize, mut order: usize) {
        let zone = self.zone_of(block);
        while order + 1 < ORDERS {
            let buddy = block ^ (1 << order);
            let is_free = self.records.get(buddy).is_some_and(|record| record.state() == State::Free { order });
            if !is_free {
                break;
            }
            self.zones[zone].unlink(self.records, buddy, order);
            self.records[block.max(buddy)].set(State::Inside);
            block = block.min(buddy);
            order += 1;
        }
        self.zones[zone].push(self.records, block, order);
    }

    fn zone_of(&self, block: usize) -> usize {
        self.borders.iter().take(ZONES - 1).filter(|&&border| block >= border).count()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotAligned(frame) => write!(f, "frame {frame} is no multiple of the largest block"),
            Error::Empty => f.write_str("a range without a frame"),
            Error::Wraps => f.write_str("a range that ends beyond the last address"),
            Error::NoRecord(Range { start, end }) => write!(f, "frames {start} to {end} have no record"),
            Error::Overlaps(Range { start, end }) => write!(f, "frames {start} to {end} were partly added before"),
            Error::TooManyRanges(room) => write!(f, "more than {room} ranges with holes between them"),
            Error::NoSuchOrder(order) => write!(f, "no block has the order {order}"),
            Error::NotManaged(frame) => write!(f, "frame {frame} was never added"),
            Error::NotAllocated(frame) => write!(f, "no allocated block begins at frame {frame}"),
            Error::OtherOrder { frame, is } => write!(f, "the block at frame {frame} was allocated with order {is}"),
            Error::InUse(frame) => write!(f, "frame {frame} is still referenced"),
        }
    }
}

impl core::error::Error for Error {}
