//! A weighted call tree: callers and callees, numbers of calls, and what each call path spent.
//!
//! It counts every call, while only long calls are spans. Samples, folded stacks and the output of profilers are
//! profiles too. Weights have the unit of the evidence: instructions, nanoseconds, samples. A node is one call path.
//! Its children come after it, so one backward pass sums up a tree.
//!
//! For each path, the profile also holds the time in which a [span](crate::Spans) of it was the innermost. A path's
//! remaining time was spent in calls too short to be spans. That time lies in the spans of its callers.

use std::collections::HashMap;

use crate::{NameId, SpanKind, number};

/// The unit of weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Weight {
    #[default]
    Instructions,
    /// Nanoseconds.
    Ns,
    Samples,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(u32);

impl NodeId {
    /// Its index among [`Profile::nodes`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One call path, by value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfileNode {
    /// The path without its last step; `None` for the bottom of a stack.
    pub parent: Option<NodeId>,
    /// The function, or the item that stands for it.
    pub name: NameId,
    /// The kind of its spans.
    pub kind: SpanKind,
    /// The number of calls.
    pub calls: u64,
    /// The weight of the function itself.
    pub own: u64,
}

/// A function, summed over all its paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionRow {
    pub name: NameId,
    /// True for the bottom of stacks, which is not a function and has the name of what runs on them.
    pub bottom: bool,
    /// The number of calls.
    pub calls: u64,
    /// The weight of the function itself.
    pub own: u64,
    /// The weight of the function and its callees. A function that calls itself counts once.
    pub total: u64,
}

/// A weighted call tree.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// The unit of its weights.
    pub weight: Weight,
    parent: Vec<Option<NodeId>>,
    name: Vec<NameId>,
    kind: Vec<SpanKind>,
    calls: Vec<u64>,
    own: Vec<u64>,
    in_spans: Vec<u64>,
    index: HashMap<(Option<NodeId>, NameId), NodeId>,
}

impl Profile {
    /// An empty profile.
    pub fn new(weight: Weight) -> Profile {
        Profile { weight, ..Profile::default() }
    }

    /// The number of nodes.
    pub fn len(&self) -> usize {
        self.name.len()
    }

    pub fn is_empty(&self) -> bool {
        self.name.is_empty()
    }

    /// The node for `name` called from `parent`, created if needed.
    ///
    /// # Panics
    /// With more than 2^32 nodes.
    pub fn node(&mut self, parent: Option<NodeId>, name: NameId) -> NodeId {
        let next = NodeId(u32::try_from(self.name.len()).expect("fewer nodes than 2^32"));
        let id = *self.index.entry((parent, name)).or_insert(next);
        if id == next {
            self.parent.push(parent);
            self.name.push(name);
            self.kind.push(SpanKind::Call);
            self.calls.push(0);
            self.own.push(0);
            self.in_spans.push(0);
        }
        id
    }

    /// Sets the kind of a node's spans, where they are not calls.
    pub fn set_kind(&mut self, node: NodeId, kind: SpanKind) {
        self.kind[node.index()] = kind;
    }

    pub fn add(&mut self, node: NodeId, calls: u64, own: u64) {
        let i = node.0 as usize;
        self.calls[i] = self.calls[i].saturating_add(calls);
        self.own[i] = self.own[i].saturating_add(own);
    }

    /// Adds weight that was spent while a span of this path was the innermost. At the bottom of a stack, it is the
    /// weight spent while no span was open.
    pub fn add_in_spans(&mut self, node: NodeId, spent: u64) {
        let i = node.0 as usize;
        self.in_spans[i] = self.in_spans[i].saturating_add(spent);
    }

    /// Scales the self weight of each node, and the weight in its spans.
    pub fn scale(&mut self, factors: impl Fn(NodeId) -> (f64, f64)) {
        for i in 0..self.name.len() {
            let (own, in_spans) = factors(NodeId(number(i)));
            self.own[i] = scaled(self.own[i], own);
            self.in_spans[i] = scaled(self.in_spans[i], in_spans);
        }
    }

    /// The weight spent while a span of this path was the innermost.
    pub fn in_spans(&self, node: NodeId) -> u64 {
        self.in_spans[node.0 as usize]
    }

    /// The path that continues `parent` with `name`, if there is one.
    pub fn find(&self, parent: Option<NodeId>, name: NameId) -> Option<NodeId> {
        self.index.get(&(parent, name)).copied()
    }

    pub fn get(&self, node: NodeId) -> ProfileNode {
        let i = node.0 as usize;
        ProfileNode {
            parent: self.parent[i],
            name: self.name[i],
            kind: self.kind[i],
            calls: self.calls[i],
            own: self.own[i],
        }
    }

