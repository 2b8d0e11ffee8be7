//! The total time of each thing: how long it was on any stack, with all that it called or waited for.
//!
//! A thing that is on the stacks of a chain more than once counts once. Examples are recursion, and a worker that waits
//! for another of its kind. Stretches come in the order of the path, and a stack seldom differs much from the one
//! before. Therefore this module tracks only the spans that are left or entered between stretches. It never walks a
//! whole stack to add time.

use crate::chain::Frame;
use timeline::{Cost, SpanId, Spans};

/// Total times of things, added up stretch by stretch. `keys` maps each span to its thing.
pub struct TotalTimes<'a> {
    spans: &'a Spans,
    keys: &'a [u32],
    /// The innermost span of each frame of the last chain.
    chain: Vec<Option<SpanId>>,
    /// The length of all stretches added.
    now: Cost,
    things: Vec<Thing>,
}

#[derive(Clone, Copy, Default)]
struct Thing {
    total: Cost,
    /// Since when it has been on a stack, if it is on one.
    since: Cost,
    /// The number of times that it is on the stacks.
    count: u32,
}

impl<'a> TotalTimes<'a> {
    pub fn new(spans: &'a Spans, keys: &'a [u32], key_count: usize) -> Self {
        TotalTimes { spans, keys, chain: Vec::new(), now: Cost::ZERO, things: vec![Thing::default(); key_count] }
    }

    pub fn add(&mut self, chain: &[Frame], cost: Cost) {
        for i in 0..chain.len().max(self.chain.len()) {
            let from = self.chain.get(i).copied().flatten();
            self.switch_stack(from, chain.get(i).and_then(|frame| frame.span));
        }
        self.chain.clear();
        self.chain.extend(chain.iter().map(|frame| frame.span));
        self.now += cost;
    }

    /// Leaves the spans that are only around `from`, and enters those that are only around `to`.
    fn switch_stack(&mut self, mut from: Option<SpanId>, mut to: Option<SpanId>) {
        let spans = self.spans;
        while from != to {
            match (from, to) {
                (Some(leaving), to) if to.is_none_or(|to| spans.depth(leaving) >= spans.depth(to)) => {
                    self.leave(leaving);
                    from = spans.parent(leaving);
                }
                (_, Some(entering)) => {
                    self.enter(entering);
                    to = spans.parent(entering);
                }
                _ => break,
            }
        }
    }

    fn enter(&mut self, span: SpanId) {
        let thing = &mut self.things[self.keys[span.0 as usize] as usize];
        if thing.count == 0 {
            thing.since = self.now;
        }
        thing.count += 1;
    }

    fn leave(&mut self, span: SpanId) {
        let thing = &mut self.things[self.keys[span.0 as usize] as usize];
        thing.count -= 1;
        if thing.count == 0 {
            thing.total += self.now - thing.since;
        }
    }

    /// Returns the total time of each key.
    pub fn totals(mut self) -> Vec<Cost> {
        self.add(&[], Cost::ZERO);
        self.things.into_iter().map(|thing| thing.total).collect()
    }
}

/// The spans that some chain had on a stack.
pub struct Touched(Vec<bool>);

impl Touched {
    pub fn new(spans: &Spans) -> Self {
        Touched(vec![false; spans.len()])
    }

    pub fn add(&mut self, chain: &[Frame]) {
        for span in chain.iter().filter_map(|frame| frame.span) {
            self.0[span.0 as usize] = true;
        }
    }

    /// Returns true for each span that was added or that contains one.
    pub fn with_outer(mut self, spans: &Spans) -> Vec<bool> {
        for (i, parent) in parents(spans).rev() {
            if let (true, Some(parent)) = (self.0[i], parent) {
                self.0[parent.0 as usize] = true;
            }
        }
        self.0
    }
}

/// Iterates over every span's index and parent. Outer spans come first.
fn parents(spans: &Spans) -> impl DoubleEndedIterator<Item = (usize, Option<SpanId>)> + '_ {
    (0..spans.len()).map(|i| (i, spans.parent(SpanId(timeline::number(i)))))
}
