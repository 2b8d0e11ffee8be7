//! Redox's allocator until 2024, from its description: an array with the usage of each frame. Allocating searches it from the
//! start of memory for enough free frames in a row. That takes as many steps as there are used frames below.

use super::NotAllocated;

/// The usage of one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Usage {
    /// The frame can be allocated.
    Free,
    /// The frame is allocated.
    Used,
    /// The frame was never added: it is in a hole, in the kernel, or not initialised yet.
    Absent,
}

/// Largest number of ranges of memory, which is that of a memory map.
const MAX_AREAS: usize = crate::memory_map::REGIONS_MAX;

/// The allocator. See the header of this file.
#[derive(Debug)]
pub struct Scan<'a> {
    usage: &'a mut [Usage],
    /// Start and end of each range of added frames. Only these are searched.
    areas: [(usize, usize); MAX_AREAS],
    areas_used: usize,
    free: u64,
}

impl<'a> Scan<'a> {
    /// An allocator without a free frame. `usage` has an entry for every frame that may be added.
    pub fn new(usage: &'a mut [Usage]) -> Scan<'a> {
        usage.fill(Usage::Absent);
        Scan { usage, areas: [(0, 0); MAX_AREAS], areas_used: 0, free: 0 }
    }

    pub(super) fn add(&mut self, first: u64, count: u64) {
        let added = &mut self.usage[first as usize..(first + count) as usize];
        added.fill(Usage::Free);
        self.free += count;
        // Frames right behind an area extend it.
        let (first, end) = (first as usize, (first + count) as usize);
        if let Some(area) = self.areas[..self.areas_used].iter_mut().find(|area| area.1 == first) {
            area.1 = end;
            return;
        }
        assert!(self.areas_used < MAX_AREAS, "scan: more than {MAX_AREAS} ranges of memory");
        self.areas[self.areas_used] = (first, end);
        self.areas_used += 1;
    }

    pub(super) fn allocate(&mut self, count: u64) -> Option<u64> {
        let first = self.areas[..self.areas_used].iter().find_map(|&(from, to)| self.find_in(from, to, count))?;
        self.usage[first..first + count as usize].fill(Usage::Used);
        self.free -= count;
        Some(first as u64)
    }

    /// The first of `count` free frames in a row, between `from` and `to`.
    fn find_in(&self, from: usize, to: usize, count: u64) -> Option<usize> {
        let mut in_a_row = 0;
        for (at, &usage) in (from..to).zip(&self.usage[from..to]) {
            in_a_row = if usage == Usage::Free { in_a_row + 1 } else { 0 };
            if in_a_row == count {
                return Some(at + 1 - count as usize);
            }
        }
        None
    }

    pub(super) fn free(&mut self, first: u64, count: u64) -> Result<(), NotAllocated> {
        let frames = self.usage.get_mut(first as usize..(first + count) as usize);
        let frames = frames.filter(|frames| frames.iter().all(|&frame| frame == Usage::Used));
        frames.ok_or(NotAllocated { frame: first })?.fill(Usage::Free);
        self.free += count;
        Ok(())
    }

    pub(super) fn count(&self) -> u64 {
        self.free
    }
}
