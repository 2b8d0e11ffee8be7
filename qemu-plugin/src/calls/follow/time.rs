//! What time it is, and to which node it is charged; sleep, and one thread for several vCPUs.

use super::{Shared, Vcpu};
use crate::calls::clock::{Asker, HostClock};

/// Virtual time is asked for this often, in instructions.
const SYNC_EVERY: u64 = 1_000_000;

/// The clock of times and durations.
pub enum Clock {
    /// The host's ticks.
    Host(HostClock),
    /// Instructions, and who can tell how long the guest slept.
    Virtual(Option<&'static Asker>),
}

impl Vcpu {
    /// The instruction at the block's end waits for an interrupt.
    pub fn halts(&mut self, shared: &Shared) {
        let now = self.now(shared);
        self.settle(shared, now);
        self.halted = Some(now);
    }

    /// What the virtual clock shows, between two blocks.
    pub fn wants_virtual_time(&self, shared: &Shared) -> bool {
        matches!(shared.clock, Clock::Virtual(_)) && self.insns.wrapping_sub(self.synced) >= SYNC_EVERY
    }

    /// What it shows.
    pub fn virtual_time(&mut self, shared: &Shared, ns: u64) {
        self.synced = self.insns;
        // It also passes while no vCPU has begun to run.
        self.slept = self.slept.max(ns.saturating_sub(self.insns));
        self.out.sync(self.now(shared), ns);
    }

    /// One thread of QEMU's runs all vCPUs: this one goes on where `other` stands, on the same clock.
    pub fn takes_over(&mut self, shared: &Shared, other: &mut Vcpu) {
        let now = other.now(shared);
        other.settle(shared, now);
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
            Clock::Virtual(asker) => {
                let now_ns = asker.and_then(Asker::ask).unwrap_or(0);
                self.slept = self.slept.max(now_ns.saturating_sub(self.insns));
            }
        }
        let now = self.now(shared);
        self.out.idle(self.node, from, now);
    }

    /// Ticks.
    #[inline(always)]
    pub(super) fn now(&self, shared: &Shared) -> u64 {
        match &shared.clock {
            Clock::Host(clock) => clock.now(),
            Clock::Virtual(_) => self.insns.wrapping_add(self.slept),
        }
    }

    /// Charges what was spent since the last time to the node that it was spent in.
    #[inline(always)]
    pub(super) fn settle(&mut self, shared: &Shared, now: u64) {
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

    /// Instructions that were begun and did not run are taken back, as a difference that wraps. No node gives back more than it has: what
    /// is missing, the next ones give.
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
