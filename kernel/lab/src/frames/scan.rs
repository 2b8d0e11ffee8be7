//! What Redox had until 2024, from its description: arrays of which frame is in use, looked through from the start of memory
//! for as many free ones in a row as are wanted. Allocating takes as many steps as there are frames in use below.

use super::NotAllocated;

/// Of one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Usage {
    /// It can be given out.
    Free,
    /// It was given out.
    Used,
    /// It was never added: a hole, the kernel, what is not initialised yet.
    Absent,
}

/// As many as a memory map can have.
const AREAS_MAX: usize = crate::memory_map::REGIONS_MAX;

/// See the head of the file.
#[derive(Debug)]
pub struct Scan<'a> {
    usage: &'a mut [Usage],
    /// Where frames were added: nothing else is looked through.
    areas: [(usize, usize); AREAS_MAX],
    areas_used: usize,
    free: u64,
}

impl<'a> Scan<'a> {
    /// An allocator with no free frame. `usage` has an entry for every frame there can be.
    pub fn new(usage: &'a mut [Usage]) -> Scan<'a> {
        usage.fill(Usage::Absent);
        Scan { usage, areas: [(0, 0); AREAS_MAX], areas_used: 0, free: 0 }
    }

    pub(super) fn add(&mut self, first: u64, count: u64) {
        let added = &mut self.usage[first as usize..(first + count) as usize];
        added.fill(Usage::Free);
        self.free += count;
        // What is behind an area is one with it.
        let (first, end) = (first as usize, (first + count) as usize);
        if let Some(area) = self.areas[..self.areas_used].iter_mut().find(|area| area.1 == first) {
            area.1 = end;
            return;
        }
        assert!(self.areas_used < AREAS_MAX, "scan: more than {AREAS_MAX} ranges of memory");
        self.areas[self.areas_used] = (first, end);
        self.areas_used += 1;
    }

    pub(super) fn allocate(&mut self, count: u64) -> Option<u64> {
        let first = self.areas[..self.areas_used].iter().find_map(|&(from, to)| self.find_in(from, to, count))?;
        self.usage[first..first + count as usize].fill(Usage::Used);
        self.free -= count;
        Some(first as u64)
    }

    /// The first of so many free frames in a row.
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
