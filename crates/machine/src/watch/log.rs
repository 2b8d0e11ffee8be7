//! The kernel's log in guest memory, looked at while the guest runs: for the line that is waited for, and for whether it
//! grows.

use recording::{End, EndMark};

use crate::awaited::{Awaited, Meaning};
use crate::lines::shown;
use crate::memory::{EventLogPlace, LogProbe, PhysicalMemory};
use crate::vmm::Vmm;

/// How soon memory is searched for a kernel log again: by how long the last search took, within these.
const FIND_NS: std::ops::RangeInclusive<i64> = 100_000_000..=1_000_000_000;
/// A search may take one part in five of a host CPU.
const FIND_REST: i64 = 4;

/// The kernel log in memory, while the guest runs.
pub(super) struct LogWatch {
    probe: Option<LogProbe>,
    /// Where a recorder inside the kernel keeps its events, once a hang was suspected.
    events: Option<EventLogPlace>,
    looks: Looks,
    /// Records below this were looked at.
    looked_below: u64,
    next_find_ns: i64,
}

/// Since when which records were there: what a look at the newest number tells about every record.
#[derive(Debug, Default)]
struct Looks {
    newest: Option<u64>,
    /// The last look.
    last_ns: i64,
    /// The last look at which the newest of now was not there yet.
    before_ns: i64,
}

impl Looks {
    /// Notes a look that was begun at `at_ns`.
    fn note(&mut self, at_ns: i64, newest: Option<u64>) {
        if newest != self.newest {
            self.newest = newest;
            self.before_ns = self.last_ns;
        }
        self.last_ns = at_ns;
    }

    /// The last look at which this record, which is new, was not there; the start, if there was none.
    fn absent_ns(&self, seq: u64) -> i64 {
        if self.newest.is_none_or(|newest| seq > newest) { self.last_ns } else { self.before_ns }
    }
}

impl LogWatch {
    pub(super) fn new() -> LogWatch {
        LogWatch { probe: None, events: None, looks: Looks::default(), looked_below: 0, next_find_ns: *FIND_NS.start() }
    }

    /// Whether a look is due: one at a log that was found costs little, a search much.
    pub(super) fn is_due(&self, now_ns: i64) -> bool {
        self.probe.is_some() || now_ns >= self.next_find_ns
    }

    /// Looks for the awaited line: on a quiet console it never appears. `running_ns` is when the guest's CPUs began to run.
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
            let rest_ns = (FIND_REST * (done_ns - began_ns)).clamp(*FIND_NS.start(), *FIND_NS.end());
            self.next_find_ns = done_ns + rest_ns;
            return None;
        };
        // One that is no longer where it was is looked for again.
        let found = probe.newest_seq(ram).ok()?;
        let end =
            if found == self.looks.newest { None } else { self.match_records(&probe, until, ram, running_ns, vm) };
        self.looks.note(began_ns, found);
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
            // The newest may still be being written: it is looked at again.
            self.looked_below = last.seq;
        }
        let mut fresh = records.iter().filter(|record| record.seq >= looked_below);
        let (meaning, record) = fresh.find_map(|record| match until.hear(&record.text) {
            Meaning::Nothing => None,
            meaning => Some((meaning, record)),
        })?;
        let at_ns = vm.elapsed_ns();
        // 0 is no time: the kernel's clock did not run yet.
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

    /// A number that changes with every record: of the kernel's log, else of the events that a recorder inside it keeps.
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
        // Seen as a number at 300, but its text only now.
        assert_eq!(looks.absent_ns(6), 200);
        assert_eq!(looks.absent_ns(9), 400);
    }
}
