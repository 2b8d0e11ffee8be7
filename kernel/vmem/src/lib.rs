//! An arena of addresses for kernels: it records which parts of a range are allocated, and finds space for allocations.
//!
//! An [`Arena`] has *spans*: ranges that are added to it or imported from a source arena. A span is cut into *segments*,
//! each allocated or free. Two free neighbours are always merged. An arena allocates by instant fit, best fit or next fit.
//! A [`Request`] can require an alignment, a phase, boundaries that must not be crossed, and limits. Freeing finds the
//! segment in a hash.
//!
//! ```
//! use vmem::{Arena, Error, Request, Tag};
//!
//! let mut tags: Vec<Tag> = (0..64).map(|_| Tag::new()).collect();
//! let mut heap = Arena::new(4096)?;
//! heap.add_tags(&mut tags)?;
//! heap.add(0xffff_d000_0000_0000, 1 << 30)?;
//!
//! let buffer = heap.allocate(&Request::new(2048))?;
//! let table = heap.allocate(&Request::new(0x8000).aligned(0x10_0000))?;
//! heap.free(buffer, 2048)?;
//! assert_eq!(heap.free(buffer, 2048), Err(Error::NotAllocated(buffer)));
//! assert_eq!(heap.free(table, 4096), Err(Error::OtherSize { address: table, is: 0x8000 }));
//! # Ok::<(), vmem::Error>(())
//! ```
//!
//! The kernel provides:
//!
//! * Memory. A [`Tag`] stands for each span and each segment. A kernel boots with a static set of tags and adds more with
//!   [`Arena::add_tags`]. An operation that needs more tags than are left fails and changes nothing.
//! * Updates of the hash. It has 16 buckets until the kernel calls [`Arena::update`]; illumos' `vmem_update` runs every 15
//!   seconds. Without that call the chains grow, and with them the time of each [`Arena::free`].
//! * Locking. Every operation that changes the arena takes `&mut`.
//! * Waiting. On [`Error::WouldBlock`] the caller should wait. The hook of [`Arena::on_space`] wakes it.
//!
//! There are no quantum caches, which hold freed segments of small sizes for each CPU.
//!
//! The method is that of Bonwick and Adams, *Magazines and Vmem: Extending the Slab Allocator to Many CPUs and Arbitrary
//! Resources* (USENIX 2001). The hash function is that of illumos, so that the chains have the same length as illumos'.

#![no_std]
#![forbid(unsafe_code)]

mod error;
mod find;
mod hash;
mod lists;
mod request;
mod source;
mod tag;
mod walk;

pub use error::Error;
pub use hash::Bucket;
pub use request::{Fit, Request};
pub use source::{NoSource, Source};
pub use tag::{PIECES_MAX, Tag};
pub use walk::{Broken, Segment};

use core::fmt;
use find::Rotor;
use hash::Hash;
use lists::Lists;
use tag::{Kind, NONE, TagRef, Tags};

/// Hook of the kernel that wakes the threads waiting for space. It must not use the arena, whose lock is held.
type Wake<'a> = &'a (dyn Fn() + Sync);

/// A set of addresses, or of any other numbers.
pub struct Arena<'a, S = NoSource> {
    /// A power of two. Every segment begins at a multiple of it.
    quantum: u64,
    tags: Tags<'a>,
    lists: Lists,
    hash: Hash<'a>,
    /// The span at the highest addresses.
    last_span: TagRef,
    rotor: Rotor,
    source: S,
    /// Smallest size of an import.
    min_import: u64,
    on_space: Option<Wake<'a>>,
    /// True if an allocation returned [`Error::WouldBlock`] since the last call of the hook.
    has_waiters: bool,
    counters: Counters,
    /// Number of operations since the last check of the whole arena, in debug builds.
    unchecked_operations: usize,
}

/// Counters of an arena, with the names of illumos' kstats.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Allocated size, as requested.
    pub mem_inuse: u64,
    /// Size of the imported spans.
    pub mem_import: u64,
    /// Size of all spans.
    pub mem_total: u64,
    /// Number of segments allocated.
    pub alloc: u64,
    /// Number of segments freed.
    pub free: u64,
    /// Number of allocations that returned [`Error::WouldBlock`].
    pub wait: u64,
    /// Number of allocations that failed for lack of space or tags.
    pub fail: u64,
    /// Chain steps: the number of segments that frees passed in hash chains before the right one.
    pub lookup: u64,
    /// Number of segments that allocations examined and did not take.
    pub search: u64,
    /// Number of operations that failed for lack of tags.
    pub populate_fail: u64,
}

impl<'a> Arena<'a> {
    /// An arena without a span. It hands out addresses in multiples of the quantum, which is a power of two.
    pub const fn new(quantum: u64) -> Result<Self, Error> {
        if !quantum.is_power_of_two() {
            return Err(Error::NotPowerOfTwo(quantum));
        }
        Ok(Arena::with(quantum, NoSource, 0))
    }
}

