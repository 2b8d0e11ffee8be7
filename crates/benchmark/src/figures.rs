//! The figures that a bench keeps of one boot that was analysed. It reads no file: its caller says what was booted and how
//! that ended.

use crate::metrics::{Source, Values};
use crate::runs::{Measured, PhaseTime};
use analysis::{Phase, Tables};
use recording::Recording;
use timeline::{MilestoneKind, Ns, Timeline};

/// Rows of a boot that are kept one by one; the rest is one row. Usual are some hundred, a guest can have any number.
const ROWS_MOST: usize = 1000;
/// Milestones of a boot that are kept, the first ones. A machine with every service there is has some hundred.
const MILESTONES_MOST: usize = 1000;
/// Of a row's name so many characters are kept.
const NAME_CHARACTERS_MOST: usize = 200;
/// What the rest is called.
const REST: &str = "(all other rows)";

/// Why a boot that reached its end mark has no length.
const NO_LENGTH: &str = "its length is not known, because nothing in it has a time of the guest's; leave out \
                         --no-first-executions, or record calls";

impl Measured {
    /// Takes in what a boot took that reached its end mark. One of which nothing says how long it took is no boot of 0 s.
    pub fn take_figures(&mut self, total: Ns, phases: &[Phase], tables: &Tables) {
        if total <= Ns::ZERO {
            NO_LENGTH.clone_into(&mut self.detail);
            return;
        }
        self.total_ns = Some(total.0);
        self.phases = phases.iter().map(|p| PhaseTime { name: p.name.to_string(), ns: p.length().0 }).collect();
        self.rows = rows(tables.wheres.iter().map(|row| (row.name.as_str(), row.self_time)));
    }
}

impl Measured {
    /// Takes in which milestones the boot passed, and when.
    pub fn take_milestones(&mut self, timeline: &Timeline) {
        let passed = timeline.milestones();
        let named = passed.iter().filter(|milestone| milestone.kind != MilestoneKind::End).take(MILESTONES_MOST);
        let named = named.map(|passed| PhaseTime { name: cut(&passed.kind.name(&timeline.names)), ns: passed.at.0 });
        self.milestones = named.collect();
    }
}

impl Values {
    /// The metrics of a recording, out of its manifest and of what the guest said of its memory.
    ///
    /// # Errors
    /// If a file of it cannot be read.
    pub fn of_recording(recording: &Recording) -> Result<Values, recording::Error> {
        let vmm = &recording.manifest().vmm;
        let (at_end, after) = (evidence::meminfo(recording)?, evidence::meminfo_after_workload(recording)?);
        Ok(Values::gather(|source| match source {
            Source::Meminfo(line) => at_end.bytes(line),
            Source::MeminfoAfterWorkload(line) => after.bytes(line),
            Source::VmmMaxRss => vmm.max_rss_bytes,
            Source::VmmCpuTime => vmm.user_ns?.checked_add(vmm.system_ns?),
            Source::Length | Source::Less(..) => None,
        }))
    }
}

fn cut(name: &str) -> String {
    name.chars().take(NAME_CHARACTERS_MOST).collect()
}

/// The rows, the largest first; what is beyond the most is one.
fn rows<'a>(all: impl Iterator<Item = (&'a str, Ns)>) -> Vec<PhaseTime> {
    let mut rows: Vec<PhaseTime> = all.map(|(name, time)| PhaseTime { name: cut(name), ns: time.0 }).collect();
    let rest: i64 = rows.iter().skip(ROWS_MOST).map(|row| row.ns).sum();
    rows.truncate(ROWS_MOST);
    rows.extend((rest != 0).then(|| PhaseTime { name: REST.to_owned(), ns: rest }));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_beyond_the_most_are_one() {
        let names: Vec<String> = (0..ROWS_MOST + 5).map(|i| i.to_string()).collect();
        let found = rows(names.iter().map(|name| (name.as_str(), Ns(2))));
        assert_eq!((found.len(), found[ROWS_MOST].ns), (ROWS_MOST + 1, 10));
        assert_eq!(found.iter().map(|row| row.ns).sum::<i64>(), 2 * (ROWS_MOST as i64 + 5));
        assert_eq!(rows([("a".repeat(10_000).as_str(), Ns(1))].into_iter())[0].name.len(), NAME_CHARACTERS_MOST);
    }
}
