//! The tree of paths: one leaf per tip, and no more inner nodes than are needed to separate the
//! tips.
//!
//! A node is a stretch of a path with the time of each key in that stretch; its parent is the
//! stretch before. Tips hold the nodes at which they end. A node that no tip holds is removed if it
//! has no child, and merged with its child if it has exactly one. There are therefore at most twice
//! as many nodes as holds, however long the trace is.
//!
//! Example: a thread puts a token and continues to run. The token's tip still holds the node that
//! ends at the put; the thread's later time goes to a child of it. When the token is dropped, the
//! node has no hold and one child, and is merged with that child.

use crate::critical_path::keys::key_times::KeyTimes;

/// Index of a node; reused after the node was removed.
pub type NodeId = u32;

const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct Node {
    parent: u32,
    /// Exclusive or of the ids of all children; with one child, its id.
    kin: u32,
    children: u32,
    holds: u32,
    start: u64,
    times: KeyTimes,
}

/// The nodes of all paths.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    nodes: Vec<Node>,
    free: Vec<u32>,
    holds: usize,
}

impl Tree {
    /// Adds a path about whose past nothing is known, held once. It begins at time 0.
    pub fn root(&mut self) -> NodeId {
        self.holds += 1;
        self.add(NONE, 0)
    }

    fn add(&mut self, parent: u32, start: u64) -> NodeId {
        if let Some(at) = self.free.pop() {
            let node = &mut self.nodes[at as usize];
            node.times.clear();
            (node.parent, node.kin, node.children, node.holds, node.start) = (parent, 0, 0, 1, start);
            return at;
        }
        self.nodes.push(Node { parent, kin: 0, children: 0, holds: 1, start, times: KeyTimes::default() });
        self.nodes.len() as u32 - 1
    }

    fn node(&mut self, at: NodeId) -> &mut Node {
        &mut self.nodes[at as usize]
    }

    pub fn hold(&mut self, at: NodeId) {
        self.holds += 1;
        self.node(at).holds += 1;
    }

    pub fn release(&mut self, at: NodeId) {
        self.holds -= 1;
        self.node(at).holds -= 1;
        self.tidy(at);
    }

    fn tidy(&mut self, mut at: u32) {
        while at != NONE && self.nodes[at as usize].holds == 0 {
            let Node { parent, children, kin, .. } = self.nodes[at as usize];
            match children {
                0 => {
                    if parent != NONE {
                        let above = self.node(parent);
                        above.children -= 1;
                        above.kin ^= at;
                    }
                    self.free.push(at);
                    at = parent;
                }
                1 => return self.merge(at, kin),
                _ => return,
            }
        }
    }

    /// Gives a parent's stretch to its only child.
    fn merge(&mut self, at: u32, child: u32) {
        let mut times = std::mem::take(&mut self.node(at).times);
        let Node { parent, start, .. } = self.nodes[at as usize];
        let below = self.node(child);
        below.times.absorb(&mut times);
        below.parent = parent;
        below.start = start;
        // The freed node gets the emptied times, so that the next node can reuse its memory.
        self.node(at).times = times;
        if parent != NONE {
            self.node(parent).kin ^= at ^ child;
        }
        self.free.push(at);
    }

    /// Returns a node that only the holder of `at` may charge, from `start` on. The hold moves to
    /// it.
    pub fn own(&mut self, at: NodeId, start: u64) -> NodeId {
        let node = self.node(at);
        if node.holds == 1 && node.children == 0 {
            return at;
        }
        node.holds -= 1;
        node.children += 1;
        let made = self.add(at, start);
        self.node(at).kin ^= made;
        self.tidy(at);
        made
    }

    /// Adds time to a node that [`Tree::own`] returned.
    pub fn charge(&mut self, at: NodeId, key: u32, ns: u64) {
        self.node(at).times.add(key, ns);
    }

    /// Returns the node that contains the moment `at` on the path that ends at `tip` (whose stretch
    /// ends at `end`), and the end of its stretch.
    pub fn reach(&self, tip: NodeId, end: u64, at: u64) -> (NodeId, u64) {
        let (mut node, mut end) = (tip, end);
        while self.nodes[node as usize].start > at {
            end = self.nodes[node as usize].start;
            node = self.nodes[node as usize].parent;
        }
        (node, end)
    }

    pub fn parent(&self, at: NodeId) -> Option<NodeId> {
        Some(self.nodes[at as usize].parent).filter(|&parent| parent != NONE)
    }

    pub fn start(&self, at: NodeId) -> u64 {
        self.nodes[at as usize].start
    }

    /// Returns the profile of one node's stretch.
    pub fn stretch(&self, at: NodeId) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.nodes[at as usize].times.iter()
    }

    /// Returns a held node: the path of `tip`, whose stretch ends at `end`, as it was at `at`.
    /// `charges` has what was charged between `at` and `end`; parts of it may lie outside, and are
    /// ignored.
    pub fn past(&mut self, tip: NodeId, end: u64, at: u64, charges: impl Iterator<Item = (u32, u64, u64)>) -> NodeId {
        let (node, end) = self.reach(tip, end, at);
        let Node { parent, start, .. } = self.nodes[node as usize];
        if at >= end {
            self.hold(node);
            return node;
        }
        if start == at && parent != NONE {
            self.hold(parent);
            return parent;
        }
        self.holds += 1;
        let before = self.add(parent, start);
        let mut times = std::mem::take(&mut self.node(node).times);
        for (key, from, to) in charges {
            let ns = to.min(end).saturating_sub(from.max(at));
            if ns > 0 {
                let enough = times.subtract(key, ns);
                debug_assert!(enough, "what was charged is there");
                self.node(node).times.add(key, ns);
            }
        }
        let above = self.node(before);
        (above.times, above.children, above.kin) = (times, 1, node);
        let below = self.node(node);
        (below.parent, below.start) = (before, at);
        if parent != NONE {
            self.node(parent).kin ^= node ^ before;
        }
        before
    }

    /// Returns the profile of the whole path from this tip to its root; a key may occur several
    /// times.
    pub fn key_times(&self, tip: NodeId) -> impl Iterator<Item = (u32, u64)> + '_ {
        let at = |id: u32| self.nodes.get(id as usize);
        std::iter::successors(at(tip), move |node| at(node.parent)).flat_map(|node| node.times.iter())
    }

    pub fn len(&self) -> usize {
        self.nodes.len() - self.free.len()
    }

    /// Number of holds of tips.
    pub fn holds(&self) -> usize {
        self.holds
    }
}