impl<'a, S: Source> Arena<'a, S> {
    /// An arena that imports spans when it has no space, at least `min_import` at a time. It returns a span to the source as
    /// soon as all of the span is free. It does not import for a request with limits or boundaries, because the source does
    /// not get these.
    pub fn importing(quantum: u64, source: S, min_import: u64) -> Result<Self, Error> {
        if !quantum.is_power_of_two() {
            return Err(Error::NotPowerOfTwo(quantum));
        }
        let source_quantum = source.quantum().unwrap_or(quantum);
        if !source_quantum.is_power_of_two() || source_quantum < quantum {
            return Err(Error::NotAligned(source_quantum));
        }
        Ok(Arena::with(quantum, source, min_import))
    }
}

impl<'a, S> Arena<'a, S> {
    const fn with(quantum: u64, source: S, min_import: u64) -> Self {
        Arena {
            quantum,
            tags: Tags::new(),
            lists: Lists::new(),
            hash: Hash::new(quantum.trailing_zeros()),
            last_span: NONE,
            rotor: Rotor::START,
            source,
            min_import,
            on_space: None,
            has_waiters: false,
            counters: Counters {
                mem_inuse: 0,
                mem_import: 0,
                mem_total: 0,
                alloc: 0,
                free: 0,
                wait: 0,
                fail: 0,
                lookup: 0,
                search: 0,
                populate_fail: 0,
            },
            unchecked_operations: 0,
        }
    }

    /// Gives the arena a piece of memory for tags, at most [`PIECES_MAX`] times. If each piece is as large as all earlier
    /// pieces together, the limit is never reached. The arena touches the memory only when it needs it.
    pub fn add_tags(&mut self, piece: &'a mut [Tag]) -> Result<(), Error> {
        if self.tags.give(piece) { Ok(()) } else { Err(Error::TooManyPieces) }
    }

    /// Number of unused tags. An allocation needs at most two, and one that imports at most four.
    pub fn tags_left(&self) -> usize {
        self.tags.left
    }

    /// Number of all tags, used and unused.
    pub fn tags(&self) -> usize {
        self.tags.total
    }

    /// Sets the hook that the arena calls when there may be space for waiting callers. All of them may try again.
    pub fn on_space(&mut self, wake: Wake<'a>) {
        self.on_space = Some(wake);
    }

    /// Adds a span. It passes the spans at higher addresses, so adding spans in ascending order takes constant time each.
    pub fn add(&mut self, start: u64, size: u64) -> Result<(), Error> {
        let added = self.add_span(start, size, false);
        self.finish(added).map(|_| self.wake())
    }

    /// Frees a whole segment, by its address and its requested size. The number of steps is the number of segments before it
    /// in its hash chain.
    pub fn free(&mut self, address: u64, size: u64) -> Result<(), Error>
    where
        S: Source,
    {
        let tag = match self.hash.delete(&mut self.tags, address, size, &mut self.counters.lookup) {
            Some(Ok(tag)) => tag,
            Some(Err(is)) => return Err(Error::OtherSize { address, is }),
            None if self.has(address) => return Err(Error::NotAllocated(address)),
            None => return Err(Error::NotManaged(address)),
        };
        self.counters.free += 1;
        self.counters.mem_inuse -= size;
        let free = self.merge(tag);
        match self.imported_span_of(free) {
            Some(span) => {
                let (start, size) = (self.tags[span].start, self.tags[span].size);
                self.remove_span(span, free);
                self.source.give_back(start, size);
            }
            None => self.lists.push(&mut self.tags, free),
        }
        self.wake();
        self.check_periodically();
        Ok(())
    }

    /// The number of buckets that the hash should have: the size of the table that [`update`](Arena::update) needs. `None` if
    /// the present number is within a factor of two of it.
    pub fn wanted_buckets(&self) -> Option<usize> {
        self.hash.wanted()
    }

    /// Number of buckets of the hash.
    pub fn buckets(&self) -> usize {
        self.hash.buckets()
    }

