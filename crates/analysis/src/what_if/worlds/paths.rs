//! Paths: the chain of states and links that led to the end in each world. They show what limits
//! the system after a change.
//!
//! Each interval of time and each meeting of two paths is a node. Where two paths meet, one bit per
//! world says which of them was later. All worlds share the nodes. From the end, the paths of all
//! worlds are walked back together as long as they coincide.
//!
//! Old nodes are forgotten in pieces. Paths of machines that depend on each other soon have a
//! common past, so a piece is walked from the position that the trace has reached one whole piece
//! later.
//!
//! Example: A works 3 ns, B works 5 ns, and then A takes what B put. The meeting has two nodes
//! before it, and its bit is set in every world where B is later.

use super::time_vector::{Row, UNCHANGED};
use std::collections::VecDeque;

/// Number of nodes of a piece; two pieces are in memory.
const PIECE: usize = 1 << 19;

/// No node: nothing is known before.
pub const NONE: u64 = 0;

/// A node as the replay sees it; nodes refer to each other by number.
#[derive(Clone, Copy, Debug)]
pub struct Node {
    pub before: u64,
    /// The other path, where two meet.
    pub other: u64,
    pub ns: f64,
    pub key: u32,
    pub kind: NodeKind,
}

/// Meaning of a node's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// Time of a state.
    Own,
    /// The time belongs to the other path (a link).
    Meet,
    /// The time follows after both paths.
    AfterBoth,
}

/// The nodes of all paths.
#[derive(Debug)]
pub struct Paths {
    words: usize,
    worlds: usize,
    /// Number of the first node in memory; 0 is no node.
    first: u64,
    /// Number of the next node.
    next: u64,
    pieces: VecDeque<Piece>,
    /// A forgotten piece whose memory is reused.
    spare: Option<Piece>,
    /// Time of each key in the forgotten pieces.
    totals: Totals,
}

/// A part of the nodes, with one bit per node and world.
#[derive(Debug)]
struct Piece {
    nodes: Vec<PackedNode>,
    bits: Vec<u64>,
}

/// A node in compact form, since there are a million of them.
#[derive(Clone, Copy, Debug)]
struct PackedNode {
    ns: f64,
    /// Distance in nodes, backwards; 0 for no node.
    before: u32,
    other: u32,
    key: u32,
    kind: NodeKind,
}

/// Time of each key in each world; the worlds of one key are adjacent.
#[derive(Clone, Debug, Default)]
struct Totals(Vec<f64>);

/// Some of 64 worlds whose paths coincide.
#[derive(Clone, Copy, Debug)]
struct Group {
    at: u64,
    worlds: u64,
}

impl Paths {
    pub fn new(worlds: usize) -> Paths {
        let words = worlds.div_ceil(64);
        let (pieces, spare, totals) = Default::default();
        Paths { words, worlds, first: 1, next: 1, pieces, spare, totals }
    }

    /// Adds time of a state after the node. Returns the new node.
    pub fn own(&mut self, before: u64, key: u32, ns: f64) -> u64 {
        self.push(Node { before, other: NONE, ns, key, kind: NodeKind::Own }, None)
    }

    /// Adds a meeting of two paths; `bits` are the worlds in which the other one was later.
    pub fn meet(&mut self, node: Node, bits: &[u64]) -> u64 {
        self.push(node, Some(bits))
    }

    /// Notes that in this world the other path of the newest node was not taken.
    pub fn unset(&mut self, world: usize) {
        let Some(bits) = self.pieces.back_mut().map(|piece| &mut piece.bits) else { return };
        let at = bits.len().checked_sub(self.words).map(|at| at + world / 64);
        if let Some(word) = at.and_then(|at| bits.get_mut(at)) {
            *word &= !(1 << (world % 64));
        }
    }

    #[inline]
    fn push(&mut self, node: Node, bits: Option<&[u64]>) -> u64 {
        let (number, words) = (self.next, self.words);
        self.next += 1;
        // A node further back than this was forgotten long ago.
        let back = |other: u64| if other == NONE { 0 } else { u32::try_from(number - other).unwrap_or(0) };
        let Node { before, other, ns, key, kind } = node;
        let kept = PackedNode { ns, before: back(before), other: back(other), key, kind };
        let piece = match self.pieces.back_mut() {
            Some(piece) if piece.nodes.len() < PIECE => piece,
            _ => self.begin_piece(),
        };
        piece.nodes.push(kept);
        match (bits, words) {
            (Some(&[bits]), 1) => piece.bits.push(bits),
            (Some(bits), _) => piece.bits.extend_from_slice(bits),
            (None, _) => piece.bits.resize(piece.bits.len() + words, 0),
        }
        number
    }

