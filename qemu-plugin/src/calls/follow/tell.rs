//! Writes what is due from time to time: totals, long calls that are under way, marks.

use super::{Clock, Shared, Vcpu};
use crate::calls::stacks::Frame;
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
        self.next_interval = now.saturating_add(shared.interval);
        self.announce(shared, now);
        let host = matches!(shared.clock, Clock::Host(_));
        for node in self.touched.drain(..) {
            let totals = shared.tree.get(node).totals();
            self.out.totals(node, &totals, host);
        }
        if host {
            self.out.sync(now, host_ns());
        }
        self.counts.insns = self.insns;
        self.out.counts(&self.counts.list());
        self.out.interval(now, self.insns);
        self.out.flush();
    }

    /// Tells the output of long calls under way, so that it need not hear their ends to know of them.
    pub(super) fn announce(&mut self, shared: &Shared, now: u64) {
        let mut at = shared.stacks.top(self.stack);
        while at != 0 {
            let frame = shared.stacks.frame(at);
            let open = frame.get();
            if open.announced {
                return; // and so is all below
            }
            if now.saturating_sub(open.since) >= shared.min_call {
                self.out.open(open.node, open.since, now);
                frame.announce();
            }
            at = frame.below();
        }
    }

    /// QEMU ends; `first` of all vCPUs tells of the calls on all stacks.
    pub fn ends(&mut self, shared: &Shared, first: bool) {
        let now = self.now(shared);
        self.settle(shared, now);
        if first {
            for open in shared.stacks.all_open().map(Frame::get).filter(|open| !open.announced) {
                self.out.open(open.node, open.since, now);
            }
        }
        self.interval(shared, now);
        self.out.exit(now);
        self.out.flush();
    }
}
