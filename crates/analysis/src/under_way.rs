//! How long each thing was under way: on some stack, whichever thing was innermost.
//!
//! A thing that is on the stacks of a chain more than once (recursion, a worker that waits for
//! another of its kind) counts once. Stretches come in the order of the path, in which a stack
//! seldom differs much from the one before: so what is left and what is entered is followed from
//! stretch to stretch, and a stack is never walked for the time that passes in it.

use crate::chain::Frame;
use timeline::{Ns, SpanId, Spans};

/// Follows stretches; `keys` says which thing each span is.
pub struct UnderWay<'a> {
    spans: &'a Spans,
    keys: &'a [u32],
    /// The innermost span of each frame of the last chain.
    chain: Vec<Option<SpanId>>,
    /// How long all stretches so far took.
    now: Ns,
    things: Vec<Thing>,
}

#[derive(Clone, Copy, Default)]
struct Thing {
    total: Ns,
    /// Since when it is on a stack, if it is on any.
    since: Ns,
    /// How often it is on the stacks.
    count: u32,
}

impl<'a> UnderWay<'a> {
    pub fn new(spans: &'a Spans, keys: &'a [u32], key_count: usize) -> Self {
        UnderWay { spans, keys, chain: Vec::new(), now: Ns::ZERO, things: vec![Thing::default(); key_count] }
    }

    pub fn add(&mut self, chain: &[Frame], length: Ns) {
        for i in 0..chain.len().max(self.chain.len()) {
            let from = self.chain.get(i).copied().flatten();
            self.go(from, chain.get(i).and_then(|frame| frame.span));
        }
        self.chain.clear();
        self.chain.extend(chain.iter().map(|frame| frame.span));
        self.now += length;
    }

    /// Leaves what is only around `from`, and enters what is only around `to`.
    fn go(&mut self, mut from: Option<SpanId>, mut to: Option<SpanId>) {
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

    /// The time of each key.
    pub fn totals(mut self) -> Vec<Ns> {
        self.add(&[], Ns::ZERO);
        self.things.into_iter().map(|thing| thing.total).collect()
    }
}

/// Spans that some chain had on a stack.
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

    /// Of each span, whether it or one inside it was added.
    pub fn with_outer(mut self, spans: &Spans) -> Vec<bool> {
        for (i, parent) in parents(spans).rev() {
            if let (true, Some(parent)) = (self.0[i], parent) {
                self.0[parent.0 as usize] = true;
            }
        }
        self.0
    }
}

/// Every span's number and parent: outer spans come first.
fn parents(spans: &Spans) -> impl DoubleEndedIterator<Item = (usize, Option<SpanId>)> + '_ {
    (0..spans.len()).map(|i| (i, spans.parent(SpanId(timeline::number(i)))))
}
