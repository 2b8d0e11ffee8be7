//! Takes over from an analysed boot the figures that a bench keeps. The caller supplies the boot and its outcome.

use crate::metrics::{Source, TIMED_WAITS, Values};
use crate::runs::{Measured, PhaseTime};
use analysis::{Phase, Tables};
use recording::Recording;
use timeline::{Cost, MilestoneKind, Ns, Timeline};

/// Maximum number of rows kept one by one; the rest becomes one row. A few hundred are usual, but a guest can have any number.
const MAX_ROWS: usize = 1000;
/// Maximum number of milestones kept, the first ones. A machine with every service has a few hundred.
const MAX_MILESTONES: usize = 1000;
/// Maximum number of characters kept of a row's name.
const MAX_NAME_CHARACTERS: usize = 200;
/// Name of the row that holds the rest.
const REST: &str = "(all other rows)";

/// Reason why a boot that reached its end mark has no length.
const NO_LENGTH: &str = "its length is not known, because nothing in it has a time of the guest's; leave out \
                         --no-first-executions, or record calls";

impl Measured {
    /// Sets the total, phases and rows of a boot that reached its end mark. A boot of unknown length has no total; it does not
    /// count as 0 s.
    pub fn take_figures(&mut self, timeline: &Timeline, total: Cost, phases: &[Phase], tables: &Tables) {
        if total.length <= Ns::ZERO {
            NO_LENGTH.clone_into(&mut self.detail);
            return;
        }
        self.total_ns = Some(total.length.0);
        self.take_waits(timeline, total);
        let phase = |p: &Phase| PhaseTime::new(p.name.clone(), timeline.cost(p.start, p.end));
        self.phases = phases.iter().map(phase).collect();
        self.rows = rows(tables.wheres.iter().map(|row| (row.name.as_str(), row.self_cost())));
    }
}

impl Measured {
    /// Sets the timed waits in a boot's total, if they are known.
    pub fn take_waits(&mut self, timeline: &Timeline, total: Cost) {
        self.waited_ns = timeline.timed_waits.is_some().then_some(total.waited.0);
        if let Some(waited_ns) = self.waited_ns.and_then(|ns| u64::try_from(ns).ok()) {
            self.metrics.set(TIMED_WAITS, waited_ns);
        }
    }

    /// Sets the milestones that the boot passed, with their times.
    pub fn take_milestones(&mut self, timeline: &Timeline) {
        let passed = timeline.milestones();
        let named = passed.iter().filter(|milestone| milestone.kind != MilestoneKind::End).take(MAX_MILESTONES);
        let until = |at: Ns| timeline.cost(Ns::ZERO, at);
        let named = named.map(|passed| PhaseTime::new(cut(&passed.kind.name(&timeline.names)), until(passed.at)));
        self.milestones = named.collect();
    }
}

impl Values {
    /// The metrics of a recording, from its manifest and from the guest's reports of its memory.
    ///
    /// # Errors
    /// If a file of the recording cannot be read.
    pub fn of_recording(recording: &Recording) -> Result<Values, recording::Error> {
        let vmm = &recording.manifest().vmm;
        let (at_end, after) = (evidence::meminfo(recording)?, evidence::meminfo_after_workload(recording)?);
        Ok(Values::gather(|source| match source {
            Source::Meminfo(line) => at_end.bytes(line),
            Source::MeminfoAfterWorkload(line) => after.bytes(line),
            Source::VmmMaxRss => vmm.max_rss_bytes,
            Source::VmmCpuTime => vmm.user_ns?.checked_add(vmm.system_ns?),
            Source::Length | Source::TimedWaits | Source::Less(..) => None,
        }))
    }
}

fn cut(name: &str) -> String {
    name.chars().take(MAX_NAME_CHARACTERS).collect()
}

/// The rows, largest first, of which the ones beyond [`MAX_ROWS`] are summed into one.
fn rows<'a>(all: impl Iterator<Item = (&'a str, Cost)>) -> Vec<PhaseTime> {
    let mut rows: Vec<PhaseTime> = all.map(|(name, cost)| PhaseTime::new(cut(name), cost)).collect();
    let rest = |part: fn(&PhaseTime) -> i64| rows.iter().skip(MAX_ROWS).map(part).sum::<i64>();
    let rest = PhaseTime { name: REST.to_owned(), ns: rest(|row| row.ns), waited_ns: rest(|row| row.waited_ns) };
    rows.truncate(MAX_ROWS);
    rows.extend((rest.ns != 0).then_some(rest));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_beyond_the_most_are_one() {
        let names: Vec<String> = (0..MAX_ROWS + 5).map(|i| i.to_string()).collect();
        let found = rows(names.iter().map(|name| (name.as_str(), Cost::busy(Ns(2)))));
        assert_eq!((found.len(), found[MAX_ROWS].ns), (MAX_ROWS + 1, 10));
        assert_eq!(found.iter().map(|row| row.ns).sum::<i64>(), 2 * (MAX_ROWS as i64 + 5));
        assert_eq!(
            rows([("a".repeat(10_000).as_str(), Cost::busy(Ns(1)))].into_iter())[0].name.len(),
            MAX_NAME_CHARACTERS
        );
    }
}
