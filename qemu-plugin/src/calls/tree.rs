//! The call tree: one node for each call path, with its number of calls and the time charged to it.
//!
//! The nodes, and the index that finds a node's child, have a fixed capacity. Lookups and counting take no lock. A
//! release store into the index publishes a new node, under a lock that only new nodes take. Counters are plain loads
//! and stores: a node belongs to one stack, and one vCPU at a time owns a stack (`stacks`). Nodes are never removed or
//! changed, so the records written about them stay true.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use zerocopy::FromZeros;

use super::memory::Zeroed;

pub use plugin_formats::calls::Kind;

const NEAR: usize = 4;
/// The number of index slots in which a node's children are looked up first.
const SIBLINGS: usize = 16;

/// A node. Its size and alignment are one cache line.
#[derive(FromZeros)]
#[repr(align(64))]
pub struct Node {
    function: AtomicU64,
    place: AtomicU64,
    parent: AtomicU32,
    kind: AtomicU8,
    touched: AtomicU8,
    /// The children looked up last, by their function. Most lookups end here, without the index, which is too large for
    /// the CPU's caches.
    near: [AtomicU32; NEAR],
    calls: AtomicU64,
    insns: AtomicU64,
    ticks: AtomicU64,
}

/// The totals of a node until now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The number of times it was entered.
    pub calls: u64,
    /// Self instructions, without those of its callees.
    pub insns: u64,
    /// Self ticks of the host, without those of its callees.
    pub ticks: u64,
}

/// A call path, as a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The parent's node.
    pub parent: u32,
    /// Address of the function.
    pub function: u64,
    /// At the bottom of a stack, the stack's address; otherwise 0.
    pub place: u64,
    /// The way in which it is entered.
    pub kind: Kind,
}

/// All nodes. Number 0 stands for "no node".
pub struct Tree {
    nodes: Zeroed<Node>,
    index: Zeroed<AtomicU32>,
    /// The number of nodes, including 0.
    len: Mutex<u32>,
    /// True if calls get no more nodes.
    is_full: AtomicBool,
    /// Capacity reserved for the vCPUs' own nodes: each one's beginning, and its user space.
    spare: usize,
}

impl Tree {
    /// Makes room for `capacity` nodes, a power of two, and for this number of vCPUs' own nodes.
    pub fn new(capacity: usize, vcpus: usize) -> Tree {
        let (nodes, index, spare) = (Zeroed::new(capacity + 2 * vcpus), Zeroed::new(capacity * 2), 2 * vcpus);
        Tree { nodes, index, len: Mutex::new(1), is_full: AtomicBool::new(false), spare }
    }

    /// The capacity, including 0.
    pub fn capacity(&self) -> usize {
        self.nodes.len()
    }

    #[inline(always)]
    pub fn get(&self, node: u32) -> &Node {
        &self.nodes[node as usize]
    }

    /// The node for this path; `None` if there is no room. For a new node, `new` is called with it.
    #[inline(always)]
    pub fn child(&self, path: &Path, new: impl FnOnce(u32)) -> Option<u32> {
        self.child_within(path, self.spare, new)
    }

    /// The node for a path of the vCPU's own: there is room for it even when calls get no more nodes.
    pub fn vcpu_node(&self, path: &Path, new: impl FnOnce(u32)) -> Option<u32> {
        self.child_within(path, 0, new)
    }

    #[inline(always)]
    fn child_within(&self, path: &Path, spare: usize, new: impl FnOnce(u32)) -> Option<u32> {
        let near = &self.get(path.parent).near[(path.function >> 4 ^ path.function >> 7) as usize % NEAR];
        let child = near.load(Ordering::Relaxed);
        if child != 0 && self.get(child).is(path) {
            return Some(child);
        }
        let child = self.far_child(path, spare, new)?;
        near.store(child, Ordering::Relaxed);
        Some(child)
    }

    #[inline(never)]
    fn far_child(&self, path: &Path, spare: usize, new: impl FnOnce(u32)) -> Option<u32> {
        let hash = hash(path);
        if let Ok(known) = self.find(hash, path) {
            return Some(known);
        }
        if spare > 0 && self.is_full.load(Ordering::Relaxed) {
            return None; // without the lock, because all vCPUs come here then
        }
        let mut len = self.len.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let slot = match self.find(hash, path) {
            Ok(known) => return Some(known),
            Err(slot) => slot,
        };
        if *len as usize + spare >= self.nodes.len() {
            self.is_full.store(spare > 0, Ordering::Relaxed);
            return None;
        }
        let id = *len;
        *len += 1;
        self.get(id).become_path(path);
        self.index[slot].store(id, Ordering::Release);
        new(id);
        Some(id)
    }

