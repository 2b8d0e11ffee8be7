//! What Redox had before 2020, from its description: frames are taken off the end of what was never given out, and what is
//! given back is kept in an array of ranges, which are split and merged. Each operation looks through the whole array. It can
//! grow to half of all frames.

use super::NotAllocated;

/// A range of free frames; empty where nothing is.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Piece {
    first: u64,
    count: u64,
}

/// Ranges of memory that were never given out: as many as a memory map can have.
const FRESH_MAX: usize = crate::memory_map::REGIONS_MAX;

/// See the head of the file.
#[derive(Debug)]
pub struct Recycle<'a> {
    fresh: [Piece; FRESH_MAX],
    fresh_used: usize,
    /// Every frame that was ever added lies in one of these; each in one only.
    known: [Piece; FRESH_MAX],
    pieces: &'a mut [Piece],
    used: usize,
    free: u64,
}

impl Piece {
    const NONE: Piece = Piece { first: 0, count: 0 };

    fn end(self) -> u64 {
        self.first + self.count
    }
}

impl<'a> Recycle<'a> {
    /// An allocator with no free frame. `pieces` has room for the array.
    pub fn new(pieces: &'a mut [Piece]) -> Recycle<'a> {
        let none = [Piece::NONE; FRESH_MAX];
        Recycle { fresh: none, fresh_used: 0, known: none, pieces, used: 0, free: 0 }
    }

    pub(super) fn add(&mut self, first: u64, count: u64) {
        self.free += count;
        // What is behind what was added last is one piece with it.
        let behind = (0..self.fresh_used).find(|&at| self.known[at].end() == first && self.fresh[at].end() == first);
        if let Some(at) = behind {
            self.fresh[at].count += count;
            self.known[at].count += count;
            return;
        }
        let at = self.fresh_used;
        assert!(at < FRESH_MAX, "recycle: more than {FRESH_MAX} ranges of memory");
        (self.fresh[at], self.known[at]) = (Piece { first, count }, Piece { first, count });
        self.fresh_used += 1;
    }

    pub(super) fn allocate(&mut self, count: u64) -> Option<u64> {
        // The smallest that is large enough: all have to be looked at.
        let mut best: Option<(usize, Piece)> = None;
        for (at, &piece) in self.pieces[..self.used].iter().enumerate() {
            if piece.count >= count && best.is_none_or(|(_, best)| piece.count < best.count) {
                best = Some((at, piece));
            }
        }
        let first = match best {
            Some((at, piece)) if piece.count == count => {
                self.used -= 1;
                self.pieces[at] = self.pieces[self.used];
                piece.first
            }
            Some((at, piece)) => {
                self.pieces[at] = Piece { first: piece.first + count, count: piece.count - count };
                piece.first
            }
            None => {
                let fresh = self.fresh[..self.fresh_used].iter_mut().find(|fresh| fresh.count >= count)?;
                let first = fresh.first;
                *fresh = Piece { first: first + count, count: fresh.count - count };
                first
            }
        };
        self.free -= count;
        Some(first)
    }

    pub(super) fn free(&mut self, first: u64, count: u64) -> Result<(), NotAllocated> {
        let end = first + count;
        let overlaps = |piece: &Piece| piece.first.max(first) < piece.end().min(end);
        let in_common = |known: &Piece| known.end().min(end).saturating_sub(known.first.max(first));
        let known: u64 = self.known[..self.fresh_used].iter().map(in_common).sum();
        if known != count || self.fresh[..self.fresh_used].iter().any(overlaps) {
            return Err(NotAllocated { frame: first });
        }
        // The neighbours, wherever in the array they are.
        let (mut before, mut behind) = (None, None);
        for (at, piece) in self.pieces[..self.used].iter().enumerate() {
            match () {
                () if piece.end() == first => before = Some(at),
                () if piece.first == end => behind = Some(at),
                () if overlaps(piece) => return Err(NotAllocated { frame: first }),
                () => {}
            }
        }
        self.free += count;
        match (before, behind) {
            (Some(before), Some(behind)) => {
                self.pieces[before].count += count + self.pieces[behind].count;
                self.used -= 1;
                self.pieces[behind] = self.pieces[self.used];
            }
            (Some(before), None) => self.pieces[before].count += count,
            (None, Some(behind)) => {
                self.pieces[behind] = Piece { first, count: self.pieces[behind].count + count };
            }
            (None, None) => {
                self.pieces[self.used] = Piece { first, count };
                self.used += 1;
            }
        }
        Ok(())
    }

    pub(super) fn count(&self) -> u64 {
        self.free
    }
}
