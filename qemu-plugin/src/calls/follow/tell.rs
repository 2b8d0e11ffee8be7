//! Writes what is due from time to time: totals, long calls that are under way, marks.

use super::{Clock, Shared, Vcpu};
use crate::calls::stack::Open;
use crate::recorder::host_ns;

/// What kinds of marks there are. The numbers are those of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mark {
    /// The first instruction of user space is about to run.
    FirstUser = 1,
    /// User space is about to run its first instruction that writes to a port.
    FirstUserOut = 2,
}

impl Vcpu {
    /// Writes totals if it is time to.
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

    /// Writes all that there is to say so far.
    #[inline(never)]
    pub(super) fn interval(&mut self, shared: &Shared, now: u64) {
        self.next_interval = now.saturating_add(self.until_next_interval(shared));
        if self.out.has_room_for_table() {
            self.writes_all(shared, now);
        }
        self.out.flush();
    }

    /// Where the file is long, each table comes after twice the time that the one before came after.
    fn until_next_interval(&mut self, shared: &Shared) -> u64 {
        let intervals = if self.out.leaves_details_out() { self.intervals.saturating_mul(2) } else { 1 };
        self.intervals = intervals;
        shared.interval.saturating_mul(intervals)
    }

    fn writes_all(&mut self, shared: &Shared, now: u64) {
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

    /// Tells the output of long calls under way, so that it need not hear their ends to know of them.
    pub(super) fn announce(&mut self, shared: &Shared, now: u64) {
        for open in self.stack.innermost_first_mut() {
            if open.announced {
                return; // and so is all below
            }
            if now.saturating_sub(open.since) >= shared.min_call {
                self.out.open(open.node, open.since, now);
                open.announced = true;
            }
        }
    }

    /// QEMU ends. Each vCPU tells of the calls on its own stack, and the `first` one of those on all stacks that no vCPU is on.
    pub fn ends(&mut self, shared: &Shared, first: bool) {
        let now = self.now(shared);
        self.settle(shared, now);
        let (own, out) = (&self.stack, &mut self.out);
        let mut tell = |open: &Open| {
            if !open.announced {
                out.open(open.node, open.since, now);
            }
        };
        match first {
            true => shared.stacks.for_each_open(own, tell),
            false => own.innermost_first().for_each(&mut tell),
        }
        self.writes_all(shared, now);
        self.out.exit(now);
        if !self.out.flush() {
            // Where not even that fits, the reader has to know how much is missing.
            self.counts.records_left_out = self.out.left_out();
            self.out.counts(&self.counts.list());
            self.out.exit(now);
            self.out.flush_last();
        }
    }
}
