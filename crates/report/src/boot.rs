//! A boot with everything the views need of it, computed once.

use crate::Facts;
use analysis::{BootPath, Groups, Phase, Tables};
use timeline::{Ns, Timeline, TrackId};

/// A settled timeline, what the analysis says of it, and how it was run.
pub struct Boot<'a> {
    /// The evidence.
    pub timeline: &'a Timeline,
    /// How it was run.
    pub facts: &'a Facts,
    /// From time zero to the end mark.
    pub total: Ns,
    /// The stages of the boot.
    pub phases: Vec<Phase>,
    /// What the boot waited on at each instant.
    pub path: BootPath,
    /// The path in rows.
    pub tables: Tables,
}

impl<'a> Boot<'a> {
    /// Analyses a settled timeline.
    pub fn new(timeline: &'a Timeline, facts: &'a Facts) -> Self {
        let phases = analysis::phases(timeline);
        let path = analysis::boot_path(timeline);
        let tables = analysis::tables(timeline, &path, &phases, &Groups::LINUX);
        Boot { timeline, facts, total: analysis::total(timeline), phases, path, tables }
    }

    /// A track's name, as the evidence has it.
    pub(crate) fn track_name(&self, track: TrackId) -> &'a str {
        self.timeline.names.get(self.timeline.tracks.get(track).name)
    }
}
