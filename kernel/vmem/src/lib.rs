//! An arena of addresses for kernels: what part of a range is allocated, and to whom it goes next.
//!
//! An [`Arena`] has *spans*, ranges that are added to it or imported from a source arena. A span is cut into *segments*,
//! each allocated or free; two free neighbours are always merged. Allocating is by instant fit, best fit or next fit, and
//! can be bound to an alignment, a phase, boundaries that are not crossed, and limits ([`Request`]). Freeing finds the
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
//! What it leaves to the kernel:
//!
//! * Memory. A [`Tag`] stands for each span and each segment. A kernel boots with a static set of them and gives more with
//!   [`Arena::add_tags`]. An operation that needs more tags than are left fails and changes nothing.
//! * The hash. It has 16 buckets until the kernel calls [`Arena::update`], which illumos' `vmem_update` does every 15
//!   seconds. Without that call the chains grow, and with them the time of each [`Arena::free`].
//! * Locking. All that changes something wants `&mut`.
//! * Waiting. [`Error::WouldBlock`] says that the caller is to wait. The hook of [`Arena::on_space`] wakes it.
//!
//! Quantum caches, which hold freed segments of small sizes for each CPU, are left out.
//!
//! The method is that of Bonwick and Adams, *Magazines and Vmem: Extending the Slab Allocator to Many CPUs and Arbitrary
//! Resources* (USENIX 2001), and the hash function is that of illumos, so that its chains are as long as illumos' are.

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

/// What the kernel does where somebody may have waited for space. It must not use the arena, whose lock is held.
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
    /// At least as much is imported.
    import_least: u64,
    on_space: Option<Wake<'a>>,
    /// Somebody was told to wait since the hook was called last.
    has_waiters: bool,
    counters: Counters,
    /// Operations since everything was last walked over; of debug builds.
    unwalked: usize,
}

/// What an arena counts, by the names that illumos' kstats have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// How much is allocated, as it was asked for.
    pub mem_inuse: u64,
    /// How much of the spans was imported.
    pub mem_import: u64,
    /// How large all spans are.
    pub mem_total: u64,
    /// Segments allocated.
    pub alloc: u64,
    /// Segments freed.
    pub free: u64,
    /// Allocations that were told to wait.
    pub wait: u64,
    /// Allocations that failed for lack of space or tags.
    pub fail: u64,
    /// Segments that were passed in hash chains before the one looked for: chain steps.
    pub lookup: u64,
    /// Segments that an allocation looked at and did not take.
    pub search: u64,
    /// Operations that failed for lack of tags.
    pub populate_fail: u64,
}

impl<'a> Arena<'a> {
    /// An arena without a span. Its addresses are handed out in multiples of the quantum, a power of two.
    pub const fn new(quantum: u64) -> Result<Self, Error> {
        if !quantum.is_power_of_two() {
            return Err(Error::NotPowerOfTwo(quantum));
        }
        Ok(Arena::with(quantum, NoSource, 0))
    }
}

impl<'a, S: Source> Arena<'a, S> {
    /// An arena that imports spans when it has no space, at least `least` at a time, and gives each back as soon as all of
    /// it is free. It does not import for a request with limits or boundaries: the source would not know of them.
    pub fn importing(quantum: u64, source: S, least: u64) -> Result<Self, Error> {
        if !quantum.is_power_of_two() {
            return Err(Error::NotPowerOfTwo(quantum));
        }
        let of_source = source.quantum().unwrap_or(quantum);
        if !of_source.is_power_of_two() || of_source < quantum {
            return Err(Error::NotAligned(of_source));
        }
        Ok(Arena::with(quantum, source, least))
    }
}

impl<'a, S> Arena<'a, S> {
    const fn with(quantum: u64, source: S, import_least: u64) -> Self {
        Arena {
            quantum,
            tags: Tags::new(),
            lists: Lists::new(),
            hash: Hash::new(quantum.trailing_zeros()),
            last_span: NONE,
            rotor: Rotor::START,
            source,
            import_least,
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
            unwalked: 0,
        }
    }

