//! Polls the kernel log in guest memory while the guest runs: for the awaited line, and for growth.

use recording::{End, EndMark};

use crate::awaited::{Awaited, Meaning};
use crate::lines::shown;
use crate::memory::{EventLogPlace, LogProbe, PhysicalMemory};
use crate::vmm::Vmm;

/// Bounds of the pause between two searches of memory for a kernel log.
const FIND_PAUSE_NS: std::ops::RangeInclusive<i64> = 100_000_000..=1_000_000_000;
/// The pause after a search, as a multiple of its duration. So searches take at most one fifth of a host CPU.
const FIND_PAUSE_FACTOR: i64 = 4;

/// The kernel log in memory, while the guest runs.
pub(super) struct LogWatch {
    probe: Option<LogProbe>,
    /// The place of the events of a recorder inside the kernel. It is searched only when a hang is suspected.
    events: Option<EventLogPlace>,
    looks: Looks,
    /// Records below this sequence number were checked.
    looked_below: u64,
    next_find_ns: i64,
}

/// The history of looks at the newest sequence number, from which the age of a record is bounded.
#[derive(Debug, Default)]
struct Looks {
    newest: Option<u64>,
    /// The time of the last look.
    last_ns: i64,
    /// The time of the last look at which the present newest record was absent.
    before_ns: i64,
}

impl Looks {
    /// Notes a look that began at `at_ns`.
    fn note(&mut self, at_ns: i64, newest: Option<u64>) {
        if newest != self.newest {
            self.newest = newest;
            self.before_ns = self.last_ns;
        }
        self.last_ns = at_ns;
    }

    /// The time of the last look at which this new record was absent, or 0 if there was no look.
    fn absent_ns(&self, seq: u64) -> i64 {
        if self.newest.is_none_or(|newest| seq > newest) { self.last_ns } else { self.before_ns }
    }
}

impl LogWatch {
    pub(super) fn new() -> LogWatch {
        LogWatch {
            probe: None,
            events: None,
            looks: Looks::default(),
            looked_below: 0,
            next_find_ns: *FIND_PAUSE_NS.start(),
        }
    }

    /// True if a look is due. A look at a log that was found is cheap; a search is expensive.
    pub(super) fn is_due(&self, now_ns: i64) -> bool {
        self.probe.is_some() || now_ns >= self.next_find_ns
    }

    /// Looks for the awaited line, which never appears on a quiet console. `running_ns` is the time at which the guest's CPUs began to run.
    pub(super) fn look(
        &mut self,
        until: &mut Awaited,
        ram: &dyn PhysicalMemory,
        running_ns: Option<i64>,
        began_ns: i64,
        vm: &dyn Vmm,
    ) -> Option<(Meaning, End)> {
        let Some(probe) = self.probe.take().or_else(|| LogProbe::find(ram).ok()) else {
            let done_ns = vm.elapsed_ns();
            let pause_ns =
                (FIND_PAUSE_FACTOR * (done_ns - began_ns)).clamp(*FIND_PAUSE_NS.start(), *FIND_PAUSE_NS.end());
            self.next_find_ns = done_ns + pause_ns;
            return None;
        };
        // If the log is no longer there, the probe is dropped and the next look searches again.
        let newest = probe.newest_seq(ram).ok()?;
        let end =
            if newest == self.looks.newest { None } else { self.match_records(&probe, until, ram, running_ns, vm) };
        self.looks.note(began_ns, newest);
        self.probe = Some(probe);
        end
    }

    fn match_records(
        &mut self,
        probe: &LogProbe,
        until: &mut Awaited,
        ram: &dyn PhysicalMemory,
        running_ns: Option<i64>,
        vm: &dyn Vmm,
    ) -> Option<(Meaning, End)> {
        let records = probe.read(ram).map(|log| log.records).unwrap_or_default();
        let looked_below = self.looked_below;
        if let Some(last) = records.last() {
            // The kernel may still be writing the newest record, so it is checked again.
            self.looked_below = last.seq;
        }
        let mut fresh = records.iter().filter(|record| record.seq >= looked_below);
        let (meaning, record) = fresh.find_map(|record| match until.hear(&record.text) {
            Meaning::Nothing => None,
            meaning => Some((meaning, record)),
        })?;
        let at_ns = vm.elapsed_ns();
        // 0 means that the kernel's clock did not run yet.
        let printk_ns = i64::try_from(record.ts_ns).ok().filter(|&ns| ns > 0);
        // The kernel's clock began after the machine did.
        let not_before_ns = printk_ns.zip(running_ns).map_or(0, |(ns, from)| from.saturating_add(ns));
        let after_ns = self.looks.absent_ns(record.seq).max(not_before_ns).min(at_ns);
        let end = End {
            mark: Some(EndMark::Line),
            what: format!("{} (in the kernel log)", shown(&record.text, 200)),
            at_ns,
            error_ns: Some(at_ns - after_ns),
            printk_ns,
        };
        Some((meaning, end))
    }

    /// A number that changes with every record of the kernel log, or else with every event of a recorder inside the kernel.
    pub(super) fn newest_record(&mut self, ram: &dyn PhysicalMemory) -> Option<u64> {
        self.probe = self.probe.take().or_else(|| LogProbe::find(ram).ok());
        let newest = self.probe.as_ref().and_then(|probe| probe.newest_seq(ram).ok()).flatten();
        newest.or_else(|| {
            self.events = self.events.or_else(|| EventLogPlace::find(ram));
            self.events?.records(ram)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_as_old_as_the_last_look_that_did_not_see_it() {
        let mut looks = Looks::default();
        assert_eq!(looks.absent_ns(7), 0, "it may have been there all the time");
        looks.note(100, Some(5));
        looks.note(200, Some(5));
        assert_eq!(looks.absent_ns(6), 200);
        looks.note(300, Some(6));
        looks.note(400, Some(6));
        // The number was seen at 300, and the text only now.
        assert_eq!(looks.absent_ns(6), 200);
        assert_eq!(looks.absent_ns(9), 400);
    }
}
