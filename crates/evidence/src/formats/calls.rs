//! `calls.bin`: every call of a boot, from the QEMU plugin.
//!
//! The format is [`plugin_formats::calls`], which the plugin writes with.
//!
//! A chunk that makes no sense is left at the record that makes none; what comes after it is read. Memory grows with the
//! input only. What it means is in [`profile`].

mod read;

pub use read::read;

use crate::formats::plugin_header::clamped;
use plugin_formats::calls::MAGIC;
use std::ops::Range;
use timeline::Ns;

pub use plugin_formats::Clock as PluginClock;
pub use plugin_formats::calls::{Counts, Kind};

/// A path of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Number of the node that it goes on from; 0: none.
    pub parent: u32,
    /// How.
    pub kind: Kind,
    /// Address of the function; 0 where it is not known, and of user space.
    pub function: u64,
    /// Of the bottom of a stack, an address on it.
    pub stack: u64,
}

/// What a node had counted at some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The node's number.
    pub node: u32,
    /// Times it was entered.
    pub calls: u64,
    /// Instructions of its own.
    pub insns: u64,
    /// Ticks of its own; 0 where the clock is virtual.
    pub ticks: u64,
}

/// A long call, or a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The node's number.
    pub node: u32,
    /// The vCPU that it ended on.
    pub vcpu: u16,
    /// Ticks when it began.
    pub from: u64,
    /// Ticks when it ended, or was last seen.
    pub to: u64,
}

/// A vCPU goes on with another stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// The node's number.
    pub node: u32,
    /// The vCPU.
    pub vcpu: u16,
    /// Ticks.
    pub at: u64,
}

/// What [`Mark`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkKind {
    /// The first instruction of user space.
    FirstUser,
    /// The first instruction of user space that writes to a port.
    FirstUserOut,
}

/// A moment of note, at which totals were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// What.
    pub kind: MarkKind,
    /// On which vCPU.
    pub vcpu: u16,
    /// Ticks.
    pub at: u64,
    /// Instructions of its vCPU so far.
    pub insns: u64,
}

/// The totals of a vCPU up to a moment: those of the intervals before, and these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The vCPU.
    pub vcpu: u16,
    /// Ticks at its end.
    pub to: u64,
    /// One past its last entry in [`Calls::totals`].
    pub totals_to: usize,
}

/// Share of the returns whose call is known; none without any return.
pub fn share_matched(counts: &Counts) -> Option<f64> {
    let known = counts.matched as f64 + counts.redirected as f64;
    let all = known + counts.unmatched as f64 + counts.returns_without_stack as f64;
    (all > 0.0).then(|| known / all)
}

/// What the file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Calls {
    /// What ticks are.
    pub clock: PluginClock,
    /// Version of QEMU's plugin interface.
    pub api: u8,
    /// vCPUs of the machine.
    pub vcpus: u32,
    /// The guest's architecture.
    pub target: String,
    /// Where ticks begin, on the host's clock.
    pub began: Ns,
    /// Ticks per second, as far as it was known at the start.
    pub ticks_per_second: u64,
    /// Calls shorter than this are not among the spans.
    pub min_call_ticks: u64,
    /// What following a call and its return costs the plugin, picoseconds of the host.
    pub call_cost_ps: u64,
    /// Nodes by number; what no chunk defined is the bottom of a stack at address 0.
    pub nodes: Vec<Node>,
    /// Totals in the order of the file.
    pub totals: Vec<Totals>,
    /// Where the totals of each interval end.
    pub intervals: Vec<Interval>,
    /// Long calls that returned, in the order of their returns on each vCPU.
    pub spans: Vec<Stretch>,
    /// Long calls that were under way when they were last looked at. Those that returned later are among the spans too.
    pub open: Vec<Stretch>,
    /// Changes of stacks.
    pub switches: Vec<Switch>,
    /// Sleeps.
    pub idle: Vec<Stretch>,
    /// Ticks, and the other clock's ns at the same moment.
    pub syncs: Vec<(u64, u64)>,
    /// Moments of note.
    pub marks: Vec<Mark>,
    /// How well it went.
    pub counts: Counts,
    /// Ticks at which QEMU ended, if it ended in order.
    pub exit: Option<u64>,
    /// Host time zero, ns of its clock; kept to place `syncs`.
    pub(crate) zero_host_ns: u64,
}

