//! Windows: what a stretch of the trace does to lineages, without knowing what they were before.
//!
//! Who waits for whom is told in order, by the pass over the interactions; it numbers the lineages and writes down what becomes of them
//! ([`Op`]). To charge the time is the rest of the work, and that needs no order among windows: a window's [`Summary`] says of each lineage that is
//! alive at its end which one it continues that was there at its begin (a *symbol*) and what was added since, as a tree like any
//! other ([`super::tree`]). Summaries compose, associatively and in integers: so whatever the windows, the result is the same to the last ns.

use super::life::Tip;
use super::segments::{Record, Segments, Spill, NONE};
use super::tree::{NodeId, Tree};
use longpole_model::hash::IdMap;

/// The number of a lineage among those that live; given to another one when it has ended.
pub type Slot = u32;

/// Key, from, to.
pub type Charge = (u32, u64, u64);

#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// A lineage of which nothing is known before.
    Root {
        to: Slot,
    },
    /// Another one (or the same) that is longer by this.
    Extend {
        of: Slot,
        to: Slot,
        key: u32,
        from: u64,
        until: u64,
    },
    /// As it was at `at`; it had ended at `end`, and so many of the charges of the window's list may lie between.
    Past {
        of: Slot,
        to: Slot,
        end: u64,
        at: u64,
        charges: u32,
    },
    End {
        of: Slot,
    },
}

/// What happens to lineages in a window.
#[derive(Clone, Debug, Default)]
pub struct Ops {
    pub list: Vec<Op>,
    pub charges: Vec<Charge>,
}

/// A lineage that comes from before the window.
#[derive(Clone, Debug)]
enum Symbol {
    Entry(Slot),
    /// Another symbol as it was at `at`.
    Past {
        of: usize,
        end: u64,
        at: u64,
        charges: Vec<Charge>,
    },
}

#[derive(Clone, Debug)]
pub struct Summary {
    tree: Tree,
    segments: Option<Segments>,
    symbols: Vec<(Symbol, Tip)>,
    symbol_of: IdMap<NodeId, usize>,
    /// What each lineage is at the end; none: it has ended.
    slots: IdMap<Slot, Option<Tip>>,
}

impl Summary {
    pub fn new(keep_segments: bool) -> Summary {
        Summary {
            tree: Tree::default(),
            segments: keep_segments.then(Segments::default),
            symbols: Vec::new(),
            symbol_of: IdMap::default(),
            slots: IdMap::default(),
        }
    }

    /// Long stretches of the path go to a file; only for a summary from the very begin.
    pub fn spill(&mut self, spill: Spill) {
        if let Some(segments) = &mut self.segments {
            segments.spill(spill);
        }
    }

    pub fn of(ops: &Ops, keep_segments: bool) -> Summary {
        let mut summary = Summary::new(keep_segments);
        let mut charges = ops.charges.as_slice();
        for &op in &ops.list {
            match op {
                Op::Root { to } => {
                    let node = summary.tree.root();
                    summary.slots.insert(to, Some(Tip { node, segment: NONE }));
                }
                Op::Extend { of, to, key, from, until } => {
                    let tip = summary.at(of);
                    if of != to {
                        summary.tree.hold(tip.node);
                    }
                    let node = summary.tree.own(tip.node, from);
                    summary.tree.charge(node, key, until - from);
                    let segment = summary.segments.as_mut().map_or(NONE, |segments| segments.add(key, from, until, tip.segment));
                    summary.slots.insert(to, Some(Tip { node, segment }));
                }
                Op::Past { of, to, end, at, charges: count } => {
                    let tip = summary.at(of);
                    let (mine, rest) = charges.split_at(charges.len().min(count as usize));
                    charges = rest;
                    let past = summary.past(tip, end, at, mine);
                    summary.slots.insert(to, Some(past));
                }
                Op::End { of } => {
                    if let Some(Some(tip)) = summary.slots.insert(of, None) {
                        summary.tree.release(tip.node);
                    }
                }
            }
        }
        summary
    }

    /// Where a lineage stands; one that is not known here comes from before.
    fn at(&mut self, slot: Slot) -> Tip {
        if let Some(&Some(tip)) = self.slots.get(&slot) {
            return tip;
        }
        let tip = self.symbol(Symbol::Entry(slot));
        self.slots.insert(slot, Some(tip));
        tip
    }

    /// A tip, held, of something from before. It is held once more as long as this summary lives, so that it stays what it is.
    fn symbol(&mut self, symbol: Symbol) -> Tip {
        let node = self.tree.root();
        self.tree.hold(node);
        let number = self.symbols.len();
        let segment = self.segments.as_mut().map_or(NONE, |segments| segments.symbol(number as u32));
        let tip = Tip { node, segment };
        self.symbol_of.insert(node, number);
        self.symbols.push((symbol, tip));
        tip
    }

