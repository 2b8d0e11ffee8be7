//! Redox's allocator before 2020, from its description. It takes frames from the memory that was never allocated, and keeps
//! freed frames in an array of ranges, which are split and merged. Each operation searches the whole array, which can grow to
//! half of all frames.

use super::NotAllocated;

/// A range of frames; may be empty.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Piece {
    first: u64,
    count: u64,
}

/// Largest number of ranges of memory, which is that of a memory map.
const MAX_RANGES: usize = crate::memory_map::REGIONS_MAX;

/// The allocator. See the header of this file.
#[derive(Debug)]
pub struct Recycle<'a> {
    /// Frames that were never allocated.
    fresh: [Piece; MAX_RANGES],
    fresh_used: usize,
    /// All frames that were ever added; the ranges do not overlap.
    added: [Piece; MAX_RANGES],
    /// Frames that were freed.
    pieces: &'a mut [Piece],
    used: usize,
    free: u64,
}

impl Piece {
    const EMPTY: Piece = Piece { first: 0, count: 0 };

    fn end(self) -> u64 {
        self.first + self.count
    }
}

impl<'a> Recycle<'a> {
    /// An allocator without a free frame. `pieces` is the memory of the array of ranges.
    pub fn new(pieces: &'a mut [Piece]) -> Recycle<'a> {
        let empty = [Piece::EMPTY; MAX_RANGES];
        Recycle { fresh: empty, fresh_used: 0, added: empty, pieces, used: 0, free: 0 }
    }

    pub(super) fn add(&mut self, first: u64, count: u64) {
        self.free += count;
        // Frames right behind a range extend it.
        let extended = (0..self.fresh_used).find(|&at| self.added[at].end() == first && self.fresh[at].end() == first);
        if let Some(at) = extended {
            self.fresh[at].count += count;
            self.added[at].count += count;
            return;
        }
        let at = self.fresh_used;
        assert!(at < MAX_RANGES, "recycle: more than {MAX_RANGES} ranges of memory");
        (self.fresh[at], self.added[at]) = (Piece { first, count }, Piece { first, count });
        self.fresh_used += 1;
    }

    pub(super) fn allocate(&mut self, count: u64) -> Option<u64> {
        // The smallest piece that is large enough. This has to examine all of them.
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
        let in_common = |piece: &Piece| piece.end().min(end).saturating_sub(piece.first.max(first));
        let added: u64 = self.added[..self.fresh_used].iter().map(in_common).sum();
        if added != count || self.fresh[..self.fresh_used].iter().any(overlaps) {
            return Err(NotAllocated { frame: first });
        }
        // The neighbours may be anywhere in the array.
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
