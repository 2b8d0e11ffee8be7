//! The time, and the node that it is charged to; also sleep, and one thread for several vCPUs.

use super::{Shared, Vcpu};
use crate::calls::clock::{HostClock, VirtualTimeThread};

/// The interval between readings of the virtual time, in instructions.
const SYNC_EVERY: u64 = 1_000_000;

/// The clock of times and lengths.
pub enum Clock {
    /// The host's ticks.
    Host(HostClock),
    /// Instructions, and the thread that reads how long the guest slept.
    Virtual(Option<&'static VirtualTimeThread>),
}

impl Vcpu {
    /// Handles an instruction at the block's end that waits for an interrupt.
    pub fn halts(&mut self, shared: &Shared) {
        let now = self.now(shared);
        self.charge_elapsed(shared, now);
        self.halted = Some(now);
    }

    /// True if a reading of the virtual clock between two blocks is due.
    pub fn wants_virtual_time(&self, shared: &Shared) -> bool {
        matches!(shared.clock, Clock::Virtual(_)) && self.insns.wrapping_sub(self.synced) >= SYNC_EVERY
    }

    /// Handles a reading of the virtual clock.
    pub fn virtual_time(&mut self, shared: &Shared, ns: u64) {
        self.synced = self.insns;
        // It also advances while no vCPU has begun to run.
        self.slept = self.slept.max(ns.saturating_sub(self.insns));
        self.out.sync(self.now(shared), ns);
    }

    /// Handles a change of vCPU in the one thread that runs all vCPUs: this one continues at the time of `other`, on
    /// the same clock.
    pub fn take_over(&mut self, shared: &Shared, other: &mut Vcpu) {
        let now = other.now(shared);
        other.charge_elapsed(shared, now);
        let ran = other.insns.wrapping_sub(self.insns);
        self.insns = self.insns.wrapping_add(ran);
        self.spent_insns = self.spent_insns.wrapping_add(ran);
        self.slept = other.slept;
        if let Clock::Host(_) = shared.clock {
            self.spent_ticks = now;
        }
    }

    pub(super) fn wakes(&mut self, shared: &Shared) {
        let Some(from) = self.halted.take() else { return };
        match &shared.clock {
            Clock::Host(clock) => self.spent_ticks = clock.now(),
            Clock::Virtual(time_thread) => {
                let now_ns = time_thread.and_then(VirtualTimeThread::read).unwrap_or(0);
                self.slept = self.slept.max(now_ns.saturating_sub(self.insns));
            }
        }
        let now = self.now(shared);
        self.out.idle(self.node, from, now);
    }

    /// The current time in ticks.
    #[inline(always)]
    pub(super) fn now(&self, shared: &Shared) -> u64 {
        match &shared.clock {
            Clock::Host(clock) => clock.now(),
            Clock::Virtual(_) => self.insns.wrapping_add(self.slept),
        }
    }

    /// Charges the instructions and ticks since the last charge to the current node.
    #[inline(always)]
    pub(super) fn charge_elapsed(&mut self, shared: &Shared, now: u64) {
        let mut insns = self.insns.wrapping_sub(self.spent_insns);
        if (insns as i64) < 0 {
            insns = self.taken_back(shared, insns);
        }
        self.spent_insns = self.spent_insns.wrapping_add(insns);
        let mut ticks = 0;
        if let Clock::Host(_) = shared.clock {
            ticks = now.saturating_sub(self.spent_ticks);
            self.spent_ticks = now;
        }
        let node = shared.tree.get(self.node);
        node.spend(insns, ticks);
        if node.first_touch() {
            self.touched.push(self.node);
        }
    }

    /// Takes back instructions that were begun and did not run, as a difference that wraps. A node never gives back
    /// more than it has; the next ones give the rest.
    #[inline(never)]
    fn taken_back(&self, shared: &Shared, insns: u64) -> u64 {
        insns.wrapping_neg().min(shared.tree.get(self.node).insns()).wrapping_neg()
    }

    #[inline(always)]
    pub(super) fn touch(&mut self, shared: &Shared, node: u32) {
        if shared.tree.get(node).first_touch() {
            self.touched.push(node);
        }
    }
}