    /// All nodes, parents before their children.
    pub fn nodes(&self) -> impl DoubleEndedIterator<Item = (NodeId, ProfileNode)> + '_ {
        (0..number(self.name.len())).map(NodeId).map(|id| (id, self.get(id)))
    }

    /// The sum of all weights.
    pub fn weight(&self) -> u64 {
        self.own.iter().fold(0, |sum, own| sum.saturating_add(*own))
    }

    /// The total weight of each node with everything below it, in the order of [`Profile::nodes`].
    pub fn totals(&self) -> Vec<u64> {
        let mut totals = self.own.clone();
        for i in (0..totals.len()).rev() {
            if let Some(parent) = self.parent[i] {
                totals[parent.0 as usize] = totals[parent.0 as usize].saturating_add(totals[i]);
            }
        }
        totals
    }

    /// Functions by name, those with the largest self weight first. The time is linear in the number of nodes and
    /// independent of their depth, so recursion 100 000 deep costs no more.
    pub fn functions(&self) -> Vec<FunctionRow> {
        let totals = self.totals();
        let outermost = self.outermost();
        let mut rows: HashMap<(NameId, bool), FunctionRow> = HashMap::new();
        for (NodeId(i), node) in self.nodes() {
            let bottom = node.parent.is_none();
            let new = FunctionRow { name: node.name, bottom, calls: 0, own: 0, total: 0 };
            let row = rows.entry((node.name, bottom)).or_insert(new);
            row.calls = row.calls.saturating_add(node.calls);
            row.own = row.own.saturating_add(node.own);
            if outermost[i as usize] {
                row.total = row.total.saturating_add(totals[i as usize]);
            }
        }
        let mut rows: Vec<FunctionRow> = rows.into_values().collect();
        rows.sort_by_key(|row| (std::cmp::Reverse((row.own, row.total)), row.name, row.bottom));
        rows
    }

    /// For each node, true if no function above it has its name, in the order of [`Profile::nodes`]. It is a walk
    /// through the tree that counts the names on its way.
    pub fn outermost(&self) -> Vec<bool> {
        let (first, next) = self.links();
        let mut on_path: HashMap<(NameId, bool), u32> = HashMap::new();
        let mut outermost = vec![false; self.len()];
        // A node is entered when it is first popped, and left when it is popped again after its children.
        let mut to_do: Vec<(u32, bool)> = (0..number(self.len())).rev().map(|i| (i, false)).collect();
        to_do.retain(|(i, _)| self.parent[*i as usize].is_none());
        while let Some((i, entered)) = to_do.pop() {
            let function = (self.name[i as usize], self.parent[i as usize].is_none());
            let depth = on_path.entry(function).or_default();
            if entered {
                *depth -= 1;
                continue;
            }
            outermost[i as usize] = *depth == 0;
            *depth += 1;
            to_do.push((i, true));
            let children = std::iter::successors(first[i as usize], |child| next[*child as usize]);
            to_do.extend(children.map(|child| (child, false)));
        }
        outermost
    }

    /// The children of each node, in the order of [`Profile::nodes`].
    pub fn children(&self) -> Children {
        let (first, next) = self.links();
        Children { first, next }
    }

    /// For each node, its first child and its next sibling.
    fn links(&self) -> (Vec<Option<u32>>, Vec<Option<u32>>) {
        let (mut first, mut next) = (vec![None; self.len()], vec![None; self.len()]);
        for i in (0..self.len()).rev() {
            if let Some(NodeId(parent)) = self.parent[i] {
                next[i] = first[parent as usize].replace(number(i));
            }
        }
        (first, next)
    }
}

/// The callees of each node, looked up in constant time.
#[derive(Clone, Debug, Default)]
pub struct Children {
    first: Vec<Option<u32>>,
    next: Vec<Option<u32>>,
}

impl Children {
    /// The paths that are one step longer.
    pub fn of(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        std::iter::successors(self.first[node.index()], |child| self.next[*child as usize]).map(NodeId)
    }
}

/// `amount` times `factor`. The result is 0 where the factor is negative or not a number, and saturates at `u64::MAX`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "what is out of range is the nearest in it"
)]
fn scaled(amount: u64, factor: f64) -> u64 {
    (amount as f64 * factor) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Names;

    #[test]
    fn a_function_that_calls_itself_counts_once() {
        let mut names = Names::default();
        let [main, fib, leaf] = ["main", "fib", "leaf"].map(|n| names.intern(n));
        let mut p = Profile::new(Weight::Instructions);
        let m = p.node(None, main);
        let f = p.node(Some(m), fib);
        let g = p.node(Some(f), fib);
        let l = p.node(Some(g), leaf);
        let other = p.node(Some(m), leaf);
        for (node, calls, own) in [(m, 1, 1), (f, 1, 10), (g, 2, 20), (l, 2, 5), (other, 1, 7)] {
            p.add(node, calls, own);
        }
        assert_eq!(p.node(Some(m), fib), f);
        assert_eq!((p.weight(), p.totals()), (43, vec![43, 35, 25, 5, 7]));
        let row = |name, calls, own, total| FunctionRow { name, bottom: name == main, calls, own, total };
        assert_eq!(p.functions(), [row(fib, 3, 30, 35), row(leaf, 3, 12, 12), row(main, 1, 1, 43)]);
    }

    #[test]
    fn as_deep_as_it_likes() {
        let mut names = Names::default();
        let name = names.intern("f");
        let mut p = Profile::new(Weight::Instructions);
        let mut at = None;
        for _ in 0..100_000 {
            at = Some(p.node(at, name));
            p.add(at.unwrap(), 1, 1);
            let node = p.node(at, names.intern("g"));
            p.add(node, 1, 1);
        }
        let rows = p.functions();
        let find = |bottom| rows.iter().find(|r| (r.name, r.bottom) == (name, bottom)).map(|r| (r.calls, r.total));
        assert_eq!((find(true), find(false)), (Some((1, 200_000)), Some((99_999, 199_998))));
    }
}
