//! Which way led to the end in each world: what decides there after a change.
//!
//! Each stretch of time and each meeting of two ways is a node; where two ways meet, one bit per world says which one was the later. All worlds share the
//! nodes. From the end all worlds' ways are walked back together, as far as they are one. The nodes of the past are forgotten in pieces: the ways of all machines that depend on each
//! other soon are one, so a piece is walked from wherever the trace stands a whole piece later.

use super::lanes::Row;

/// Nodes of a piece; two of them are kept.
const PIECE: usize = 1 << 19;

/// No node: nothing is known before.
pub const NONE: u64 = 0;

#[derive(Clone, Copy, Debug)]
pub struct Node {
    pub before: u64,
    /// Where two ways meet: the other one.
    pub other: u64,
    pub ns: f64,
    pub key: u32,
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Time of a state.
    Own,
    /// The time belongs to the other way (a link).
    Meet,
    /// The time follows after both.
    After,
}

#[derive(Debug)]
pub struct Trail {
    words: usize,
    worlds: usize,
    /// The number of the first node that is kept; 0 is none.
    first: u64,
    nodes: Vec<Node>,
    bits: Vec<u64>,
    /// The time of each key in what was forgotten.
    totals: Totals,
    piece: usize,
}

/// The time of each key in each world: those of one key stand side by side.
#[derive(Clone, Debug, Default)]
struct Totals(Vec<f64>);

/// Some of 64 worlds, where their ways are one.
#[derive(Clone, Copy, Debug)]
struct Group {
    at: u64,
    worlds: u64,
}

impl Trail {
    pub fn new(worlds: usize) -> Trail {
        let words = worlds.div_ceil(64);
        Trail { words, worlds, first: 1, nodes: Vec::new(), bits: Vec::new(), totals: Totals::default(), piece: PIECE }
    }

    /// Time of a state, after the node.
    pub fn own(&mut self, before: u64, key: u32, ns: f64) -> u64 {
        self.push(Node { before, other: NONE, ns, key, kind: Kind::Own }, None)
    }

    pub fn meet(&mut self, node: Node, bits: &[u64]) -> u64 {
        self.push(node, Some(bits))
    }

    /// In this world the other way of the newest node was not taken after all.
    pub fn unset(&mut self, world: usize) {
        let at = self.bits.len().checked_sub(self.words).map(|at| at + world / 64);
        if let Some(word) = at.and_then(|at| self.bits.get_mut(at)) {
            *word &= !(1 << (world % 64));
        }
    }

    fn push(&mut self, node: Node, bits: Option<&[u64]>) -> u64 {
        self.nodes.push(node);
        match bits {
            Some(bits) => self.bits.extend_from_slice(bits),
            None => self.bits.resize(self.bits.len() + self.words, 0),
        }
        self.first + self.nodes.len() as u64 - 1
    }

    pub fn is_due(&self) -> bool {
        self.nodes.len() >= 2 * self.piece
    }

    /// Forgets the older piece, after the way from `tip` through it was counted.
    pub fn forget(&mut self, tip: u64, rows: &[Row]) {
        let until = self.first + self.piece as u64;
        let mut totals = std::mem::take(&mut self.totals);
        self.walk(tip, rows, until, &mut totals);
        self.totals = totals;
        self.nodes.drain(..self.piece);
        self.bits.drain(..self.piece * self.words);
        self.first = until;
    }

    /// Of each world, the time of each key on the way that ends at `tip`.
    pub fn profiles(&self, tip: u64, rows: &[Row]) -> Vec<Vec<f64>> {
        let mut totals = self.totals.clone();
        self.walk(tip, rows, u64::MAX, &mut totals);
        (0..self.worlds).map(|world| totals.0.iter().skip(world).step_by(self.worlds).copied().collect()).collect()
    }

    /// Walks back from `tip` and counts what lies before `until`.
    fn walk(&self, tip: u64, rows: &[Row], until: u64, totals: &mut Totals) {
        totals.0.resize((rows.len() * self.worlds).max(totals.0.len()), 0.0);
        // Ordered by `at`, the newest last. No two are at one node.
        let mut groups: Vec<Group> = Vec::new();
        for word in 0..self.words {
            let worlds = (self.worlds - word * 64).min(64);
            groups.push(Group { at: tip, worlds: u64::MAX >> (64 - worlds) });
            while let Some(Group { at, worlds }) = groups.pop() {
                let Some(index) = at.checked_sub(self.first).map(|index| index as usize) else { continue };
                let Some(node) = self.nodes.get(index) else { continue };
                let others = worlds & self.bits[index * self.words + word];
                let count = if node.kind == Kind::Meet { others } else { worlds };
                if at < until && count != 0 {
                    totals.add(node, rows, (word * 64, count), self.worlds);
                }
                for (at, worlds) in [(node.before, worlds & !others), (node.other, others)] {
                    if worlds != 0 && at >= self.first {
                        join(&mut groups, Group { at, worlds });
                    }
                }
            }
        }
    }
}

impl Totals {
    /// Adds the node's time in those of 64 worlds, which begin with the first.
    fn add(&mut self, node: &Node, rows: &[Row], (first, mut worlds): (usize, u64), all: usize) {
        let at = node.key as usize * all + first;
        let Some(totals) = self.0.get_mut(at..(at - first) + all) else { return };
        let factors = rows.get(node.key as usize).and_then(Option::as_ref).map(|row| &row[super::lanes::KEPT + first..]);
        while worlds != 0 {
            let world = worlds.trailing_zeros() as usize;
            totals[world] += node.ns * factors.map_or(1.0, |factors| factors[world]);
            worlds &= worlds - 1;
        }
    }
}

/// There are few, and mostly one.
fn join(groups: &mut Vec<Group>, group: Group) {
    let place = groups.iter().rposition(|other| other.at <= group.at);
    match place.and_then(|place| groups.get_mut(place)).filter(|other| other.at == group.at) {
        Some(same) => same.worlds |= group.worlds,
        None => groups.insert(place.map_or(0, |place| place + 1), group),
    }
}
