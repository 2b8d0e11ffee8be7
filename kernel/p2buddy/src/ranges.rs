//! The ranges of frames that were ever added: a short sorted table. It detects overlaps and unknown frames without reading a
//! record.

use crate::Error;
use core::ops::Range;

#[derive(Debug)]
pub(crate) struct Ranges<const RANGES: usize> {
    /// Start and end of each range, sorted, with a hole between neighbours.
    sorted: [(usize, usize); RANGES],
    used: usize,
}

impl<const RANGES: usize> Ranges<RANGES> {
    pub(crate) const fn new() -> Self {
        Ranges { sorted: [(0, 0); RANGES], used: 0 }
    }

    /// Adds a range and joins it with those that it touches. An error has `shown`, the range in the caller's numbers.
    pub(crate) fn insert(&mut self, new: Range<usize>, shown: &Range<usize>) -> Result<(), Error> {
        // The first range that ends at or behind the new range's start.
        let at = self.sorted[..self.used].partition_point(|range| range.1 < new.start);
        let touching = self.sorted[at..self.used].iter().take_while(|range| range.0 <= new.end).count();
        if self.sorted[at..at + touching].iter().any(|range| range.0 < new.end && range.1 > new.start) {
            return Err(Error::Overlaps(shown.clone()));
        }
        if touching == 0 {
            if self.used == RANGES {
                return Err(Error::TooManyRanges(RANGES));
            }
            self.sorted.copy_within(at..self.used, at + 1);
            self.used += 1;
            self.sorted[at] = (new.start, new.end);
        } else {
            let joined = (new.start.min(self.sorted[at].0), new.end.max(self.sorted[at + touching - 1].1));
            self.sorted[at] = joined;
            self.sorted.copy_within(at + touching..self.used, at + 1);
            self.used -= touching - 1;
        }
        Ok(())
    }

    pub(crate) fn contain(&self, frame: usize) -> bool {
        let after = self.sorted[..self.used].partition_point(|range| range.0 <= frame);
        after > 0 && frame < self.sorted[after - 1].1
    }

    pub(crate) fn frames(&self) -> usize {
        self.sorted[..self.used].iter().map(|range| range.1 - range.0).sum()
    }
}

/// The frames of a range of bytes from a memory map. The range must begin and end at a frame's border.
pub fn frames_in(start_bytes: u64, length_bytes: u64, frame_bytes: u64) -> Result<Range<usize>, Error> {
    let end_bytes = start_bytes.checked_add(length_bytes).ok_or(Error::Wraps)?;
    let number = |bytes: u64| usize::try_from(bytes / frame_bytes).map_err(|_| Error::Wraps);
    match () {
        () if length_bytes == 0 => Err(Error::Empty),
        () if start_bytes % frame_bytes != 0 => Err(Error::NotAligned(number(start_bytes)?)),
        () if end_bytes % frame_bytes != 0 => Err(Error::NotAligned(number(end_bytes)?)),
        () => Ok(number(start_bytes)?..number(end_bytes)?),
    }
}
