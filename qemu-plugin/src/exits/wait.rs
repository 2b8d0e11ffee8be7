//! The rule for timed waits: a loop that does little but read a clock.
//!
//! A clock is a counter's register, such as the TSC, or an address or port that the architecture fixes (HPET, PIT).
//! Linux' calibration of the HPET also writes to it in its loop, so writes to the address of a clock count as reads.
//! Reads of clocks belong to one loop if nothing else leaves the guest between them, if they are near each other, and
//! if the code between them accesses memory a few times at most. From [`MIN_READS`] reads on, the loop is a wait, and
//! all of its reads are.

/// A loop of fewer reads is no wait: kernels read their clock often.
pub const MIN_READS: u64 = 64;
/// Accesses to memory between two reads of one loop. PIT loops call a function or two between them.
const MAX_MEMORY: u64 = 48;
/// The largest distance of two instructions of one loop, in bytes. It spans a function and what is inlined into it.
const MAX_DISTANCE: u64 = 4096;
/// The largest number of rows of a loop before it is a wait.
const MAX_ROWS: usize = 8;

/// The current loop.
#[derive(Default)]
pub struct WaitLoop {
    /// The rows that read clocks, with their numbers of reads until the loop is a wait.
    reads: Vec<(u32, u64)>,
    total: u64,
    insn: u64,
    memory: u64,
}

/// The accesses that turn out to be of a wait.
#[derive(Debug, PartialEq, Eq)]
pub enum Waits<'a> {
    No,
    /// This one.
    Now,
    /// This one and those before it in the loop, by their rows.
    Since(&'a [(u32, u64)]),
}

impl WaitLoop {
    /// Handles an access of a row's instruction at `insn`, after `memory` accesses to RAM.
    pub fn access(&mut self, row: u32, insn: u64, memory: u64, is_clock: bool) -> Waits<'_> {
        if !is_clock {
            self.total = 0;
            return Waits::No;
        }
        let goes_on = self.total > 0
            && self.insn.abs_diff(insn) < MAX_DISTANCE
            && memory.saturating_sub(self.memory) <= MAX_MEMORY;
        if !goes_on {
            self.total = 0;
            self.reads.clear();
        }
        (self.insn, self.memory, self.total) = (insn, memory, self.total + 1);
        if self.total > MIN_READS {
            return Waits::Now;
        }
        match self.reads.iter().position(|(known, _)| *known == row) {
            Some(i) => self.reads[i].1 += 1,
            None if self.reads.len() < MAX_ROWS => self.reads.push((row, 1)),
            None => self.total = 0,
        }
        if self.total == MIN_READS { Waits::Since(&self.reads) } else { Waits::No }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(accesses: impl IntoIterator<Item = (u32, u64, u64, bool)>) -> u64 {
        let mut wait_loop = WaitLoop::default();
        let count = |(row, insn, memory, is_clock)| match wait_loop.access(row, insn, memory, is_clock) {
            Waits::No => 0,
            Waits::Now => 1,
            Waits::Since(reads) => reads.iter().map(|(_, count)| count).sum(),
        };
        accesses.into_iter().map(count).sum()
    }

    #[test]
    fn a_loop_of_reads_is_a_wait_from_its_first_read_on() {
        assert_eq!(waits((0..63).map(|i| (0, 0x1000, i, true))), 0);
        assert_eq!(waits((0..64).map(|i| (0, 0x1000, i, true))), 64);
        assert_eq!(waits((0..1000).map(|i| (i as u32 % 3, 0x1000 + i % 3 * 8, i * 40, true))), 1000);
    }

    #[test]
    fn work_between_the_reads_is_no_wait() {
        assert_eq!(waits((0..1000).map(|i| (0, 0x1000, i * 49, true))), 0, "memory");
        assert_eq!(waits((0..1000).map(|i| (0, 0x1000, i, i % 50 != 0))), 0, "another access");
        assert_eq!(waits((0..1000).map(|i| (0, 0x1000 + i * 4096, i, true))), 0, "other functions");
        assert_eq!(waits((0..1000).map(|i| (i as u32, 0x1000, i, true))), 0, "more rows than a loop has");
        assert_eq!(waits((0..1000).map(|i| (0, 0x1000, i, false))), 0, "a device is no clock");
    }
}
