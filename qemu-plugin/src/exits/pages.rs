//! The set of touched pages of RAM.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::calls::memory::Zeroed;

/// The largest number of pages: 1 TiB. The set has a bit for each page, in memory that the system provides where it is
/// written to. Touches of pages above are not counted.
const MAX_PAGES: u64 = 1 << 28;

pub struct Pages {
    words: Zeroed<AtomicU64>,
}

impl Default for Pages {
    fn default() -> Pages {
        Pages { words: Zeroed::new((MAX_PAGES / 64) as usize) }
    }
}

impl Pages {
    /// Adds a page. Returns true if this is its first touch.
    #[inline(always)]
    pub fn touch(&self, page: u64) -> bool {
        let Some(word) = self.words.get((page / 64) as usize) else { return false };
        let bit = 1 << (page % 64);
        word.load(Relaxed) & bit == 0 && word.fetch_or(bit, Relaxed) & bit == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_is_touched_first_once() {
        let pages = Pages::default();
        for page in [0, 63, 64, MAX_PAGES - 1] {
            assert_eq!([pages.touch(page), pages.touch(page)], [true, false], "{page}");
        }
        assert_eq!([MAX_PAGES, u64::MAX].map(|page| pages.touch(page)), [false; 2]);
    }
}
