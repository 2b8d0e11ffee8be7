//! The merged stacks of samples, as a tree for each event. They have a place in no time, so a page can show them also for
//! a profile without times.

use super::Names;
use crate::Boot;
use page_data::{Column, Table};
use std::collections::HashMap;
use timeline::{NameId, SampledEvent};

/// The most nodes. Samples of further stacks count for the innermost caller that has a node.
const MAX_NODES: usize = 100_000;

/// Nodes of all events, callers before callees.
#[derive(Default)]
struct Stacks {
    /// The event of each node, 1 + its caller's place or 0, its name, and the weight of samples that ended in it.
    nodes: Vec<(u64, u64, NameId, u64)>,
    /// The node of an event's name below a caller.
    places: HashMap<(u64, u64, NameId), u64>,
}

impl Stacks {
    /// 1 + the place of a name below a caller; the caller itself if there are too many nodes.
    fn below(&mut self, event: u64, caller: u64, name: NameId, most: usize) -> u64 {
        if let Some(&known) = self.places.get(&(event, caller, name)) {
            return known;
        }
        if self.nodes.len() >= most {
            return caller;
        }
        self.nodes.push((event, caller, name, 0));
        let place = self.nodes.len() as u64;
        self.places.insert((event, caller, name), place);
        place
    }

    fn add(&mut self, number: u64, event: &SampledEvent<'_>, most: usize) {
        for (sample, weight) in event.weighed() {
            let mut at = 0;
            for frame in sample.stack.iter() {
                let below = self.below(number, at, frame.name, most);
                if below == at {
                    break;
                }
                at = below;
            }
            // Samples without a stack have a node without a name. No bound holds for it: each event has one at most.
            let at = if at == 0 { self.below(number, 0, NameId::EMPTY, usize::MAX) } else { at };
            if let Some(node) = usize::try_from(at).ok().and_then(|at| self.nodes.get_mut(at.checked_sub(1)?)) {
                node.3 = node.3.saturating_add(weight);
            }
        }
    }
}

/// The stacks of all events, in the order of the summary's events.
pub(super) fn stacks(boot: &Boot, names: &mut Names) -> Table<'static> {
    let mut stacks = Stacks::default();
    for (event, number) in boot.timeline.sampled.iter().flat_map(timeline::Sampled::events).zip(0..) {
        stacks.add(number, &event, MAX_NODES);
    }
    let all = &stacks.nodes;
    Table::new("stacks", all.len())
        .with("event", Column::Counts(all.iter().map(|node| node.0).collect()))
        .with("parent", Column::Counts(all.iter().map(|node| node.1).collect()))
        .with("name", Column::Counts(all.iter().map(|node| names.name(node.2)).collect()))
        .with("weight", Column::Counts(all.iter().map(|node| node.3).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use timeline::{Names as TimelineNames, Sample, Sampled, SampledFrame, SampledThread};

    /// Samples of one event, by their stacks.
    fn sampled(stacks: &[&[NameId]]) -> Sampled {
        let mut sampled = Sampled::default();
        for stack in stacks {
            let frame = |&name: &NameId| SampledFrame { address: 0, name, is_named: true };
            sampled.add(Sample {
                at: None,
                cpu: None,
                thread: SampledThread { name: NameId::EMPTY, tid: 0 },
                event: NameId::EMPTY,
                is_user: None,
                period: None,
                stack: stack.iter().map(frame).collect::<Arc<[_]>>(),
            });
        }
        sampled
    }

    #[test]
    fn samples_are_merged_by_their_stacks_and_none_is_lost_beyond_the_bound() {
        let mut names = TimelineNames::default();
        let [main, read, write] = ["main", "read", "write"].map(|name| names.intern(name));
        let sampled = sampled(&[&[main, read], &[main, write], &[main, read], &[main], &[]]);
        let built = |most| {
            let mut stacks = Stacks::default();
            stacks.add(0, &sampled.events()[0], most);
            stacks.nodes
        };
        let whole = [(0, 0, main, 1), (0, 1, read, 2), (0, 1, write, 1), (0, 0, NameId::EMPTY, 1)];
        assert_eq!(built(MAX_NODES), whole);
        assert_eq!(built(2), [(0, 0, main, 2), (0, 1, read, 2), (0, 0, NameId::EMPTY, 1)], "write counts for main");
    }
}
