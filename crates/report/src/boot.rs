//! A boot with everything the views need of it, each computed once, and the tables only for views that show them.

use crate::{Facts, Findings, WhereLine};
use analysis::{BootPath, Groups, Phase, ProcessTimes, Stays, Tables};
use std::cell::OnceCell;
use timeline::{Ns, Os, Timeline, TrackId};

/// A finalized timeline, what the analysis says of it, and how it was run.
pub struct Boot<'a> {
    /// The evidence.
    pub timeline: &'a Timeline,
    /// How it was run.
    pub facts: &'a Facts,
    /// From time zero to the end mark.
    pub total: Ns,
    /// The stages of the boot.
    pub phases: Vec<Phase>,
    /// What is slow in it; none where nobody looked.
    pub findings: Option<Findings>,
    /// What the boot waited on at each instant, in as few pieces as possible.
    pub(crate) stays: Stays<'a>,
    path: OnceCell<BootPath>,
    /// The rules by which the path is put in rows.
    groups: Groups,
    tables: OnceCell<Tables>,
    process_times: OnceCell<Vec<Option<ProcessTimes>>>,
}

impl<'a> Boot<'a> {
    /// Analyses a finalized timeline, with the rules of its operating system.
    pub fn new(timeline: &'a Timeline, facts: &'a Facts) -> Self {
        Boot::with_groups(timeline, facts, Boot::groups_of(timeline, facts))
    }

    /// The rules for rows of a boot's operating system.
    pub fn groups_of(timeline: &Timeline, facts: &Facts) -> Groups {
        let said = Os::of(&facts.subject.os);
        Groups::of(if timeline.os.is_known() { &timeline.os } else { &said })
    }

    /// Analyses a finalized timeline, with rules of one's own.
    pub fn with_groups(timeline: &'a Timeline, facts: &'a Facts, groups: Groups) -> Self {
        Boot {
            timeline,
            facts,
            total: analysis::total(timeline),
            phases: analysis::phases(timeline),
            findings: None,
            stays: Stays::new(timeline),
            path: OnceCell::new(),
            groups,
            tables: OnceCell::new(),
            process_times: OnceCell::new(),
        }
    }

    /// What the boot waited on at each instant.
    pub fn path(&self) -> &BootPath {
        self.path.get_or_init(|| self.stays.path())
    }

    /// The path in rows.
    pub fn tables(&self) -> &Tables {
        self.tables.get_or_init(|| analysis::tables(self.timeline, self.path(), &self.phases, &self.groups))
    }

    /// What each process did.
    pub(crate) fn process_times(&self) -> &[Option<ProcessTimes>] {
        self.process_times.get_or_init(|| analysis::process_times(self.timeline))
    }

    /// The rows of the path as documents have them.
    pub fn wheres(&self) -> Vec<WhereLine> {
        self.tables().wheres.iter().map(WhereLine::of).collect()
    }

    /// The rules by which the path is put in rows.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// A track's name, as the evidence has it.
    pub(crate) fn track_name(&self, track: TrackId) -> &'a str {
        self.timeline.names.get(self.timeline.tracks.get(track).name)
    }
}
