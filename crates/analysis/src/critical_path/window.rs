//! Windows: the effect of a part of the trace on the paths, computed without knowing them.
//!
//! The pass over the interactions must follow their order, since it decides which machine waits for
//! which. It numbers the paths and writes down the operations on them ([`Op`]). Charging the time
//! is most of the work and needs no order among windows. The [`Summary`] of a window has, for each
//! path that exists at the end of the window, the path from before the window that it continues (a
//! *symbol*), and what was added since, as a tree like any other
//! ([`crate::critical_path::storage::tree`]). Summaries compose associatively and count in
//! integers, so the result does not depend on the windows, to the last ns.
//!
//! Example: at the start of a window slot 3 is some unknown path. In the window its machine runs
//! for 5 ms. The summary says: slot 3 is symbol `Entry(3)` followed by 5 ms of `run`.

use super::machine::Tip;
use crate::critical_path::storage::segments::{Record, Segments, Spill, NONE};
use crate::critical_path::storage::tree::{NodeId, Tree};
use longpole_model::hash::IdMap;

/// Number of a path that exists; reused after the path has ended.
pub type Slot = u32;

/// Key, from, to.
pub type Charge = (u32, u64, u64);

/// An operation on paths.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// Begins a path about whose past nothing is known.
    Root {
        to: Slot,
    },
    /// Extends the path `of`; the result is the path `to`, which may be the same.
    Extend {
        of: Slot,
        to: Slot,
        key: u32,
        from: u64,
        until: u64,
    },
    /// Makes `to` the path `of` as it was at `at`; `of` had ended at `end`. The next `charges`
    /// entries of the window's list are what may have been charged in between.
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

/// The operations on paths in one window.
#[derive(Clone, Debug, Default)]
pub struct Ops {
    pub list: Vec<Op>,
    pub charges: Vec<Charge>,
}

/// A path from before the window.
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

/// The effect of one or several successive windows on the paths.
#[derive(Clone, Debug)]
pub struct Summary {
    tree: Tree,
    segments: Option<Segments>,
    symbols: Vec<(Symbol, Tip)>,
    symbol_of: IdMap<NodeId, usize>,
    /// The paths at the end of the window, by their numbers, which are dense.
    slots: Slots,
}

/// A path at the end of a window.
#[derive(Clone, Copy, Debug, Default)]
enum PathState {
    /// The window has no operation on it.
    #[default]
    Untouched,
    Ended,
    Ends(Tip),
}

/// The paths by their numbers.
#[derive(Clone, Debug, Default)]
struct Slots(Vec<PathState>);

impl Slots {
    fn tip(&self, slot: Slot) -> Option<Tip> {
        match self.0.get(slot as usize) {
            Some(&PathState::Ends(tip)) => Some(tip),
            _ => None,
        }
    }

    /// Sets the tip of a path, `None` if it has ended. Returns its previous tip.
    fn set(&mut self, slot: Slot, tip: Option<Tip>) -> Option<Tip> {
        let at = slot as usize;
        if at >= self.0.len() {
            self.0.resize(at + 1, PathState::Untouched);
        }
        let now = tip.map_or(PathState::Ended, PathState::Ends);
        match std::mem::replace(&mut self.0[at], now) {
            PathState::Ends(before) => Some(before),
            PathState::Untouched | PathState::Ended => None,
        }
    }

    /// Returns the paths that the window has changed, with their tips; `None` if a path has
    /// ended.
    fn changed(&self) -> impl Iterator<Item = (Slot, Option<Tip>)> + '_ {
        (0..).zip(&self.0).filter_map(|(slot, state)| match *state {
            PathState::Untouched => None,
            PathState::Ended => Some((slot, None)),
            PathState::Ends(tip) => Some((slot, Some(tip))),
        })
    }

    fn tips(&self) -> impl Iterator<Item = &Tip> {
        self.0.iter().filter_map(|state| match state {
            PathState::Ends(tip) => Some(tip),
            PathState::Untouched | PathState::Ended => None,
        })
    }

    fn tips_mut(&mut self) -> impl Iterator<Item = &mut Tip> {
        self.0.iter_mut().filter_map(|state| match state {
            PathState::Ends(tip) => Some(tip),
            PathState::Untouched | PathState::Ended => None,
        })
    }
}

impl Summary {
    pub fn new(keep_segments: bool) -> Summary {
        Summary {
            tree: Tree::default(),
            segments: keep_segments.then(Segments::default),
            symbols: Vec::new(),
            symbol_of: IdMap::default(),
            slots: Slots::default(),
        }
    }