    /// A lineage as it was at `at`, held.
    fn past(&mut self, tip: Tip, end: u64, at: u64, charges: &[Charge]) -> Tip {
        let (node, end_there) = self.tree.reach(tip.node, end, at);
        if let Some(&of) = self.symbol_of.get(&node).filter(|_| at < end_there) {
            let between = |&(key, from, to): &Charge| (key, from.max(at), to.min(end_there));
            let charges = charges.iter().map(between).filter(|charge| charge.1 < charge.2).collect();
            return self.symbol(Symbol::Past { of, end: end_there, at, charges });
        }
        let node = self.tree.past(tip.node, end, at, charges.iter().copied());
        let segment = self.segments.as_mut().map_or(NONE, |segments| segments.past(tip.segment, at));
        Tip { node, segment }
    }

    /// What follows right after this.
    pub fn then(&mut self, later: Summary) {
        let mut symbols: Vec<Tip> = Vec::with_capacity(later.symbols.len());
        for (symbol, _) in &later.symbols {
            let tip = match symbol {
                Symbol::Entry(slot) => {
                    let tip = self.at(*slot);
                    self.tree.hold(tip.node);
                    tip
                }
                Symbol::Past { of, end, at, charges } => match symbols.get(*of) {
                    Some(&tip) => self.past(tip, *end, *at, charges),
                    None => continue,
                },
            };
            symbols.push(tip);
        }
        let nodes = self.take_nodes(&later, &symbols);
        let segments = self.take_segments(&later, &symbols);
        for (&slot, now) in &later.slots {
            let now = now.and_then(|tip| {
                let node = *nodes.get(&tip.node)?;
                self.tree.hold(node);
                Some(Tip { node, segment: segments.get(tip.segment as usize).copied().unwrap_or(NONE) })
            });
            if let Some(Some(before)) = self.slots.insert(slot, now) {
                self.tree.release(before.node);
            }
        }
        // Each was held as long as it was copied from.
        nodes.values().for_each(|&node| self.tree.release(node));
    }

    /// The later one's nodes as nodes of this one, each held; by their number there.
    fn take_nodes(&mut self, later: &Summary, symbols: &[Tip]) -> IdMap<NodeId, NodeId> {
        let mut nodes: IdMap<NodeId, NodeId> = IdMap::default();
        for (&node, &symbol) in &later.symbol_of {
            if let Some(tip) = symbols.get(symbol) {
                nodes.insert(node, tip.node);
            }
        }
        let mut open = Vec::new();
        for tip in later.slots.values().flatten() {
            let mut node = tip.node;
            while !nodes.contains_key(&node) {
                open.push(node);
                match later.tree.parent(node) {
                    Some(parent) => node = parent,
                    None => break,
                }
            }
            while let Some(node) = open.pop() {
                let made = match later.tree.parent(node).and_then(|parent| nodes.get(&parent)) {
                    Some(&parent) => {
                        self.tree.hold(parent);
                        self.tree.own(parent, later.tree.start(node))
                    }
                    None => self.tree.root(),
                };
                for (key, ns) in later.tree.stretch(node) {
                    self.tree.charge(made, key, ns);
                }
                nodes.insert(node, made);
            }
        }
        nodes
    }

    /// The later one's segments that count as segments of this one, by their number there.
    fn take_segments(&mut self, later: &Summary, symbols: &[Tip]) -> Vec<u32> {
        let (Some(mine), Some(theirs)) = (&mut self.segments, &later.segments) else { return Vec::new() };
        let live = theirs.live(later.slots.values().flatten().map(|tip| tip.segment));
        let mut places = vec![NONE; theirs.len()];
        for (at, record) in theirs.records().enumerate().filter(|(at, _)| live[*at]) {
            let Record { key, start, end, parent, .. } = *record;
            places[at] = match record.symbol() {
                Some(symbol) => symbols.get(symbol as usize).map_or(NONE, |tip| tip.segment),
                None => mine.add(key, start, end, places.get(parent as usize).copied().unwrap_or(NONE)),
            };
        }
        places
    }

    /// Drops the segments that no lineage leads back to; only for a summary from the very begin.
    pub fn clear_segments(&mut self) {
        let slots = &mut self.slots;
        if let Some(segments) = self.segments.as_mut().filter(|segments| segments.is_due()) {
            segments.clear(0, |visit| slots.values_mut().flatten().for_each(|tip| visit(&mut tip.segment)));
        }
    }

    pub fn tip(&self, slot: Slot) -> Option<Tip> {
        self.slots.get(&slot).copied().flatten()
    }

    pub fn into_parts(self) -> (Tree, Option<Segments>) {
        (self.tree, self.segments)
    }

    pub fn sizes(&self) -> (usize, usize, usize) {
        (self.tree.len(), self.tree.holds(), self.segments.as_ref().map_or(0, Segments::len))
    }
}
