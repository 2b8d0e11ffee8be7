//! A frame allocator for kernels: blocks of a power of two of frames, in constant time however many frames there are.
//!
//! The kernel keeps a [`Record`] of two words for each frame. While a frame is in use, its record holds the kernel's
//! reference count. While it is free, the same words link it into the list of its block's size, so that the allocator
//! has no memory but a table of list heads. Allocating takes the smallest block that is large enough and splits it;
//! freeing merges it with its free neighbours. Both take as many steps as there are orders, and touch as many records.
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
//! What it leaves to the kernel: locking ([`Buddy`] wants `&mut`; records are atomic, and a count may be changed at any
//! time while the frame is in use), clearing frames, and memory for the records, which is all zeros at first.
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

/// The most orders there can be: a record has four bits for one.
pub const ORDERS_MAX: usize = 15;

/// Frames by number, in blocks of 2⁰ to 2^(`ORDERS` − 1). `ZONES` are counted from the lowest addresses; `RANGES` is how
/// many pieces of memory with holes between them there is room for.
#[derive(Debug)]
pub struct Buddy<'a, const ORDERS: usize = 11, const ZONES: usize = 1, const RANGES: usize = 64> {
    records: &'a [Record],
    /// The number of the frame that the first record stands for.
    first: usize,
    /// Where each zone but the last ends, as an index of `records`.
    borders: [usize; ZONES],
    zones: [Lists<ORDERS>; ZONES],
    ranges: Ranges<RANGES>,
    free: usize,
    /// Operations since all lists were last walked over; of debug builds.
    unwalked: usize,
}

/// What was asked for cannot be: the allocator is as it was before.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The first record's frame, or a zone's border, is no multiple of the largest block.
    NotAligned(usize),
    /// A range of no frames, or one that ends before it begins.
    Empty,
    /// A range of bytes that ends beyond the last address.
    Wraps,
    /// Frames of the range have no record.
    NoRecord(Range<usize>),
    /// Frames of the range were added already.
    Overlaps(Range<usize>),
    /// More ranges, with holes between them, than there is room for.
    TooManyRanges(usize),
    /// No block has this order.
    NoSuchOrder(usize),
    /// The frame was never added.
    NotManaged(usize),
    /// No allocated block begins at this frame: it is free already, or was never allocated.
    NotAllocated(usize),
    /// An allocated block begins there, but one of this order.
    OtherOrder {
        /// The block's first frame.
        frame: usize,
        /// The order it was allocated with.
        is: usize,
    },
    /// The count of the block's first record is not zero.
    InUse(usize),
}

impl<'a, const ORDERS: usize, const RANGES: usize> Buddy<'a, ORDERS, 1, RANGES> {
    /// An allocator with no frame yet, in one zone. `records[0]` stands for the frame `first`, a multiple of the largest
    /// block. Records must be [new](Record::new), that is, all zeros.
    pub fn new(records: &'a [Record], first: usize) -> Result<Self, Error> {
        Buddy::with_zones(records, first, [])
    }
}

impl<'a, const ORDERS: usize, const ZONES: usize, const RANGES: usize> Buddy<'a, ORDERS, ZONES, RANGES> {
    const LARGEST: usize = 1 << (ORDERS - 1);
    const ORDERS_FIT: () = assert!(ORDERS > 0 && ORDERS <= ORDERS_MAX && ZONES > 0);

    /// As [`new`](Buddy::new), with the frame numbers at which the second zone and each further one begin: `[4096,
    /// 1 << 20]` for below 16 MB, below 4 GB, and the rest, with frames of 4 KiB. They ascend, and each is a multiple of the
    /// largest block.
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
            unwalked: 0,
        })
    }

    /// Makes frames free: as few and as large blocks as they can be. Touches one record in each.
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
            // The largest block that begins here, is aligned, and ends inside.
            let aligned = if at == 0 { usize::BITS } else { at.trailing_zeros() };
            let order = aligned.min((to - at).ilog2()).min(ORDERS as u32 - 1) as usize;
            self.free_block(at, order);
            at += 1 << order;
        }
        self.free += to - from;
        self.walk_now_and_then();
        Ok(())
    }

    /// The first of 2^`order` free frames, in the highest zone that has them; none if there is no such block.
    pub fn allocate(&mut self, order: usize) -> Option<usize> {
        self.allocate_below(order, ZONES - 1)
    }

    /// As [`allocate`](Buddy::allocate), in this zone or a lower one: what a device needs that cannot reach all memory.
    pub fn allocate_below(&mut self, order: usize, zone: usize) -> Option<usize> {
        let zone = (0..=zone.min(ZONES - 1)).rev().find_map(|z| Some((z, self.zones[z].smallest(order)?)));
        let (zone, mut found) = zone?;
        let block = self.zones[zone].pop(self.records, found);
        // What is not needed goes back, half by half.
        while found > order {
            found -= 1;
            self.zones[zone].push(self.records, block + (1 << found), found);
        }
        self.records[block].set(State::Allocated { order });
        self.free -= 1 << order;
        self.walk_now_and_then();
        Some(block + self.first)
    }

    /// Gives a block back, as it was allocated. Its first record's count must be zero.
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
        self.walk_now_and_then();
        Ok(())
    }

    /// How many frames are free.
    pub fn free_frames(&self) -> usize {
        self.free
    }

    /// How many frames were added, free or not.
    pub fn frames(&self) -> usize {
        self.ranges.frames()
    }

    /// Puts a block on its list, merged with whatever neighbours are free.
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