impl Calls {
    /// The numbers of all nodes.
    pub fn numbers(&self) -> Range<u32> {
        0..timeline::number(self.nodes.len())
    }

    /// The last totals of each node, by number, that were written at `until` (in ticks) or before.
    pub fn totals_until(&self, until: u64) -> Vec<Totals> {
        let mut last: Vec<Totals> = self.numbers().map(|node| Totals { node, ..Totals::default() }).collect();
        let mut from = 0;
        // What was cut off before its interval ended, ended at an unknown time.
        let rest = Interval { vcpu: 0, to: u64::MAX, totals_to: self.totals.len() };
        for interval in self.intervals.iter().chain([&rest]) {
            let totals = &self.totals[from..interval.totals_to];
            from = interval.totals_to;
            if interval.to <= until {
                for t in totals {
                    let slot = &mut last[t.node as usize];
                    // Of two vCPUs' chunks the later one in the file need not be the later one in time.
                    if (t.calls, t.insns) >= (slot.calls, 0) {
                        *slot = *t;
                    }
                }
            }
        }
        last
    }

    /// The addresses that were called, each once.
    pub(crate) fn called(&self) -> impl Iterator<Item = u64> + use<> {
        let called = self.nodes.iter().filter(|node| node.kind == Kind::Call && node.function != 0);
        called.map(|node| node.function).collect::<hashbrown::HashSet<u64>>().into_iter()
    }

    /// The last tick that anything is known of.
    pub fn last_tick(&self) -> u64 {
        let intervals = self.intervals.iter().map(|i| i.to);
        intervals.chain(self.spans.iter().map(|s| s.to)).chain(self.exit).max().unwrap_or(0)
    }

    /// A moment in nanoseconds from time zero: between the sync points on either side of it, in a straight line.
    pub fn at(&self, tick: u64) -> Ns {
        let i = self.syncs.partition_point(|(t, _)| *t <= tick);
        let rate = 1e9 / self.ticks_per_second.max(1) as f64;
        let before = i.checked_sub(1).map_or(self.begin(), |i| self.syncs[i]);
        let rate = match self.syncs.get(i) {
            Some(after) if after.0 > before.0 && after.1 >= before.1 => {
                (after.1 - before.1) as f64 / (after.0 - before.0) as f64
            }
            _ => rate,
        };
        let after_ns = timeline::truncated(tick.saturating_sub(before.0) as f64 * rate);
        let ns = i128::from(before.1) + i128::from(after_ns);
        let zero = if self.clock == PluginClock::Host { self.zero_host_ns } else { 0 };
        clamped(ns - i128::from(zero))
    }

    /// The first sync point: when the ticks began.
    fn begin(&self) -> (u64, u64) {
        match self.clock {
            PluginClock::Host => (0, self.zero_host_ns.wrapping_add_signed(self.began.0)),
            PluginClock::Virtual => (0, 0),
        }
    }

    /// Sync points in order, without those by which time would run backwards; how many those were.
    fn settle_syncs(&mut self) -> u64 {
        self.syncs.sort_unstable();
        let (all, mut last) = (self.syncs.len(), self.begin().1);
        self.syncs.retain(|&(_, ns)| {
            let on = ns >= last;
            last = last.max(ns);
            on
        });
        (all - self.syncs.len()) as u64
    }
}

/// Whether this looks like a file of the plugin's calls.
pub fn recognise(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

#[cfg(test)]
pub(crate) mod tests;
