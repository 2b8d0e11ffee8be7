//! Guest memory that can be read until the time is up or the user has pressed Ctrl-C. Without this limit a guest could make a search of its
//! memory arbitrarily long.

use super::{Extent, PhysicalMemory};
use std::io;
use std::ops::Range;

/// The same memory until `is_over` returns true. After that nothing can be read, and a search ends.
pub(crate) struct Limited<'a> {
    pub(crate) memory: &'a dyn PhysicalMemory,
    pub(crate) is_over: &'a dyn Fn() -> bool,
}

impl PhysicalMemory for Limited<'_> {
    fn read_at(&self, phys: u64, buf: &mut [u8]) -> io::Result<()> {
        if (self.is_over)() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.memory.read_at(phys, buf)
    }

    fn extents(&self) -> &[Extent] {
        self.memory.extents()
    }

    fn next_data(&self, phys: u64) -> Option<Range<u64>> {
        if (self.is_over)() { None } else { self.memory.next_data(phys) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::image::Image;
    use super::*;

    #[test]
    fn a_search_ends_when_the_time_is_up() {
        let image = Image::new(0x1000, 1 << 20);
        let found = |is_over: &dyn Fn() -> bool| Limited { memory: &image, is_over }.next_data(0).is_some();
        assert!(found(&|| false));
        assert!(!found(&|| true));
        let late = Limited { memory: &image, is_over: &|| true };
        assert_eq!(late.read_at(0x1000, &mut [0]).unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
