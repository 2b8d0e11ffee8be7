//! Corrects printk's clock by first executions that show when messages were printed.
//!
//! The kernel's clock loses ticks until it has a good clocksource: on a busy host with two CPUs, it once counted 2.2 s
//! of 3.4 s. Set at process 1 alone, it places all earlier events too late, and the first messages by most of the loss.
//! But some functions run once and print one known message first. Such a function's first block that calls printk ran
//! when that message got its stamp. This module finds these pairs and puts the clock through them; it places nothing
//! itself.

use crate::boot::clocks::log_ticks;
use crate::formats::first_executions::{Ending, FirstExecutions};
use crate::formats::kernel_log::KernelLog;
use crate::formats::symbols::Symbols;
use timeline::{Clock, Ns, RateSource, SyncPoint};

/// Functions of Linux, and the beginning of the first message that each prints.
const FIRST_PRINTED: [(&str, &str); 22] = [
    ("calibrate_delay", "Calibrating delay loop"),
    ("free_reserved_area", "Freeing SMP alternatives memory"),
    ("smp_init", "smp: Bringing up secondary CPUs"),
    ("devtmpfs_init", "devtmpfs: initialized"),
    ("sock_register", "NET: Registered "),
    ("audit_init", "audit: initializing netlink subsys"),
    ("pci_arch_init", "PCI: Using configuration type"),
    ("pci_direct_init", "PCI: Using configuration type"),
    ("acpi_init", "ACPI: Interpreter enabled"),
    ("netlbl_init", "NetLabel: Initializing"),
    ("dquot_init", "VFS: Disk quotas "),
    ("pnpacpi_init", "pnp: PnP ACPI init"),
    ("tcp_init", "TCP: Hash tables configured"),
    ("system_trusted_keyring_init", "Initialise system trusted keyrings"),
    ("workingset_init", "workingset: timestamp_bits="),
    ("bsg_init", "Block layer SCSI generic (bsg) driver"),
    ("serial8250_init", "Serial: 8250/16550 driver"),
    ("taskstats_init", "registered taskstats version"),
    ("load_system_certificate_list", "Loading compiled-in X.509 certificates"),
    ("mark_rodata_ro", "Write protecting the kernel"),
    ("__clocksource_select", "clocksource: Switched to clocksource"),
    ("run_init_process", "Run "),
];

/// The functions that print: `_printk` since 5.15.
const PRINTK: [&str; 2] = ["_printk", "printk"];

/// A clock that only loses ticks never runs ahead. Two pairs contradict each other if the clock would run ahead between
/// them by more than this share.
const AHEAD_MAX: f64 = 0.1;

/// The times at which functions with a known message first called printk, each with the function's index in
/// [`FIRST_PRINTED`].
#[derive(Debug, Default)]
pub(crate) struct Printed(Vec<(usize, Ns)>);

impl Printed {
    /// Finds these functions among the first executions.
    pub(crate) fn find(run: &FirstExecutions, symbols: &Symbols) -> Printed {
        let printk = PRINTK.iter().find_map(|name| symbols.address(name));
        let mut first_prints: Vec<(usize, Ns)> = Vec::new();
        for block in run.blocks.iter().filter(|b| b.ending == Ending::Call && b.target.is_some() && b.target == printk)
        {
            let Some(place) = symbols.find(block.address) else { continue };
            // Compilers split off the part that prints: `sock_register.cold`.
            let function = place.name.split('.').next().unwrap_or_default();
            let Some(row) = FIRST_PRINTED.iter().position(|(name, _)| *name == function) else { continue };
            if !first_prints.iter().any(|(other, _)| *other == row) {
                first_prints.push((row, block.at));
            }
        }
        Printed(first_prints)
    }

    /// Returns the clock through these messages and, if process 1 set the clock, through that point at the log's end.
    /// `None` if fewer than two messages are known, or if messages that are also in a trace set the clock better.
    pub(crate) fn clock(&self, log: &KernelLog, set: &Clock) -> Option<Clock> {
        let by_process_1 = match set.rate_from {
            RateSource::NearProcess1 => true,
            RateSource::FirstInstruction => false,
            _ => return None,
        };
        let stamped = |begins: &str| log.lines.iter().find(|line| log.text(line).starts_with(begins))?.stamp;
        let pair = |line: Ns, at: Ns| SyncPoint { ticks: log_ticks(line), at };
        let pairs = self.0.iter().filter_map(|&(row, at)| Some(pair(stamped(FIRST_PRINTED[row].1)?, at)));
        let last = log.lines.iter().filter_map(|line| line.stamp).max()?;
        let mut points: Vec<SyncPoint> = pairs.filter(|point| point.ticks < log_ticks(last)).collect();
        points.extend(by_process_1.then(|| pair(last, set.to_ns(log_ticks(last)))));
        let points = agreeing(points);
        let message_count = points.len() - usize::from(by_process_1 && !points.is_empty());
        let mut clock = Clock::through(&set.name, &points).filter(|_| message_count >= 2)?;
        clock.rate_from = RateSource::FirstExecutions { messages: message_count, process_1: by_process_1 };
        Some(clock)
    }
}