    #[cold]
    fn begin_piece(&mut self) -> &mut Piece {
        let words = self.words;
        let new = || Piece { nodes: Vec::with_capacity(PIECE), bits: Vec::with_capacity(PIECE * words) };
        self.pieces.push_back(self.spare.take().unwrap_or_else(new));
        let last = self.pieces.len() - 1;
        &mut self.pieces[last]
    }

    /// Returns true if there are two full pieces, so that the older one must be forgotten.
    pub fn is_due(&self) -> bool {
        self.next - self.first >= 2 * PIECE as u64
    }

    /// Forgets the older piece, after the path from `tip` through it has been counted.
    pub fn forget(&mut self, tip: u64, rows: &[Row]) {
        let until = self.first + PIECE as u64;
        let mut totals = std::mem::take(&mut self.totals);
        self.walk(tip, rows, until, &mut totals);
        self.totals = totals;
        if let Some(mut piece) = self.pieces.pop_front() {
            piece.nodes.clear();
            piece.bits.clear();
            self.spare = Some(piece);
        }
        self.first = until;
    }

    /// Returns the node with this number, and the worlds of a word in which its other path was
    /// taken.
    fn node(&self, at: u64, word: usize) -> Option<(Node, u64)> {
        let index = at.checked_sub(self.first)? as usize;
        let (piece, index) = (self.pieces.get(index / PIECE)?, index % PIECE);
        let &PackedNode { ns, before, other, key, kind } = piece.nodes.get(index)?;
        let number = |back: u32| if back == 0 { NONE } else { at - u64::from(back) };
        Some((Node { before: number(before), other: number(other), ns, key, kind }, piece.bits[index * self.words + word]))
    }

    /// Returns the time of each key on the path that ends at `tip`, for each world.
    pub fn profiles(&self, tip: u64, rows: &[Row]) -> Vec<Vec<f64>> {
        let mut totals = self.totals.clone();
        self.walk(tip, rows, u64::MAX, &mut totals);
        (0..self.worlds).map(|world| totals.0.iter().skip(world).step_by(self.worlds).copied().collect()).collect()
    }

    /// Walks back from `tip` and counts the nodes before `until`.
    fn walk(&self, tip: u64, rows: &[Row], until: u64, totals: &mut Totals) {
        totals.0.resize((rows.len() * self.worlds).max(totals.0.len()), 0.0);
        // Ordered by `at`, the newest last; no two groups are at one node.
        let mut groups: Vec<Group> = Vec::new();
        for word in 0..self.words {
            let worlds = (self.worlds - word * 64).min(64);
            groups.push(Group { at: tip, worlds: u64::MAX >> (64 - worlds) });
            while let Some(Group { mut at, worlds }) = groups.pop() {
                while let Some((node, others)) = self.node(at, word) {
                    let others = worlds & others;
                    let count = if node.kind == NodeKind::Meet { others } else { worlds };
                    if at < until && count != 0 {
                        totals.add(&node, rows, (word * 64, count), self.worlds);
                    }
                    // While no world leaves the path or joins it, the group follows it directly.
                    let on = if others == 0 { node.before } else { node.other };
                    if (others == 0 || others == worlds) && groups.last().is_none_or(|group| group.at < on) {
                        at = on;
                        continue;
                    }
                    for (at, worlds) in [(node.before, worlds & !others), (node.other, others)] {
                        if worlds != 0 && at >= self.first {
                            join(&mut groups, Group { at, worlds });
                        }
                    }
                    break;
                }
            }
        }
    }
}

impl Totals {
    /// Adds the node's time in these of 64 worlds, which begin with the world `first`.
    fn add(&mut self, node: &Node, rows: &[Row], (first, mut worlds): (usize, u64), all: usize) {
        let at = node.key as usize * all + first;
        let Some(totals) = self.0.get_mut(at..(at - first) + all) else { return };
        let factors = rows.get(node.key as usize).and_then(Option::as_ref).map(|row| &row[UNCHANGED + first..]);
        while worlds != 0 {
            let world = worlds.trailing_zeros() as usize;
            totals[world] += node.ns * factors.map_or(1.0, |factors| factors[world]);
            worlds &= worlds - 1;
        }
    }
}

/// Inserts the group, or joins it with the group at its node. There are few groups, usually one.
fn join(groups: &mut Vec<Group>, group: Group) {
    let place = groups.iter().rposition(|other| other.at <= group.at);
    match place.and_then(|place| groups.get_mut(place)).filter(|other| other.at == group.at) {
        Some(same) => same.worlds |= group.worlds,
        None => groups.insert(place.map_or(0, |place| place + 1), group),
    }
}
