//! Stacks of what is open, one for each topic. They share one list, because a log can have a new topic in each record.

use hashbrown::HashMap;
use timeline::NameId;

/// The place below the lowest item of a stack.
const BOTTOM: u32 = u32::MAX;

pub(super) struct Stacks<T> {
    /// The place of each topic's newest item in `items`. A topic without an item is not in it.
    newest: HashMap<NameId, u32>,
    /// Items, each with the place of the item below it.
    items: Vec<(T, u32)>,
    /// Places of items that were taken.
    free: Vec<u32>,
}

impl<T> Default for Stacks<T> {
    fn default() -> Self {
        Stacks { newest: HashMap::new(), items: Vec::new(), free: Vec::new() }
    }
}

impl<T: Copy> Stacks<T> {
    pub(super) fn push(&mut self, topic: NameId, item: T) {
        let place = self.free.pop().unwrap_or_else(|| timeline::number(self.items.len()));
        let below = self.newest.insert(topic, place).unwrap_or(BOTTOM);
        match self.items.get_mut(place as usize) {
            Some(free) => *free = (item, below),
            None => self.items.push((item, below)),
        }
    }

    /// Takes the newest item of a topic.
    pub(super) fn pop(&mut self, topic: NameId) -> Option<T> {
        let place = *self.newest.get(&topic)?;
        let (item, below) = self.items[place as usize];
        match below {
            BOTTOM => self.newest.remove(&topic),
            below => self.newest.insert(topic, below),
        };
        self.free.push(place);
        Some(item)
    }

    /// Returns all items by topic, the oldest of each topic first.
    pub(super) fn into_sorted(self) -> Vec<(NameId, T)> {
        let mut topics: Vec<(NameId, u32)> = self.newest.into_iter().collect();
        topics.sort_unstable_by_key(|(topic, _)| *topic);
        let mut sorted = Vec::with_capacity(self.items.len() - self.free.len());
        for (topic, newest) in topics {
            let first = sorted.len();
            let mut place = newest;
            while let Some(&(item, below)) = self.items.get(place as usize) {
                sorted.push((topic, item));
                place = below;
            }
            sorted[first..].reverse();
        }
        sorted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use timeline::Names;

    #[test]
    fn each_topic_has_its_own_stack() {
        let (mut stacks, mut names) = (Stacks::default(), Names::default());
        let mut expected: BTreeMap<NameId, Vec<u32>> = BTreeMap::new();
        // Two items are added for each one taken, with topics in changing order.
        for number in 0..3000u32 {
            let topic = names.intern(&format!("{}", number * 7 % 11));
            if number % 3 == 2 {
                assert_eq!(stacks.pop(topic), expected.get_mut(&topic).and_then(Vec::pop));
            } else {
                stacks.push(topic, number);
                expected.entry(topic).or_default().push(number);
            }
        }
        assert!(stacks.items.len() < 1100, "places of taken items are used again: {}", stacks.items.len());
        let expected = expected.iter().flat_map(|(topic, items)| items.iter().map(|item| (*topic, *item)));
        assert_eq!(stacks.into_sorted(), expected.collect::<Vec<_>>());
    }
}