/// Returns the largest set of points that agree with each other and include the last point.
fn agreeing(mut points: Vec<SyncPoint>) -> Vec<SyncPoint> {
    points.sort_by_key(|point| (point.ticks, point.at));
    let agree = |a: SyncPoint, b: SyncPoint| {
        let (ticks, time) = (b.ticks.0 - a.ticks.0, (b.at - a.at).0);
        ticks > 0 && time as f64 >= ticks as f64 * (1.0 - AHEAD_MAX)
    };
    // For each point: the length of the longest agreeing chain that ends there, and the point before it.
    let mut chains: Vec<(usize, Option<usize>)> = Vec::new();
    for (i, &point) in points.iter().enumerate() {
        let before = (0..i).filter(|&j| agree(points[j], point)).max_by_key(|&j| chains[j].0);
        chains.push((before.map_or(0, |j| chains[j].0) + 1, before));
    }
    let mut kept: Vec<SyncPoint> = Vec::new();
    let mut next = points.len().checked_sub(1);
    while let Some(i) = next {
        kept.push(points[i]);
        next = chains[i].1;
    }
    kept.reverse();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::first_executions::tests::blocks;
    use timeline::{Diagnostics, Ticks};

    const BASE: u64 = 0xffff_ffff_8100_0000;

    /// Half of the ticks are lost until 0.2 s of the kernel's clock. Process 1 sets the clock at its 1 s, which is
    /// really 1.2 s.
    fn bent(log: &str, rows: &[(i64, u64, u32, Ending, u64, u16)]) -> Option<Clock> {
        let names = ["_printk", "smp_init", "devtmpfs_init", "tcp_init.cold"];
        let text: String = (0..).zip(names).map(|(i, name)| format!("{:x} T {name}\n", BASE + i * 0x100)).collect();
        let mut diagnostics = Diagnostics::default();
        let symbols = Symbols::read("kallsyms", text.as_bytes(), &mut diagnostics);
        let log = KernelLog::read("kmsg.log", log.as_bytes(), &mut diagnostics).unwrap();
        let set = Clock::linear("printk", 1e9, Ticks(1_000_000_000), Ns::from_ms(1_200), RateSource::NearProcess1);
        Printed::find(&blocks(rows), &symbols).clock(&log, &set)
    }

    const LOG: &str = "6,0,0,-;Linux version 6.1\n6,1,100000,-;smp: Bringing up secondary CPUs ...\n\
                       6,2,150000,-;between\n6,3,200000,-;devtmpfs: initialized\n6,4,1000000,-;bootscope-sync 1\n";

    #[test]
    fn the_clock_goes_through_messages_whose_functions_ran() {
        use Ending::{Branch, Call};
        let rows = [
            (190_000, BASE + 0x100, 8, Branch, 0, 1),
            (200_000, BASE + 0x120, 8, Call, BASE, 1),
            (300_000, BASE + 0x140, 8, Call, BASE, 1), // its second message
            (400_000, BASE + 0x210, 8, Call, BASE, 2),
        ];
        let clock = bent(LOG, &rows).unwrap();
        let at = |ms: u64| clock.to_ns(Ticks(ms * 1_000_000));
        assert_eq!([at(100), at(150), at(200), at(1_000)].map(|at| at.0 / 1_000_000), [200, 300, 400, 1_200]);
        assert_eq!(clock.rate_from, RateSource::FirstExecutions { messages: 2, process_1: true });
    }

    #[test]
    fn a_pair_that_contradicts_the_others_is_left_out() {
        // `tcp_init` printed another message before the expected one, or the boot waited for it elsewhere.
        for tcp_init in [150_000, 1_150_000] {
            let log = format!("{LOG}6,5,700000,-;TCP: Hash tables configured\n");
            let mut rows = vec![
                (200_000, BASE + 0x120, 8, Ending::Call, BASE, 1),
                (400_000, BASE + 0x210, 8, Ending::Call, BASE, 1),
                (tcp_init, BASE + 0x310, 8, Ending::Call, BASE, 1),
            ];
            rows.sort_by_key(|row| row.0);
            let clock = bent(&log, &rows).unwrap();
            let at = |ms: u64| clock.to_ns(Ticks(ms * 1_000_000));
            assert_eq!([at(100), at(200), at(600)].map(|at| at.0 / 1_000_000), [200, 400, 800], "{tcp_init}");
        }
    }

    #[test]
    fn one_pair_is_too_few() {
        assert_eq!(bent(LOG, &[(200_000, BASE + 0x120, 8, Ending::Call, BASE, 1)]), None);
    }
}