    /// Does the periodic work: wakes waiting callers, and moves the hash into a table of the right size. The table must have
    /// at least [`wanted_buckets`](Arena::wanted_buckets) buckets; for 16 buckets no table is needed. Without a large enough
    /// table the hash stays unchanged. Returns the table that is no longer used.
    pub fn update(&mut self, table: Option<&'a mut [Bucket]>) -> Option<&'a mut [Bucket]> {
        self.wake();
        match (self.hash.wanted(), table) {
            (Some(buckets), Some(table)) if table.len() >= buckets => {
                self.hash.rescale(&mut self.tags, buckets, Some(table))
            }
            (Some(hash::MIN_BUCKETS), None) => self.hash.rescale(&mut self.tags, hash::MIN_BUCKETS, None),
            (_, table) => table,
        }
    }

    /// The counters so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// True if a span contains this address.
    pub fn has(&self, address: u64) -> bool {
        self.span_at_or_below(address).is_some_and(|span| address <= self.tags[span].last())
    }

    /// Adds a span with one free segment, and returns the segment.
    fn add_span(&mut self, start: u64, size: u64, imported: bool) -> Result<TagRef, Error> {
        if size == 0 {
            return Err(Error::Empty);
        }
        let last = start.checked_add(size - 1).ok_or(Error::Wraps)?;
        if (start | size) & (self.quantum - 1) != 0 {
            return Err(Error::NotAligned(start | size));
        }
        let below = self.span_at_or_below(last);
        if below.is_some_and(|below| self.tags[below].last() >= start) {
            return Err(Error::Overlaps { start, size });
        }
        let mem_total = self.counters.mem_total.checked_add(size).ok_or(Error::Wraps)?;
        if self.tags.left < 2 {
            return Err(Error::NoTags);
        }
        let span = self.tags.take(start, size, Kind::Span { imported });
        self.link_span(below, span);
        let free = self.tags.take(start, size, Kind::Free);
        self.tags.link(Some(span), free);
        self.lists.push(&mut self.tags, free);
        self.counters.mem_total = mem_total;
        if imported {
            self.counters.mem_import += size;
        }
        Ok(free)
    }

    /// The last span that begins at this address or below it.
    fn span_at_or_below(&self, address: u64) -> Option<TagRef> {
        let mut span = self.last_span;
        while span != NONE && self.tags[span].start > address {
            span = self.tags[span].kin_before;
        }
        span.some()
    }

    /// Links a span into the list of spans, and its tag behind the segments of the span below.
    fn link_span(&mut self, below: Option<TagRef>, span: TagRef) {
        let above = match below {
            Some(below) => core::mem::replace(&mut self.tags[below].kin_after, span),
            None => self.tags.first,
        };
        let before = match above.some() {
            Some(above) => {
                core::mem::replace(&mut self.tags[above].kin_before, span).some().map(|_| self.tags[above].before)
            }
            None => core::mem::replace(&mut self.last_span, span).some().map(|_| self.tags.last),
        };
        self.tags[span].kin_before = below.unwrap_or(NONE);
        self.tags[span].kin_after = above;
        self.tags.link(before, span);
    }

    /// Removes a span that consists of one free segment, which is on no list.
    fn remove_span(&mut self, span: TagRef, free: TagRef) {
        let Tag { size, kin_before, kin_after, .. } = self.tags[span];
        if let Some(before) = kin_before.some() {
            self.tags[before].kin_after = kin_after;
        }
        match kin_after.some() {
            Some(after) => self.tags[after].kin_before = kin_before,
            None => self.last_span = kin_before,
        }
        self.release(free);
        self.release(span);
        self.counters.mem_total -= size;
        self.counters.mem_import -= size;
    }

    /// Marks a segment as free and merges it with its free neighbours. The segment is in no chain. Returns the tag of the
    /// merged segment, which is on no list yet.
    fn merge(&mut self, tag: TagRef) -> TagRef {
        self.tags[tag].kind = Kind::Free;
        self.tags[tag].size = self.rounded(self.tags[tag].size);
        let after = self.tags[tag].after.some().filter(|&after| self.tags[after].kind == Kind::Free);
        if let Some(after) = after {
            self.lists.remove(&mut self.tags, after);
            self.tags[tag].size += self.tags[after].size;
            self.release(after);
        }
        let before = self.tags[tag].before.some().filter(|&before| self.tags[before].kind == Kind::Free);
        let Some(before) = before else { return tag };
        self.lists.remove(&mut self.tags, before);
        self.tags[before].size += self.tags[tag].size;
        self.release(tag);
        before
    }

    /// The span of a free segment, if the span was imported and the segment is all of it.
    fn imported_span_of(&self, free: TagRef) -> Option<TagRef> {
        let Tag { before, after, .. } = self.tags[free];
        let is_imported = self.tags[before].kind == Kind::Span { imported: true };
        let is_all = after.some().is_none_or(|after| self.tags[after].is_span());
        (is_imported && is_all).then_some(before)
    }

    /// Releases a tag that is no longer needed.
    fn release(&mut self, tag: TagRef) {
        self.rotor.leave(tag, self.tags[tag].before);
        self.tags.release(tag);
    }

    /// Rounds an allocated size up to the quantum. It cannot overflow, because the rounded size was allocated.
    fn rounded(&self, size: u64) -> u64 {
        size.next_multiple_of(self.quantum)
    }

    /// Calls the hook if callers wait.
    fn wake(&mut self) {
        if core::mem::take(&mut self.has_waiters) {
            if let Some(wake) = self.on_space {
                wake();
            }
        }
    }

    /// Counts a failure for lack of tags, and checks the arena in debug builds.
    fn finish<T>(&mut self, result: Result<T, Error>) -> Result<T, Error> {
        if matches!(result, Err(Error::NoTags)) {
            self.counters.populate_fail += 1;
        }
        self.check_periodically();
        result
    }
}

impl<S> fmt::Debug for Arena<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Arena { quantum, tags, hash, counters, .. } = self;
        let mut shown = f.debug_struct("Arena");
        shown.field("quantum", quantum).field("buckets", &hash.buckets()).field("tags_left", &tags.left);
        shown.field("counters", counters).finish_non_exhaustive()
    }
}
