//! Boundary tags: one for each span and one for each segment, in memory that the caller provides piece by piece.

/// The data that an arena keeps about one span or segment. Apart from the arena itself, tags are all of its memory.
#[derive(Clone, Debug)]
pub struct Tag {
    pub(crate) start: u64,
    /// The size. For an allocated segment the requested size, not rounded up to the quantum.
    pub(crate) size: u64,
    /// Neighbours by address, spans among them.
    pub(crate) before: TagRef,
    pub(crate) after: TagRef,
    /// Neighbours of the same kind: free segments of one list, spans, a hash chain (`kin_after` only), unused tags.
    pub(crate) kin_before: TagRef,
    pub(crate) kin_after: TagRef,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Unused,
    /// A span. Its tag comes before those of its segments.
    Span {
        imported: bool,
    },
    Free,
    Allocated,
}

/// A tag by number: the piece in the upper bits, the place in the piece in the lower bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TagRef(u32);

/// The reference to no tag.
pub(crate) const NONE: TagRef = TagRef(u32::MAX);

/// Largest number of pieces of memory for tags in an arena.
pub const PIECES_MAX: usize = 32;
const PLACE_BITS: u32 = 32 - PIECES_MAX.trailing_zeros();
/// Largest number of tags that are used of a piece. Also the mask of the place in a [`TagRef`].
const MAX_PLACES: usize = (1 << PLACE_BITS) - 1;

impl Tag {
    /// An unused tag.
    pub const fn new() -> Tag {
        Tag { start: 0, size: 0, before: NONE, after: NONE, kin_before: NONE, kin_after: NONE, kind: Kind::Unused }
    }

    pub(crate) fn is_span(&self) -> bool {
        matches!(self.kind, Kind::Span { .. })
    }

    /// The last address, which exists because the size is not 0. The end may be outside of the address space.
    pub(crate) fn last(&self) -> u64 {
        self.start + (self.size - 1)
    }
}

impl Default for Tag {
    fn default() -> Self {
        Tag::new()
    }
}

impl TagRef {
    fn new(piece: usize, place: usize) -> TagRef {
        TagRef((piece as u32) << PLACE_BITS | place as u32)
    }

    pub(crate) fn some(self) -> Option<TagRef> {
        (self != NONE).then_some(self)
    }
}

/// All tags of an arena.
#[derive(Debug)]
pub(crate) struct Tags<'a> {
    pieces: [&'a mut [Tag]; PIECES_MAX],
    pieces_used: usize,
    /// The first and the last tag in the order of addresses.
    pub(crate) first: TagRef,
    pub(crate) last: TagRef,
    /// The list of tags that were used and released.
    unused: TagRef,
    /// The first tag that was never used, as piece and place. Large pieces are touched only when they are needed.
    fresh: (usize, usize),
    pub(crate) total: usize,
    pub(crate) left: usize,
}

impl<'a> Tags<'a> {
    pub(crate) const fn new() -> Self {
        Tags {
            // A constant has no shorter way to create empty mutable slices.
            #[rustfmt::skip]
            pieces: [
                &mut [], &mut [], &mut [], &mut [], &mut [], &mut [], &mut [], &mut [],
                &mut [], &mut [], &mut [], &mut [], &mut [], &mut [], &mut [], &mut [],
                &mut [], &mut [], &mut [], &mut [], &mut [], &mut [], &mut [], &mut [],
                &mut [], &mut [], &mut [], &mut [], &mut [], &mut [], &mut [], &mut [],
            ],
            pieces_used: 0,
            first: NONE,
            last: NONE,
            unused: NONE,
            fresh: (0, 0),
            total: 0,
            left: 0,
        }
    }

    /// Adds a piece of memory. Returns false if there are [`PIECES_MAX`] pieces already.
    pub(crate) fn give(&mut self, piece: &'a mut [Tag]) -> bool {
        if self.pieces_used == PIECES_MAX {
            return false;
        }
        let places = piece.len().min(MAX_PLACES);
        self.pieces[self.pieces_used] = &mut piece[..places];
        self.pieces_used += 1;
        self.total += places;
        self.left += places;
        true
    }

    /// Takes an unused tag. The caller has checked that one is left.
    pub(crate) fn take(&mut self, start: u64, size: u64, kind: Kind) -> TagRef {
        let taken = match self.unused.some() {
            Some(unused) => {
                self.unused = self[unused].kin_after;
                unused
            }
            None => {
                while self.fresh.1 == self.pieces[self.fresh.0].len() {
                    self.fresh = (self.fresh.0 + 1, 0);
                }
                self.fresh.1 += 1;
                TagRef::new(self.fresh.0, self.fresh.1 - 1)
            }
        };
        self.left -= 1;
        self[taken] = Tag { start, size, kind, ..Tag::new() };
        taken
    }

    /// Takes a tag out of the order of addresses and makes it unused.
    pub(crate) fn release(&mut self, tag: TagRef) {
        let Tag { before, after, .. } = self[tag];
        match before.some() {
            Some(before) => self[before].after = after,
            None => self.first = after,
        }
        match after.some() {
            Some(after) => self[after].before = before,
            None => self.last = before,
        }
        self[tag].kind = Kind::Unused;
        self[tag].kin_after = core::mem::replace(&mut self.unused, tag);
        self.left += 1;
    }

    /// Puts a tag behind another in the order of addresses, or first if `before` is `None`.
    pub(crate) fn link(&mut self, before: Option<TagRef>, tag: TagRef) {
        let place = match before {
            Some(before) => &mut self[before].after,
            None => &mut self.first,
        };
        let after = core::mem::replace(place, tag);
        self[tag].before = before.unwrap_or(NONE);
        self[tag].after = after;
        match after.some() {
            Some(after) => self[after].before = tag,
            None => self.last = tag,
        }
    }
}

impl core::ops::Index<TagRef> for Tags<'_> {
    type Output = Tag;

    fn index(&self, tag: TagRef) -> &Tag {
        &self.pieces[(tag.0 >> PLACE_BITS) as usize][tag.0 as usize & MAX_PLACES]
    }
}

impl core::ops::IndexMut<TagRef> for Tags<'_> {
    fn index_mut(&mut self, tag: TagRef) -> &mut Tag {
        &mut self.pieces[(tag.0 >> PLACE_BITS) as usize][tag.0 as usize & MAX_PLACES]
    }
}
