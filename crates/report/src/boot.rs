//! A boot with everything that the views need, each computed once. The tables are computed only for views that show
//! them.

use crate::{Facts, Findings, Priced, WhereLine};
use analysis::{BootPath, DeferredProbe, Groups, Initcall, Phase, ProcessTimes, Row, Stays, Tables};
use std::cell::OnceCell;
use timeline::{Cost, Ns, Os, Timeline, TrackId};

/// A finalized timeline with its analysis and the facts of its run.
pub struct Boot<'a> {
    pub timeline: &'a Timeline,
    /// The configuration of the run.
    pub facts: &'a Facts,
    /// The time from zero to the end mark.
    pub total: Ns,
    pub phases: Vec<Phase>,
    /// The part of the boot that a format with a window shows, from and to; the whole boot unless set.
    pub window: (Ns, Ns),
    /// The findings; `None` if no rules ran.
    pub findings: Option<Findings>,
    /// The counts and ranges of a boot at the prices of a machine model.
    pub priced: Option<Priced>,
    /// The stays of the boot path: what the boot waited for at each instant, in as few pieces as possible.
    pub(crate) stays: Stays<'a>,
    path: OnceCell<BootPath>,
    /// The rules that put the path in rows.
    groups: Groups,
    tables: OnceCell<Tables>,
    process_times: OnceCell<Vec<Option<ProcessTimes>>>,
    initcalls: OnceCell<Vec<Initcall>>,
    deferred_probes: OnceCell<Vec<DeferredProbe>>,
}

impl<'a> Boot<'a> {
    /// Analyses a finalized timeline with the rules of its operating system.
    pub fn new(timeline: &'a Timeline, facts: &'a Facts) -> Self {
        Boot::with_groups(timeline, facts, Boot::groups_of(timeline, facts))
    }

    /// The rules for rows of the boot's operating system.
    pub fn groups_of(timeline: &Timeline, facts: &Facts) -> Groups {
        let subject_os = Os::of(&facts.subject.os);
        Groups::of(if timeline.os.is_known() { &timeline.os } else { &subject_os })
    }

    /// Analyses a finalized timeline with the caller's rules.
    pub fn with_groups(timeline: &'a Timeline, facts: &'a Facts, groups: Groups) -> Self {
        Boot {
            timeline,
            facts,
            total: analysis::total(timeline),
            window: (Ns::ZERO, analysis::total(timeline)),
            phases: analysis::phases(timeline),
            findings: None,
            priced: None,
            stays: Stays::new(timeline),
            path: OnceCell::new(),
            groups,
            tables: OnceCell::new(),
            process_times: OnceCell::new(),
            initcalls: OnceCell::new(),
            deferred_probes: OnceCell::new(),
        }
    }

    /// The boot path: what the boot waited for at each instant.
    pub fn path(&self) -> &BootPath {
        self.path.get_or_init(|| self.stays.path())
    }

    /// The length of the boot in its parts.
    pub fn cost(&self) -> Cost {
        if self.timeline.timed_waits.is_none() {
            return Cost::busy(self.total);
        }
        match self.path() {
            path if path.stretches.is_empty() => self.timeline.cost(Ns::ZERO, self.total),
            path => path.cost(self.timeline),
        }
    }

    /// The path in rows.
    pub fn tables(&self) -> &Tables {
        self.tables.get_or_init(|| self.stays.tables(self.path(), &self.phases, &self.groups))
    }

    /// Takes the path in rows out of a boot that is not shown again.
    pub(crate) fn take_tables(&mut self) -> Tables {
        self.tables();
        self.tables.take().unwrap_or_default()
    }

    /// The time of each process on CPUs, on the run queue and in waits, if known.
    pub(crate) fn process_times(&self) -> &[Option<ProcessTimes>] {
        self.process_times.get_or_init(|| analysis::process_times(self.timeline))
    }

    /// The initcalls, the longest first.
    pub(crate) fn initcalls(&self) -> &[Initcall] {
        self.initcalls.get_or_init(|| analysis::initcalls(self.timeline))
    }

    /// The devices whose probe the kernel put off.
    pub(crate) fn deferred_probes(&self) -> &[DeferredProbe] {
        self.deferred_probes.get_or_init(|| analysis::deferred_probes(self.timeline))
    }

    /// The rows of the path, as documents list them.
    pub fn wheres(&self) -> Vec<WhereLine> {
        self.lines_of(self.tables().wheres.iter().cloned())
    }

    /// Rows of the path, as documents list them.
    pub(crate) fn lines_of(&self, rows: impl Iterator<Item = Row>) -> Vec<WhereLine> {
        let mut lines: Vec<WhereLine> = rows.map(WhereLine::from).collect();
        if let Some(priced) = &self.priced {
            priced.add_to_rows(&mut lines);
        }
        lines
    }

    /// The rules that put the path in rows.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// A track's name, unchanged from the evidence.
    pub(crate) fn track_name(&self, track: TrackId) -> &'a str {
        self.timeline.names.get(self.timeline.tracks.get(track).name)
    }
}
