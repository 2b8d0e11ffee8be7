//! `calls.bin`: every call of a boot, from the QEMU plugin.
//!
//! [`plugin_formats::calls`] defines the format; the plugin writes with it.
//!
//! If a record in a chunk is malformed, the rest of that chunk is skipped and the next chunk is read. Memory grows with
//! the input only. [`profile`] turns the calls into a call tree.

mod read;

pub use read::read;

use crate::formats::plugin_header::clamped;
use plugin_formats::calls::MAGIC;
use std::ops::Range;
use timeline::Ns;

pub use plugin_formats::Clock as PluginClock;
pub use plugin_formats::calls::{Counts, Kind};

/// A node in the tree of call paths: a function, as called along one path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Number of the parent node; 0 if there is no parent.
    pub parent: u32,
    /// The way in which the node was entered.
    pub kind: Kind,
    /// Address of the function; 0 if it is unknown, and for user space.
    pub function: u64,
    /// For the bottom of a stack: an address on that stack.
    pub stack: u64,
}

/// A node's counters at some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The node's number.
    pub node: u32,
    /// Number of times it was entered.
    pub calls: u64,
    /// Self instructions.
    pub insns: u64,
    /// Self ticks; 0 if the clock is virtual.
    pub ticks: u64,
}

/// A long call, or a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The node's number.
    pub node: u32,
    /// The vCPU that it ended on.
    pub vcpu: u16,
    /// Its beginning, in ticks.
    pub from: u64,
    /// Its end, or the time when it was last seen, in ticks.
    pub to: u64,
}

/// A vCPU continues on another stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// The node's number.
    pub node: u32,
    pub vcpu: u16,
    /// The time of the switch, in ticks.
    pub at: u64,
}

/// The kind of event that a [`Mark`] stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkKind {
    /// The first instruction of user space.
    FirstUser,
    /// The first instruction of user space that writes to a port.
    FirstUserOut,
}

/// A notable moment, at which totals were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    pub kind: MarkKind,
    pub vcpu: u16,
    /// Its time, in ticks.
    pub at: u64,
    /// Instructions that its vCPU had executed by then.
    pub insns: u64,
}

/// An interval of one vCPU. The vCPU's totals up to its end are those of the earlier intervals plus this one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    pub vcpu: u16,
    /// Its end, in ticks.
    pub to: u64,
    /// The index in [`Calls::totals`] after its last entry.
    pub(crate) totals_to: usize,
}

/// The share of returns that belong to a known call; `None` if there was no return.
pub fn share_matched(counts: &Counts) -> Option<f64> {
    let known = counts.matched as f64 + counts.redirected as f64;
    let all = known + counts.unmatched as f64 + counts.returns_without_stack as f64;
    (all > 0.0).then(|| known / all)
}

/// The contents of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Calls {
    /// The clock that ticks count.
    pub clock: PluginClock,
    /// Version of QEMU's plugin interface.
    pub api: u8,
    /// Number of vCPUs of the machine.
    pub(crate) vcpus: u32,
    /// Name of the guest's architecture.
    pub target: String,
    /// Time of tick 0 on the host's clock.
    pub began: Ns,
    /// Ticks per second, as measured at the start.
    pub(crate) ticks_per_second: u64,
    /// Length of the shortest call in `spans`.
    pub(crate) min_call_ticks: u64,
    /// The plugin's cost of following a call and its return, in picoseconds of host time.
    pub(crate) call_cost_ps: u64,
    /// Nodes by number. A node that no chunk defines is the bottom of a stack at address 0.
    pub nodes: Vec<Node>,
    /// Totals, in the order of the file.
    pub totals: Vec<Totals>,
    /// The ends of the intervals in `totals`.
    pub intervals: Vec<Interval>,
    /// Long calls that returned. Those of each vCPU are in the order of their returns.
    pub spans: Vec<Stretch>,
    /// Long calls that had not returned when the plugin last looked. If one returned later, it is among `spans` too.
    pub open: Vec<Stretch>,
    /// Switches between stacks.
    pub switches: Vec<Switch>,
    /// Sleeps of vCPUs.
    pub idle: Vec<Stretch>,
    /// Pairs of a tick and the other clock's ns at the same moment.
    pub syncs: Vec<(u64, u64)>,
    /// Notable moments.
    pub marks: Vec<Mark>,
    /// The plugin's counts of what it followed and what it left out.
    pub counts: Counts,
    /// The tick at which QEMU ended; `None` unless it ended normally.
    pub exit: Option<u64>,
    /// Host time zero, in ns of the host's clock. It places `syncs`.
    pub(crate) zero_host_ns: u64,
}

impl Calls {
    /// The numbers of all nodes.
    pub(crate) fn numbers(&self) -> Range<u32> {
        0..timeline::number(self.nodes.len())
    }

    /// The latest totals of each node, indexed by its number, among those written at tick `until` or before.
    pub fn totals_until(&self, until: u64) -> Vec<Totals> {
        let mut last: Vec<Totals> = self.numbers().map(|node| Totals { node, ..Totals::default() }).collect();
        let mut from = 0;
        // The file was cut before this interval ended: its end is unknown.
        let rest = Interval { vcpu: 0, to: u64::MAX, totals_to: self.totals.len() };
        for interval in self.intervals.iter().chain([&rest]) {
            let totals = &self.totals[from..interval.totals_to];
            from = interval.totals_to;
            if interval.to <= until {
                for t in totals {
                    let slot = &mut last[t.node as usize];
                    // If two vCPUs wrote chunks, the chunk that comes later in the file is not always the later one in
                    // time.
                    if (t.calls, t.insns) >= (slot.calls, 0) {
                        *slot = *t;
                    }
                }
            }
        }
        last
    }

    /// The addresses of all called functions, each once.
    pub(crate) fn called(&self) -> impl Iterator<Item = u64> + use<> {
        let called = self.nodes.iter().filter(|node| node.kind == Kind::Call && node.function != 0);
        called.map(|node| node.function).collect::<hashbrown::HashSet<u64>>().into_iter()
    }

    /// The last tick in the evidence.
    pub(crate) fn last_tick(&self) -> u64 {
        let intervals = self.intervals.iter().map(|i| i.to);
        intervals.chain(self.spans.iter().map(|s| s.to)).chain(self.exit).max().unwrap_or(0)
    }

    /// The time of a tick, in ns since time zero, interpolated linearly between the sync points around it.
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

    /// The first sync point: the start of the ticks.
    fn begin(&self) -> (u64, u64) {
        match self.clock {
            PluginClock::Host => (0, self.zero_host_ns.wrapping_add_signed(self.began.0)),
            PluginClock::Virtual => (0, 0),
        }
    }

    /// Sorts the sync points and removes those that step back in time. Returns the number of removed ones.
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

/// True if the bytes begin like the plugin's call trace.
pub fn recognise(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

#[cfg(test)]
pub(crate) mod tests;
