//! A weighted call tree: who called whom how often, and what was spent in each.
//!
//! Every call is counted in it, while only long ones are spans. Samples, folded stacks and the output of profilers
//! are profiles too. Weights are what the evidence counts in: instructions, nanoseconds, samples. A node is one path
//! of calls; its children come after it, so that one pass backwards sums up a tree.
//!
//! Beside it, of each path, is what [spans](crate::Spans) show of it: the time in which a span of it was the innermost.
//! What a path has beyond that was spent in calls too short to be spans, and lies in the spans of who called it.

use std::collections::HashMap;

use crate::{NameId, SpanKind, number};

/// What weights are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Weight {
    /// Instructions.
    #[default]
    Instructions,
    /// Nanoseconds.
    Ns,
    /// Samples.
    Samples,
}

/// A node of a [`Profile`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(u32);

impl NodeId {
    /// Its place among [`Profile::nodes`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One path of calls, by value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfileNode {
    /// The path without its last step; none for the bottom of a stack.
    pub parent: Option<NodeId>,
    /// The function, or what stands for it.
    pub name: NameId,
    /// What a span of it is.
    pub kind: SpanKind,
    /// How often it was called.
    pub calls: u64,
    /// Spent in the function itself, in what the profile counts in.
    pub own: u64,
}

/// A function over all its paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionRow {
    /// Its name.
    pub name: NameId,
    /// Whether it is no function but the bottom of stacks, called as what runs on them.
    pub bottom: bool,
    /// How often it was called.
    pub calls: u64,
    /// Spent in it itself.
    pub own: u64,
    /// Spent in it and what it called; where it calls itself, counted once.
    pub total: u64,
}

/// A weighted call tree.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// What its weights are.
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
    /// An empty one.
    pub fn new(weight: Weight) -> Profile {
        Profile { weight, ..Profile::default() }
    }

    /// How many nodes it has.
    pub fn len(&self) -> usize {
        self.name.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.name.is_empty()
    }

    /// The node for `name` called from `parent`, made if need be.
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

    /// Says what spans of a node are, where they are not calls.
    pub fn set_kind(&mut self, node: NodeId, kind: SpanKind) {
        self.kind[node.index()] = kind;
    }

    /// Adds to a node.
    pub fn add(&mut self, node: NodeId, calls: u64, own: u64) {
        let i = node.0 as usize;
        self.calls[i] = self.calls[i].saturating_add(calls);
        self.own[i] = self.own[i].saturating_add(own);
    }

    /// So much was spent while a span of this path was the innermost; of the bottom of a stack, while no span was.
    pub fn add_in_spans(&mut self, node: NodeId, spent: u64) {
        let i = node.0 as usize;
        self.in_spans[i] = self.in_spans[i].saturating_add(spent);
    }

    /// Scales what was spent in each node itself, and in spans of it.
    pub fn scale(&mut self, factors: impl Fn(NodeId) -> (f64, f64)) {
        for i in 0..self.name.len() {
            let (own, in_spans) = factors(NodeId(number(i)));
            self.own[i] = scaled(self.own[i], own);
            self.in_spans[i] = scaled(self.in_spans[i], in_spans);
        }
    }

    /// What was spent while a span of this path was the innermost.
    pub fn in_spans(&self, node: NodeId) -> u64 {
        self.in_spans[node.0 as usize]
    }

    /// The path that goes on from `parent` with `name`, if there is one.
    pub fn find(&self, parent: Option<NodeId>, name: NameId) -> Option<NodeId> {
        self.index.get(&(parent, name)).copied()
    }

    /// One node.
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

    /// Everything that was spent.
    pub fn weight(&self) -> u64 {
        self.own.iter().fold(0, |sum, own| sum.saturating_add(*own))
    }

    /// For each node, what was spent in it and below; in the order of [`Profile::nodes`].
    pub fn totals(&self) -> Vec<u64> {
        let mut totals = self.own.clone();
        for i in (0..totals.len()).rev() {
            if let Some(parent) = self.parent[i] {
                totals[parent.0 as usize] = totals[parent.0 as usize].saturating_add(totals[i]);
            }
        }
        totals
    }

    /// Functions by name, those with the most of their own first. Takes time linear in the nodes, and in their depth
    /// none: recursion 100 000 deep is as good as any.
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

    /// Of each node, whether no function above it has its name, in the order of [`Profile::nodes`]: a walk through the tree that counts the names on its way.
    pub fn outermost(&self) -> Vec<bool> {
        let (first, next) = self.links();
        let mut on_path: HashMap<(NameId, bool), u32> = HashMap::new();
        let mut outermost = vec![false; self.len()];
        // A node is entered when it is taken off, and left when it is met again below its children.
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

    /// Of each node, its children, in the order of [`Profile::nodes`].
    pub fn children(&self) -> Children {
        let (first, next) = self.links();
        Children { first, next }
    }

    /// Of each node, the first of its children, and the next one of the same parent.
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

/// Who goes on from whom, looked up in constant time.
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

/// So many times as much; nothing where that is negative or no number, the most there is where it is more.
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
