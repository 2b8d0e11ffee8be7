//! The names of the threads of a row.

use hashbrown::HashMap;
use std::sync::Arc;
use timeline::{Timeline, Track, TrackId};

/// Names of threads in order. Rows share them: most rows of a boot have the same few.
pub type TrackNames = Arc<[Arc<str>]>;

/// The tracks' names in order. Comparing their ranks is faster than comparing names, and there may be many.
pub(super) struct TracksByName<'a> {
    names: Vec<&'a str>,
    /// The index into `names` for each track.
    rank: Vec<u32>,
    /// The names and the lists of names that rows have so far.
    shared: HashMap<u32, Arc<str>>,
    lists: HashMap<Vec<u32>, TrackNames>,
}

impl<'a> TracksByName<'a> {
    pub(super) fn new(timeline: &'a Timeline) -> Self {
        let name_of = |t: &Track| timeline.names.get(t.name);
        let mut names: Vec<&str> = timeline.tracks.iter().map(|(_, t)| name_of(t)).collect();
        names.sort_unstable();
        names.dedup();
        let rank = timeline
            .tracks
            .iter()
            .map(|(_, t)| timeline::number(names.partition_point(|name| *name < name_of(t))))
            .collect();
        TracksByName { names, rank, shared: HashMap::new(), lists: HashMap::new() }
    }

    pub(super) fn names(&mut self, tracks: &[TrackId]) -> TrackNames {
        let mut ranks: Vec<u32> = tracks.iter().map(|t| self.rank[t.0 as usize]).collect();
        ranks.sort_unstable();
        ranks.dedup();
        if let Some(list) = self.lists.get(&ranks) {
            return list.clone();
        }
        let name = |rank: &u32| self.shared.entry(*rank).or_insert_with(|| self.names[*rank as usize].into()).clone();
        let list: TrackNames = ranks.iter().map(name).collect();
        self.lists.insert(ranks, list.clone());
        list
    }
}
