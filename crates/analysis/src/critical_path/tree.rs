//! The coalescing lineage tree: one leaf per tip, and no more inner nodes than are needed to tell the tips apart.
//!
//! A node is a stretch of somebody's past with the profile of that stretch; its parent is what was before. A node is held by tips that end
//! there. One that nobody holds and that has no child goes; with a single child it becomes one with it. So there are at most twice
//! as many nodes as holds, whatever the length of the trace.

use super::profile::Profile;

pub type NodeId = u32;

const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct Node {
    parent: u32,
    /// All children's ids, exclusive-ored: with one child, its id.
    kin: u32,
    children: u32,
    holds: u32,
    start: u64,
    profile: Profile,
}

#[derive(Clone, Debug, Default)]
pub struct Tree {
    nodes: Vec<Node>,
    free: Vec<u32>,
    holds: usize,
}

impl Tree {
    /// A lineage of which nothing is known before; held once. It counts as begun at the beginning of time.
    pub fn root(&mut self) -> NodeId {
        self.holds += 1;
        self.add(NONE, 0)
    }

    fn add(&mut self, parent: u32, start: u64) -> NodeId {
        if let Some(at) = self.free.pop() {
            let node = &mut self.nodes[at as usize];
            node.profile.clear();
            (node.parent, node.kin, node.children, node.holds, node.start) = (parent, 0, 0, 1, start);
            return at;
        }
        self.nodes.push(Node { parent, kin: 0, children: 0, holds: 1, start, profile: Profile::default() });
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

    /// The only child takes over its parent's stretch.
    fn merge(&mut self, at: u32, child: u32) {
        let mut profile = std::mem::take(&mut self.node(at).profile);
        let Node { parent, start, .. } = self.nodes[at as usize];
        let below = self.node(child);
        below.profile.absorb(&mut profile);
        below.parent = parent;
        below.start = start;
        // The emptied one keeps its memory for the next node.
        self.node(at).profile = profile;
        if parent != NONE {
            self.node(parent).kin ^= at ^ child;
        }
        self.free.push(at);
    }

    /// A node that only the caller, who holds `at`, may charge, from `start` onwards.
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

    pub fn charge(&mut self, at: NodeId, key: u32, ns: u64) {
        self.node(at).profile.add(key, ns);
    }

    /// The node on the way from `tip`, whose stretch ends at `end`, that had begun by `at`, and the end of its stretch.
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

    /// The profile of one node's stretch.
    pub fn stretch(&self, at: NodeId) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.nodes[at as usize].profile.iter()
    }

    /// The lineage of `tip`, whose stretch ends at `end`, as it was at `at`; held. What was charged between is in `charges`, any part of
    /// which may lie outside.
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
        let mut profile = std::mem::take(&mut self.node(node).profile);
        for (key, from, to) in charges {
            let ns = to.min(end).saturating_sub(from.max(at));
            if ns > 0 {
                let enough = profile.subtract(key, ns);
                debug_assert!(enough, "what was charged is there");
                self.node(node).profile.add(key, ns);
            }
        }
        let above = self.node(before);
        (above.profile, above.children, above.kin) = (profile, 1, node);
        let below = self.node(node);
        (below.parent, below.start) = (before, at);
        if parent != NONE {
            self.node(parent).kin ^= node ^ before;
        }
        before
    }

    /// All that lies on the way from this tip to its root.
    pub fn profile(&self, tip: NodeId) -> impl Iterator<Item = (u32, u64)> + '_ {
        let at = |id: u32| self.nodes.get(id as usize);
        std::iter::successors(at(tip), move |node| at(node.parent)).flat_map(|node| node.profile.iter())
    }

    pub fn len(&self) -> usize {
        self.nodes.len() - self.free.len()
    }

    /// Tips that end somewhere in the tree.
    pub fn holds(&self) -> usize {
        self.holds
    }
}
