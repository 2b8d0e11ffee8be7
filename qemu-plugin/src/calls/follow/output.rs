//! Writes the periodic output: totals, long open calls, marks.

use super::{Clock, Shared, Vcpu};
use crate::calls::stack::Frame;
use crate::recorder::host_ns;

/// The kinds of marks. The numbers are those of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mark {
    /// The first instruction of user space is about to run.
    FirstUser = 1,
    /// User space is about to run its first instruction that writes to a port.
    FirstUserOut = 2,
}

impl Vcpu {
    /// Writes totals if they are due.
    #[inline(always)]
    pub(super) fn tick(&mut self, shared: &Shared, now: u64) {
        if now >= self.next_interval {
            self.interval(shared, now);
        }
    }

    pub(super) fn mark(&mut self, shared: &Shared, mark: Mark, now: u64) {
        self.out.mark(mark as u8, now, self.insns);
        self.interval(shared, now);
    }

    /// Writes all that is known until now.
    #[inline(never)]
    pub(super) fn interval(&mut self, shared: &Shared, now: u64) {
        self.next_interval = now.saturating_add(self.until_next_interval(shared));
        if self.out.has_room_for_table() {
            self.write_records(shared, now);
        }
        self.out.flush();
    }

    /// In a long file, each table comes after twice the interval of the one before.
    fn until_next_interval(&mut self, shared: &Shared) -> u64 {
        let intervals = if self.out.leaves_details_out() { self.intervals.saturating_mul(2) } else { 1 };
        self.intervals = intervals;
        shared.interval.saturating_mul(intervals)
    }

    fn write_records(&mut self, shared: &Shared, now: u64) {
        self.announce(shared, now);
        let host = matches!(shared.clock, Clock::Host(_));
        for node in self.touched.drain(..) {
            let totals = shared.tree.get(node).totals();
            self.out.totals(node, &totals, host);
        }
        if host {
            self.out.sync(now, host_ns());
        }
        (self.counts.insns, self.counts.records_left_out) = (self.insns, self.out.left_out());
        self.out.counts(&self.counts.list());
        self.out.interval(now, self.insns);
    }

    /// Writes long open calls, so that the file shows them even if their ends are missing.
    pub(super) fn announce(&mut self, shared: &Shared, now: u64) {
        for frame in self.stack.innermost_first_mut() {
            if frame.announced {
                return; // all frames below are announced too
            }
            if now.saturating_sub(frame.since) >= shared.min_call {
                self.out.open(frame.node, frame.since, now);
                frame.announced = true;
            }
        }
    }

    /// Handles QEMU's end. Each vCPU writes the open calls on its own stack; the `first` one also those on all stacks
    /// that no vCPU is on.
    pub fn finish(&mut self, shared: &Shared, first: bool) {
        let now = self.now(shared);
        self.charge_elapsed(shared, now);
        let (stack, out) = (&self.stack, &mut self.out);
        let mut write_open = |frame: &Frame| {
            if !frame.announced {
                out.open(frame.node, frame.since, now);
            }
        };
        match first {
            true => shared.stacks.for_each_open(stack, write_open),
            false => stack.innermost_first().for_each(&mut write_open),
        }
        self.write_records(shared, now);
        self.out.exit(now);
        if !self.out.flush() {
            // If even that does not fit, the reader needs the number of missing records.
            self.counts.records_left_out = self.out.left_out();
            self.out.counts(&self.counts.list());
            self.out.exit(now);
            self.out.flush_last();
        }
    }
}
