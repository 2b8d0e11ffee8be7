//! Allocation: chooses a free segment, and cuts the allocated part out of it.

use crate::tag::{Kind, NONE, TagRef};
use crate::{Arena, Error, Fit, Request, Source};

/// The place where next fit continues: behind its last allocation.
#[derive(Debug)]
pub(crate) struct Rotor {
    /// The tag at which a search begins. No free segment at `address` or above comes before it.
    pub(crate) tag: TagRef,
    pub(crate) address: u64,
}

impl Rotor {
    pub(crate) const START: Rotor = Rotor { tag: NONE, address: 0 };

    /// Call before a tag is released: a search then begins at the tag before it.
    pub(crate) fn leave(&mut self, tag: TagRef, before: TagRef) {
        if self.tag == tag {
            self.tag = before;
        }
    }
}

/// A free segment, and an address in it.
type Place = (TagRef, u64);

impl<S: Source> Arena<'_, S> {
    /// Allocates a segment and returns its address.
    pub fn allocate(&mut self, request: &Request) -> Result<u64, Error> {
        request.check(self.quantum)?;
        let mut result = self.allocate_or_import(request);
        if result == Err(Error::NoSpace) && request.may_wait {
            result = Err(Error::WouldBlock);
        }
        match result {
            Err(Error::WouldBlock) => {
                self.counters.wait += 1;
                self.has_waiters = true;
            }
            Err(_) => self.counters.fail += 1,
            Ok(_) => {}
        }
        self.finish(result)
    }

    fn allocate_or_import(&mut self, request: &Request) -> Result<u64, Error> {
        let rounded = request.size.checked_next_multiple_of(self.quantum).ok_or(Error::NoSpace)?;
        let place = match request.fit {
            Fit::Instant => self.instant_fit(request, rounded),
            Fit::Best => self.best_fit(request, rounded),
            Fit::Next => self.next_fit(request, rounded),
        };
        let (segment, address) = match place {
            Some(place) => place,
            None => self.import(request, rounded)?,
        };
        let allocated = self.carve(segment, address, request.size, rounded)?;
        if request.fit == Fit::Next {
            self.rotor = Rotor { tag: allocated, address: address.saturating_add(rounded) };
        }
        Ok(address)
    }

    fn instant_fit(&mut self, request: &Request, rounded: u64) -> Option<Place> {
        // In this list and all above it every segment is large enough, but its addresses may violate a constraint.
        let large_enough = rounded.ilog2() + u32::from(!rounded.is_power_of_two());
        let mut list = self.lists.next_from(large_enough);
        while let Some(here) = list {
            if let Some(place) = self.first_fit_in(here, request, rounded) {
                return Some(place);
            }
            list = self.lists.next_from(here + 1);
        }
        if large_enough > rounded.ilog2() { self.first_fit_in(rounded.ilog2(), request, rounded) } else { None }
    }

    fn first_fit_in(&mut self, list: u32, request: &Request, rounded: u64) -> Option<Place> {
        let mut at = self.lists.head(list);
        while let Some(segment) = at {
            if let Some(address) = request.place(&self.tags[segment], self.quantum, rounded, 0) {
                return Some((segment, address));
            }
            self.counters.search += 1;
            at = self.tags[segment].kin_after.some();
        }
        None
    }

    fn best_fit(&mut self, request: &Request, rounded: u64) -> Option<Place> {
        let mut list = self.lists.next_from(rounded.ilog2());
        while let Some(here) = list {
            let mut best: Option<(u64, Place)> = None;
            let mut at = self.lists.head(here);
            while let Some(segment) = at {
                let size = self.tags[segment].size;
                let address = request.place(&self.tags[segment], self.quantum, rounded, 0);
                if let Some(address) = address.filter(|_| best.is_none_or(|(smallest, _)| size < smallest)) {
                    best = Some((size, (segment, address)));
                    if size == rounded {
                        break;
                    }
                }
                self.counters.search += 1;
                at = self.tags[segment].kin_after.some();
            }
            // Lists above have only larger segments.
            if let Some((size, place)) = best {
                self.counters.search -= u64::from(size != rounded);
                return Some(place);
            }
            list = self.lists.next_from(here + 1);
        }
        None
    }

    fn next_fit(&mut self, request: &Request, rounded: u64) -> Option<Place> {
        let behind = self.rotor.tag.some().unwrap_or(self.tags.first);
        self.first_fit_from(behind, self.rotor.address, u64::MAX, request, rounded)
            .or_else(|| self.first_fit_from(self.tags.first, 0, self.rotor.address, request, rounded))
    }

    /// The first place at address `from` or above, in a segment that begins at `until` or below. Searches in the order of
    /// addresses.
    fn first_fit_from(&mut self, tag: TagRef, from: u64, until: u64, request: &Request, rounded: u64) -> Option<Place> {
        let mut at = tag.some();
        while let Some(here) = at {
            let tag = &self.tags[here];
            if tag.start > until {
                break;
            }
            let address = || request.place(tag, self.quantum, rounded, from);
            if let Some(address) = (tag.kind == Kind::Free).then(address).flatten() {
                return Some((here, address));
            }
            self.counters.search += 1;
            at = tag.after.some();
        }
        None
    }

    /// Imports a span from the source and returns a place in it.
    fn import(&mut self, request: &Request, rounded: u64) -> Result<Place, Error> {
        if request.is_limited() {
            return Err(Error::NoSpace);
        }
        let quantum = self.source.quantum().ok_or(Error::NoSpace)?;
        let size = request.import_size(self.quantum, rounded, quantum).ok_or(Error::NoSpace)?;
        let size = size.max(self.min_import.checked_next_multiple_of(quantum).ok_or(Error::NoSpace)?);
        // Two tags for the span, and two for the free rests before and behind. Checked before the import.
        if self.tags.left < 4 {
            return Err(Error::NoTags);
        }
        let start = self.source.import(size, request.may_wait)?;
        if start & (quantum - 1) != 0 {
            return Err(Error::BadImport(start));
        }
        let free = self.add_span(start, size, true).map_err(|_| Error::BadImport(start))?;
        let address = request.place(&self.tags[free], self.quantum, rounded, 0);
        Ok((free, address.expect("import_size leaves a place at any alignment of the source's")))
    }

    /// Cuts an allocated segment out of a free one. The rests before and behind it stay free.
    fn carve(&mut self, segment: TagRef, address: u64, size: u64, rounded: u64) -> Result<TagRef, Error> {
        let whole = self.tags[segment].size;
        let in_front = address - self.tags[segment].start;
        let behind = whole - in_front - rounded;
        if self.tags.left < usize::from(in_front > 0) + usize::from(behind > 0) {
            return Err(Error::NoTags);
        }
        let before = self.tags[segment].before.some();
        let allocated = if in_front == 0 && behind > 0 && behind.ilog2() == whole.ilog2() {
            // The rest stays on its list, at the same position.
            let allocated = self.tags.take(address, size, Kind::Allocated);
            self.tags.link(before, allocated);
            self.tags[segment].start += rounded;
            self.tags[segment].size = behind;
            self.rotor.leave(segment, allocated);
            allocated
        } else {
            self.lists.remove(&mut self.tags, segment);
            if behind > 0 {
                let rest = self.tags.take(address + rounded, behind, Kind::Free);
                self.tags.link(Some(segment), rest);
                self.lists.push(&mut self.tags, rest);
            }
            if in_front > 0 {
                let rest = self.tags.take(address - in_front, in_front, Kind::Free);
                self.tags.link(before, rest);
                self.lists.push(&mut self.tags, rest);
                self.rotor.leave(segment, rest);
            }
            let tag = &mut self.tags[segment];
            (tag.start, tag.size, tag.kind) = (address, size, Kind::Allocated);
            segment
        };
        self.hash.insert(&mut self.tags, allocated);
        self.counters.alloc += 1;
        self.counters.mem_inuse += size;
        Ok(allocated)
    }
}
