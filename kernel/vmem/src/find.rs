//! Allocating: which free segment is taken, and what becomes of the rest of it.

use crate::tag::{Kind, NONE, TagRef};
use crate::{Arena, Error, Fit, Request, Source};

/// Where next fit goes on: behind what it allocated last.
#[derive(Debug)]
pub(crate) struct Rotor {
    /// No free segment between this tag and the address is left out if a search begins here.
    pub(crate) tag: TagRef,
    pub(crate) address: u64,
}

impl Rotor {
    pub(crate) const START: Rotor = Rotor { tag: NONE, address: 0 };

    /// A tag vanishes; the search begins at the one before instead.
    pub(crate) fn leave(&mut self, tag: TagRef, before: TagRef) {
        if self.tag == tag {
            self.tag = before;
        }
    }
}

/// A free segment, and where in it.
type Place = (TagRef, u64);

impl<S: Source> Arena<'_, S> {
    /// An address, from which on so much is the caller's.
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
        let found = match request.fit {
            Fit::Instant => self.instant_fit(request, rounded),
            Fit::Best => self.best_fit(request, rounded),
            Fit::Next => self.next_fit(request, rounded),
        };
        let (segment, address) = match found {
            Some(found) => found,
            None => self.import(request, rounded)?,
        };
        let allocated = self.carve(segment, address, request.size, rounded)?;
        if request.fit == Fit::Next {
            self.rotor = Rotor { tag: allocated, address: address.saturating_add(rounded) };
        }
        Ok(address)
    }

    fn instant_fit(&mut self, request: &Request, rounded: u64) -> Option<Place> {
        // In this list and all above it every segment is large enough, though it may not be in the right place.
        let definite = rounded.ilog2() + u32::from(!rounded.is_power_of_two());
        let mut list = self.lists.next_from(definite);
        while let Some(here) = list {
            if let Some(found) = self.first_fit_in(here, request, rounded) {
                return Some(found);
            }
            list = self.lists.next_from(here + 1);
        }
        if definite > rounded.ilog2() { self.first_fit_in(rounded.ilog2(), request, rounded) } else { None }
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
            // Lists above have only larger ones.
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

    /// The first place at `from` or above, in the order of addresses, in a segment that begins at `until` or below.
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

    /// A span from the source, with a place in it.
    fn import(&mut self, request: &Request, rounded: u64) -> Result<Place, Error> {
        if request.is_limited() {
            return Err(Error::NoSpace);
        }
        let quantum = self.source.quantum().ok_or(Error::NoSpace)?;
        let size = request.import_size(self.quantum, rounded, quantum).ok_or(Error::NoSpace)?;
        let size = size.max(self.import_least.checked_next_multiple_of(quantum).ok_or(Error::NoSpace)?);
        // Two for the span, and two for what is left before and behind: before the source is asked.
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

    /// Cuts an allocated segment out of a free one. What is left before and behind it stays free.
    fn carve(&mut self, segment: TagRef, address: u64, size: u64, rounded: u64) -> Result<TagRef, Error> {
        let whole = self.tags[segment].size;
        let in_front = address - self.tags[segment].start;
        let behind = whole - in_front - rounded;
        if self.tags.left < usize::from(in_front > 0) + usize::from(behind > 0) {
            return Err(Error::NoTags);
        }
        let before = self.tags[segment].before.some();
        let allocated = if in_front == 0 && behind > 0 && behind.ilog2() == whole.ilog2() {
            // The rest stays on its list, in its place.
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
