//! The stretches of the guest's virtual clock in which the guest waited for that clock.
//!
//! Under `-icount shift=0` the clock is the number of executed instructions, plus the time that it skipped while all
//! vCPUs were halted. So each reading of both shows how much was skipped since the reading before. The skip begins at
//! the last `hlt`.
//!
//! A loop that does little but read a clock is a wait, too, from its first read to its last. Reads belong to one loop
//! if nothing else leaves the guest between them, if they are near each other, and if few instructions lie between.
//! This module does not depend on QEMU.

use plugin_formats::first_executions::{TimedWait, WaitKind};

/// A loop of fewer reads is no wait: kernels read their clock often.
pub const MIN_READS: u32 = 64;
/// The most time between two reads of one loop, in instructions. Loops on a PIT call a function or two between them.
const MAX_GAP_NS: u64 = 200;
/// The largest distance of two instructions of one loop, in bytes. It spans a function and what is inlined into it.
const MAX_DISTANCE: u64 = 4096;

/// The virtual clock, and the number of executed instructions, at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    pub now_ns: u64,
    pub insns: u64,
}

/// Finds the waits of a boot, from readings in the order of their times.
#[derive(Default)]
pub struct TimedWaits {
    /// The time that the clock has skipped until now.
    skipped_ns: u64,
    /// The time of the last `hlt`, if the clock has not skipped since.
    halted_ns: Option<u64>,
    poll: Poll,
}

/// A loop that reads a clock.
#[derive(Clone, Copy, Default)]
struct Poll {
    insn: u64,
    from_ns: u64,
    until_ns: u64,
    /// 0: there is no loop.
    reads: u32,
}

impl TimedWaits {
    /// Handles any reading. Returns the skip since the reading before.
    pub fn reading(&mut self, at: Reading) -> Option<TimedWait> {
        let skipped_ns = at.now_ns.saturating_sub(at.insns);
        let length_ns = skipped_ns.saturating_sub(self.skipped_ns);
        if length_ns == 0 {
            return None;
        }
        self.skipped_ns = skipped_ns;
        let halted_ns = self.halted_ns.take().unwrap_or_else(|| at.now_ns.saturating_sub(length_ns));
        let until_ns = halted_ns.saturating_add(length_ns).min(at.now_ns);
        Some(TimedWait { kind: WaitKind::Halted, until_ns, length_ns })
    }

    /// Handles an instruction that halts its CPU. Returns the loop that ended before it.
    pub fn halt(&mut self, now_ns: u64) -> Option<TimedWait> {
        self.halted_ns = Some(now_ns);
        self.end_poll()
    }

    /// Handles a read of a clock by the instruction at `insn`. Returns the loop that ended before it.
    pub fn clock_read(&mut self, insn: u64, now_ns: u64) -> Option<TimedWait> {
        let poll = self.poll;
        let goes_on = poll.reads > 0
            && poll.insn.abs_diff(insn) < MAX_DISTANCE
            && now_ns.saturating_sub(poll.until_ns) <= MAX_GAP_NS;
        let ended = if goes_on { None } else { self.end_poll() };
        let from_ns = if goes_on { poll.from_ns } else { now_ns };
        self.poll = Poll { insn, from_ns, until_ns: now_ns, reads: self.poll.reads.saturating_add(1) };
        ended
    }

    /// Handles an access that leaves the guest and reads no clock, and the guest's end. Returns the loop that it ends.
    pub fn end_poll(&mut self) -> Option<TimedWait> {
        let Poll { from_ns, until_ns, reads, .. } = std::mem::take(&mut self.poll);
        let is_wait = reads >= MIN_READS && until_ns > from_ns;
        is_wait.then(|| TimedWait { kind: WaitKind::Polled, until_ns, length_ns: until_ns - from_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(now_ns: u64, insns: u64) -> Reading {
        Reading { now_ns, insns }
    }

    fn halted(until_ns: u64, length_ns: u64) -> Option<TimedWait> {
        Some(TimedWait { kind: WaitKind::Halted, until_ns, length_ns })
    }

    fn polled(until_ns: u64, length_ns: u64) -> Option<TimedWait> {
        Some(TimedWait { kind: WaitKind::Polled, until_ns, length_ns })
    }

    /// The reading comes long after the guest woke.
    #[test]
    fn the_clock_skips_from_the_halt_on() {
        let mut waits = TimedWaits::default();
        assert_eq!((waits.reading(at(500, 500)), waits.halt(600)), (None, None));
        assert_eq!(waits.reading(at(5_900, 900)), halted(5_600, 5_000));
        assert_eq!(waits.reading(at(6_000, 1_000)), None);
    }

    #[test]
    fn a_halt_with_work_at_hand_skips_nothing() {
        let mut waits = TimedWaits::default();
        waits.halt(600);
        assert_eq!(waits.reading(at(700, 700)), None);
        waits.halt(800);
        assert_eq!(waits.reading(at(1_000, 850)), halted(950, 150));
    }

    #[test]
    fn a_skip_without_a_halt_ends_at_the_reading() {
        let mut waits = TimedWaits::default();
        assert_eq!(waits.reading(at(1_000, 0)), halted(1_000, 1_000));
        assert_eq!(waits.reading(at(900, 950)), None, "a clock that steps back");
    }

    fn loop_of(reads: u64, insn: impl Fn(u64) -> u64, gap_ns: u64) -> Option<TimedWait> {
        let mut waits = TimedWaits::default();
        let found: Vec<TimedWait> = (0..reads).filter_map(|i| waits.clock_read(insn(i), 1_000 + i * gap_ns)).collect();
        assert_eq!(found, []);
        waits.end_poll()
    }

    #[test]
    fn a_loop_of_reads_is_a_wait_from_its_first_to_its_last() {
        assert_eq!(loop_of(63, |_| 0x1000, 10), None);
        assert_eq!(loop_of(64, |_| 0x1000, 10), polled(1_630, 630));
        assert_eq!(loop_of(101, |i| 0x1000 + i % 3 * 8, MAX_GAP_NS), polled(21_000, 20_000));
    }

    #[test]
    fn work_between_the_reads_is_no_wait() {
        assert_eq!(loop_of(1_000, |_| 0x1000, MAX_GAP_NS + 1), None);
        assert_eq!(loop_of(1_000, |i| 0x1000 + i * MAX_DISTANCE, 10), None);
        let mut waits = TimedWaits::default();
        let found = (0..1_000).filter_map(|i| {
            let ended = if i % 50 == 0 { waits.end_poll() } else { None };
            ended.or(waits.clock_read(0x1000, i * 10))
        });
        assert_eq!(found.count(), 0, "a device is read between");
    }

    #[test]
    fn an_interrupt_s_handler_cuts_a_wait_in_two() {
        let mut waits = TimedWaits::default();
        let mut read = |from: u64| (0..100).filter_map(|i| waits.clock_read(0x1000, from + i * 10)).collect::<Vec<_>>();
        assert_eq!(read(0), []);
        assert_eq!(read(5_000), [polled(990, 990).unwrap()]);
        assert_eq!(waits.halt(6_000), polled(5_990, 990));
    }
}
