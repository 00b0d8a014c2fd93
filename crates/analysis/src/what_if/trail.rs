//! Which way led to the end in each world: what decides there after a change.
//!
//! Each stretch of time and each meeting of two ways is a node; where two ways meet, one bit per world says which one was the later. All worlds share the
//! nodes. From the end each world's way is walked back once. The nodes of the past are forgotten in pieces: the ways of all machines that depend on each
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
    /// Of each world, the time of each key in what was forgotten.
    totals: Vec<Vec<f64>>,
    piece: usize,
}

impl Trail {
    pub fn new(worlds: usize) -> Trail {
        let words = worlds.div_ceil(64);
        Trail { words, worlds, first: 1, nodes: Vec::new(), bits: Vec::new(), totals: vec![Vec::new(); worlds], piece: PIECE }
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
        for world in 0..self.worlds {
            let mut totals = std::mem::take(&mut self.totals[world]);
            self.walk(world, tip, rows, until, &mut totals);
            self.totals[world] = totals;
        }
        self.nodes.drain(..self.piece);
        self.bits.drain(..self.piece * self.words);
        self.first = until;
    }

    /// The time of each key on the way that ends at `tip`.
    pub fn profile(&self, world: usize, tip: u64, rows: &[Row]) -> Vec<f64> {
        let mut totals = self.totals[world].clone();
        self.walk(world, tip, rows, u64::MAX, &mut totals);
        totals
    }

    /// Walks back from `tip` and counts what lies before `until`.
    fn walk(&self, world: usize, tip: u64, rows: &[Row], until: u64, totals: &mut Vec<f64>) {
        totals.resize(rows.len().max(totals.len()), 0.0);
        let mut at = tip;
        while at >= self.first {
            let index = (at - self.first) as usize;
            let Some(node) = self.nodes.get(index) else { return };
            let other = self.bits[index * self.words + world / 64] >> (world % 64) & 1 != 0;
            if at < until && (node.kind != Kind::Meet || other) {
                let factor = rows.get(node.key as usize).and_then(Option::as_ref).map_or(1.0, |row| row[super::lanes::KEPT + world]);
                if let Some(total) = totals.get_mut(node.key as usize) {
                    *total += node.ns * factor;
                }
            }
            at = if other { node.other } else { node.before };
        }
    }
}
