//! Memory of a machine by its physical addresses, whatever backs it.

use std::io;
use std::ops::Range;

/// A stretch of guest-physical memory and where it lies in the file behind guest RAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First guest-physical address.
    pub phys: u64,
    /// Offset of that address in the file, in bytes.
    pub file_offset: u64,
    /// Length in bytes.
    pub bytes: u64,
}

impl Extent {
    /// The guest-physical addresses, end exclusive.
    pub fn range(&self) -> Range<u64> {
        self.phys..self.phys.saturating_add(self.bytes)
    }
}

/// Memory that is addressed by guest-physical addresses.
pub trait PhysicalMemory {
    /// Fills `buf` from guest-physical address `phys`.
    ///
    /// # Errors
    /// If a byte of it is not RAM (`InvalidInput`, naming the address), or if the file cannot be read.
    fn read_at(&self, phys: u64, buf: &mut [u8]) -> io::Result<()>;

    /// The extents of RAM: ascending, without overlap.
    fn extents(&self) -> &[Extent];

    /// The next stretch at or above `phys` that may hold anything but zeros; `None` at the end.
    ///
    /// A search of memory uses it to skip memory that the guest never touched.
    fn next_data(&self, phys: u64) -> Option<Range<u64>> {
        let range = self.extents().iter().map(Extent::range).find(|range| range.end > phys)?;
        Some(range.start.max(phys)..range.end)
    }
}
