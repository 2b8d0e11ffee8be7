//! The times at which accesses were made, as closely as the evidence shows them.
//!
//! The recorder stamps an access with the time at which new code ran last. So the access was made between that time and
//! the next stamp. If a call of its function, or of a function on its call path, is known in between, it was made there.

use hashbrown::{HashMap, HashSet};
use timeline::{ExitRun, Exits, NameId, Ns, Timeline};

/// The largest number of calls among which a run's accesses are shared out. More change little.
const MAX_CALLS: usize = 64;
/// The largest number of callers that are looked at.
const MAX_CALLERS: usize = 64;

/// The calls of the functions that made accesses.
pub struct Places<'a> {
    exits: &'a Exits,
    /// All stamps, in order.
    stamps: Vec<Ns>,
    /// Start and end of each call of a function, by start.
    calls: HashMap<NameId, Vec<(Ns, Ns)>>,
    end: Ns,
}

impl<'a> Places<'a> {
    /// `O(n log n)` in the number of spans and accesses.
    pub fn new(exits: &'a Exits, timeline: &Timeline, end: Ns) -> Places<'a> {
        let mut stamps: Vec<Ns> = exits.runs.iter().filter_map(|run| run.at).collect();
        stamps.sort_unstable();
        stamps.dedup();
        let functions = exits.rows.iter().map(|row| row.function).chain(exits.paths.iter().map(|path| path.function));
        let functions: HashSet<NameId> = functions.filter(|name| !name.is_empty()).collect();
        let mut calls: HashMap<NameId, Vec<(Ns, Ns)>> = HashMap::new();
        for (_, span) in timeline.spans.iter() {
            if functions.contains(&span.name) {
                calls.entry(span.name).or_default().push((span.start, span.end));
            }
        }
        calls.values_mut().for_each(|calls| calls.sort_unstable());
        Places { exits, stamps, calls, end }
    }

    /// The times of a run's accesses, each for the same share of them. `None` if the run has no time.
    pub fn of(&self, run: &ExitRun) -> Option<Vec<Ns>> {
        let at = run.at?;
        let next = self.stamps.partition_point(|stamp| *stamp <= at);
        let until = self.stamps.get(next).copied().unwrap_or(self.end).min(self.end);
        let row = &self.exits.rows[run.row as usize];
        let callers = std::iter::successors(row.path, |&path| self.exits.paths[path as usize].caller);
        let callers = callers.map(|path| self.exits.paths[path as usize].function).take(MAX_CALLERS);
        let places = std::iter::once(row.function).chain(callers).map(|function| self.calls(function, at, until));
        Some(places.into_iter().find(|places| !places.is_empty()).unwrap_or_else(|| vec![at]))
    }

    /// The first instant of each call of a function in a stretch.
    fn calls(&self, function: NameId, at: Ns, until: Ns) -> Vec<Ns> {
        let Some(calls) = self.calls.get(&function) else { return Vec::new() };
        let later = calls.partition_point(|call| call.0 <= at);
        // Calls of one function overlap only if it calls itself, or on two threads: the last one is looked at.
        let under_way = later.checked_sub(1).filter(|&last| at < calls[last].1).map(|_| at);
        let begun = calls[later..].iter().map(|call| call.0).take_while(|start| *start < until);
        under_way.into_iter().chain(begun).take(MAX_CALLS).collect()
    }
}
