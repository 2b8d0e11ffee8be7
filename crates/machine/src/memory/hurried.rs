//! Guest memory that can be read until a deadline only: the user who pressed Ctrl-C is waiting.

use super::{Extent, PhysicalMemory};
use std::io;
use std::ops::Range;
use std::time::Instant;

/// The same memory, until then. After that nothing can be read, and a search ends.
pub(crate) struct Hurried<'a> {
    pub(crate) memory: &'a dyn PhysicalMemory,
    pub(crate) until: Instant,
}

impl Hurried<'_> {
    fn is_late(&self) -> bool {
        Instant::now() >= self.until
    }
}

impl PhysicalMemory for Hurried<'_> {
    fn read_at(&self, phys: u64, buf: &mut [u8]) -> io::Result<()> {
        if self.is_late() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.memory.read_at(phys, buf)
    }

    fn extents(&self) -> &[Extent] {
        self.memory.extents()
    }

    fn next_data(&self, phys: u64) -> Option<Range<u64>> {
        if self.is_late() { None } else { self.memory.next_data(phys) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::image::Image;
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_search_ends_when_the_time_is_up() {
        let image = Image::new(0x1000, 1 << 20);
        let found = |until| Hurried { memory: &image, until }.next_data(0).is_some();
        assert!(found(Instant::now() + Duration::from_secs(60)));
        assert!(!found(Instant::now()));
        let late = Hurried { memory: &image, until: Instant::now() };
        assert_eq!(late.read_at(0x1000, &mut [0]).unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