    /// Gives the arena a piece of memory for tags, at most [`PIECES_MAX`] times. Each as large as all before it together
    /// is enough for any number. The memory is not touched before it is needed.
    pub fn add_tags(&mut self, piece: &'a mut [Tag]) -> Result<(), Error> {
        if self.tags.give(piece) { Ok(()) } else { Err(Error::TooManyPieces) }
    }

    /// How many tags are not used. No allocation needs more than two, and one that imports not more than four.
    pub fn tags_left(&self) -> usize {
        self.tags.left
    }

    /// How many tags there are, used or not.
    pub fn tags(&self) -> usize {
        self.tags.total
    }

    /// Sets the hook that is called when there may be space for who was told to wait: all of them may try again.
    pub fn on_space(&mut self, wake: Wake<'a>) {
        self.on_space = Some(wake);
    }

    /// Adds a span. Looks at the spans at higher addresses, so that ascending spans are added in constant time.
    pub fn add(&mut self, start: u64, size: u64) -> Result<(), Error> {
        let added = self.add_span(start, size, false);
        self.finish(added).map(|_| self.wake())
    }

    /// Gives a segment back: all of it, by its address and the size that it was asked for with. Takes as many steps as its
    /// hash chain has segments before it.
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
        self.walk_now_and_then();
        Ok(())
    }

    /// How many buckets the hash should have, if it has too few or too many by more than a factor of two: what
    /// [`update`](Arena::update) wants a table for. None if it is well as it is.
    pub fn wanted_buckets(&self) -> Option<usize> {
        self.hash.wanted()
    }

    /// How many buckets the hash has.
    pub fn buckets(&self) -> usize {
        self.hash.buckets()
    }

    /// What is to be done now and then: wakes who waits, and spreads the hash over the buckets it should have. The table
    /// has at least [`wanted_buckets`](Arena::wanted_buckets); for 16 none is needed. Without one all stays as it is.
    /// Returns the table that is not used any more.
    pub fn update(&mut self, table: Option<&'a mut [Bucket]>) -> Option<&'a mut [Bucket]> {
        self.wake();
        match (self.hash.wanted(), table) {
            (Some(buckets), Some(table)) if table.len() >= buckets => {
                self.hash.rescale(&mut self.tags, buckets, Some(table))
            }
            (Some(hash::BUCKETS_FIRST), None) => self.hash.rescale(&mut self.tags, hash::BUCKETS_FIRST, None),
            (_, table) => table,
        }
    }

    /// What was counted so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Whether a span has this address.
    pub fn has(&self, address: u64) -> bool {
        self.span_at_or_below(address).is_some_and(|span| address <= self.tags[span].last())
    }

    /// A span and the free segment that all of it is.
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

    /// Links a span among the others, and its tag behind the segments of the one below.
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

    /// Takes out a span that is one free segment, which is on no list.
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

    /// Makes a segment that is in no chain free, together with whatever neighbours are. Returns the tag of all of it,
    /// which is on no list yet.
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

    /// The span of a free segment, if it was imported and is all free.
    fn imported_span_of(&self, free: TagRef) -> Option<TagRef> {
        let Tag { before, after, .. } = self.tags[free];
        let is_imported = self.tags[before].kind == Kind::Span { imported: true };
        let is_all = after.some().is_none_or(|after| self.tags[after].is_span());
        (is_imported && is_all).then_some(before)
    }

    /// A tag is not needed any more.
    fn release(&mut self, tag: TagRef) {
        self.rotor.leave(tag, self.tags[tag].before);
        self.tags.release(tag);
    }

    /// A size that was allocated, and so did not overflow.
    fn rounded(&self, size: u64) -> u64 {
        size.next_multiple_of(self.quantum)
    }

    /// Calls the hook, if somebody waits.
    fn wake(&mut self) {
        if core::mem::take(&mut self.has_waiters) {
            if let Some(wake) = self.on_space {
                wake();
            }
        }
    }

    /// Counts what failed.
    fn finish<T>(&mut self, result: Result<T, Error>) -> Result<T, Error> {
        if matches!(result, Err(Error::NoTags)) {
            self.counters.populate_fail += 1;
        }
        self.walk_now_and_then();
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