    /// The node, or the free slot for it. The index always has free slots: it has twice as many as there are nodes for
    /// calls. The first slot to examine is near those of the node's siblings, and of the nodes made just before it.
    /// These are mostly in the CPU's caches. The other slots are anywhere.
    fn find(&self, hash: u64, path: &Path) -> Result<u32, usize> {
        let (mut slot, step) = (path.parent as usize * 2 + hash as usize % SIBLINGS, hash as usize | 1);
        loop {
            slot %= self.index.len();
            match self.index[slot].load(Ordering::Acquire) {
                0 => return Err(slot),
                id if self.get(id).is(path) => return Ok(id),
                _ => slot += step, // odd, and the length is a power of two, so it reaches every slot
            }
        }
    }
}

fn hash(p: &Path) -> u64 {
    let x = p.function ^ p.place.rotate_left(21) ^ (u64::from(p.parent) << 4 | p.kind as u64).rotate_left(40);
    let x = (x ^ x >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x >> 32
}

impl Node {
    fn become_path(&self, path: &Path) {
        self.function.store(path.function, Ordering::Relaxed);
        self.place.store(path.place, Ordering::Relaxed);
        self.parent.store(path.parent, Ordering::Relaxed);
        self.kind.store(path.kind as u8, Ordering::Relaxed);
    }

    #[inline(always)]
    fn is(&self, path: &Path) -> bool {
        self.function() == path.function
            && self.parent.load(Ordering::Relaxed) == path.parent
            && self.place.load(Ordering::Relaxed) == path.place
            && self.kind.load(Ordering::Relaxed) == path.kind as u8
    }

    /// Its call path.
    pub fn path(&self) -> Path {
        let kind = match self.kind.load(Ordering::Relaxed) {
            0 => Kind::Stack,
            1 => Kind::Call,
            2 => Kind::Tail,
            3 => Kind::Interrupt,
            _ => Kind::User,
        };
        Path {
            parent: self.parent.load(Ordering::Relaxed),
            function: self.function(),
            place: self.place.load(Ordering::Relaxed),
            kind,
        }
    }

    /// The address of its function.
    #[inline(always)]
    pub fn function(&self) -> u64 {
        self.function.load(Ordering::Relaxed)
    }

    /// Its instructions until now.
    pub fn insns(&self) -> u64 {
        self.insns.load(Ordering::Relaxed)
    }

    /// Counts one more entry.
    #[inline(always)]
    pub fn enter(&self) {
        add(&self.calls, 1);
    }

    /// Charges instructions and ticks to it. Differences wrap, so a charge can be taken back.
    #[inline(always)]
    pub fn spend(&self, insns: u64, ticks: u64) {
        add(&self.insns, insns);
        add(&self.ticks, ticks);
    }

    /// True for the first call since [`Node::totals`].
    #[inline(always)]
    pub fn first_touch(&self) -> bool {
        let first = self.touched.load(Ordering::Relaxed) == 0;
        if first {
            self.touched.store(1, Ordering::Relaxed);
        }
        first
    }

    /// Its totals. Any later charge touches it again: the flag is cleared before the counters are read.
    pub fn totals(&self) -> Totals {
        self.touched.store(0, Ordering::SeqCst);
        let [calls, insns, ticks] = [&self.calls, &self.insns, &self.ticks].map(|n| n.load(Ordering::Relaxed));
        Totals { calls, insns, ticks }
    }
}

#[inline(always)]
fn add(to: &AtomicU64, n: u64) {
    to.store(to.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(parent: u32, function: u64) -> Path {
        Path { parent, function, place: 0, kind: Kind::Call }
    }

    #[test]
    fn a_path_is_one_node_and_is_reported_once() {
        let tree = Tree::new(8, 1);
        let mut reported = Vec::new();
        let a = tree.child(&path(0, 0x1000), |id| reported.push(id)).unwrap();
        assert_eq!(tree.child(&path(0, 0x1000), |id| reported.push(id)), Some(a));
        let b = tree.child(&path(a, 0x1000), |id| reported.push(id)).unwrap();
        assert_eq!(reported, [a, b]);
        assert_eq!(tree.get(b).path(), path(a, 0x1000));
    }

    #[test]
    fn a_full_tree_adds_nothing_and_finds_existing_nodes() {
        let tree = Tree::new(8, 1);
        let made: Vec<_> = (1..20).filter_map(|i| tree.child(&path(0, i), |_| {})).collect();
        assert_eq!(made, [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(tree.child(&path(0, 3), |_| {}), Some(3));
        let made: Vec<_> = (20..30).filter_map(|i| tree.vcpu_node(&path(0, i), |_| {})).collect();
        assert_eq!(made, [8, 9], "there is room for a vCPU's own");
    }

    #[test]
    fn what_is_counted_after_the_totals_touches_again() {
        let tree = Tree::new(8, 1);
        let node = tree.get(tree.child(&path(0, 1), |_| {}).unwrap());
        assert!(node.first_touch() && !node.first_touch());
        node.enter();
        node.spend(7, 0);
        assert_eq!(node.totals(), Totals { calls: 1, insns: 7, ticks: 0 });
        assert!(node.first_touch());
    }
}