    /// Writes long stretches of the path to a file. Only for a summary that begins with the trace.
    pub fn spill(&mut self, spill: Spill) {
        if let Some(segments) = &mut self.segments {
            segments.spill(spill);
        }
    }

    /// Charges the operations of one window.
    pub fn of(ops: &Ops, keep_segments: bool) -> Summary {
        let mut summary = Summary::new(keep_segments);
        summary.charge(ops);
        summary
    }

    /// Charges operations that follow directly.
    pub fn charge(&mut self, ops: &Ops) {
        let mut charges = ops.charges.as_slice();
        for &op in &ops.list {
            match op {
                Op::Root { to } => {
                    let node = self.tree.root();
                    self.slots.set(to, Some(Tip { node, segment: NONE }));
                }
                Op::Extend { of, to, key, from, until } => {
                    let tip = self.at(of);
                    if of != to {
                        self.tree.hold(tip.node);
                    }
                    let node = self.tree.own(tip.node, from);
                    self.tree.charge(node, key, until - from);
                    let segment = self.segments.as_mut().map_or(NONE, |segments| segments.add(key, from, until, tip.segment));
                    self.slots.set(to, Some(Tip { node, segment }));
                }
                Op::Past { of, to, end, at, charges: count } => {
                    let tip = self.at(of);
                    let (mine, rest) = charges.split_at(charges.len().min(count as usize));
                    charges = rest;
                    let past = self.past(tip, end, at, mine);
                    self.slots.set(to, Some(past));
                }
                Op::End { of } => {
                    if let Some(tip) = self.slots.set(of, None) {
                        self.tree.release(tip.node);
                    }
                }
            }
        }
    }

    /// Returns the tip of a path; a path that is not known in this window comes from before it.
    fn at(&mut self, slot: Slot) -> Tip {
        if let Some(tip) = self.slots.tip(slot) {
            return tip;
        }
        let tip = self.symbol(Symbol::Entry(slot));
        self.slots.set(slot, Some(tip));
        tip
    }

    /// Returns the held tip of a new symbol. The summary holds it once more, so that its node is
    /// neither merged nor removed.
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

    /// Returns the held tip of a path as it was at `at`.
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

    /// Appends the summary of the window that follows directly.
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
        for (slot, now) in later.slots.changed() {
            let now = now.and_then(|tip| {
                let node = *nodes.get(&tip.node)?;
                self.tree.hold(node);
                Some(Tip { node, segment: segments.get(tip.segment as usize).copied().unwrap_or(NONE) })
            });
            if let Some(before) = self.slots.set(slot, now) {
                self.tree.release(before.node);
            }
        }
        // Each node was held while others were made from it.
        nodes.values().for_each(|&node| self.tree.release(node));
    }

    /// Copies the later summary's nodes into this tree, each held. Returns them by their old
    /// number.
    fn take_nodes(&mut self, later: &Summary, symbols: &[Tip]) -> IdMap<NodeId, NodeId> {
        let mut nodes: IdMap<NodeId, NodeId> = IdMap::default();
        for (&node, &symbol) in &later.symbol_of {
            if let Some(tip) = symbols.get(symbol) {
                nodes.insert(node, tip.node);
            }
        }
        let mut open = Vec::new();
        for tip in later.slots.tips() {
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

    /// Copies the later summary's live segments. Returns their indices by their old index.
    fn take_segments(&mut self, later: &Summary, symbols: &[Tip]) -> Vec<u32> {
        let (Some(mine), Some(theirs)) = (&mut self.segments, &later.segments) else { return Vec::new() };
        let live = theirs.live(later.slots.tips().map(|tip| tip.segment));
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

    /// Drops the segments that no path leads to. Only for a summary that begins with the trace.
    pub fn clear_segments(&mut self) {
        let slots = &mut self.slots;
        if let Some(segments) = self.segments.as_mut().filter(|segments| segments.is_due()) {
            segments.clear(0, |visit| slots.tips_mut().for_each(|tip| visit(&mut tip.segment)));
        }
    }

    pub fn tip(&self, slot: Slot) -> Option<Tip> {
        self.slots.tip(slot)
    }

    pub fn into_parts(self) -> (Tree, Option<Segments>) {
        (self.tree, self.segments)
    }

    pub fn sizes(&self) -> (usize, usize, usize) {
        (self.tree.len(), self.tree.holds(), self.segments.as_ref().map_or(0, Segments::len))
    }
}
