//! Bins: what a row does in each of many equal stretches of time, as a picture needs it.
//!
//! A picture has a few thousand pixels, a row may have millions of states. A bin is about half a
//! pixel wide. It names the state with most of its time, which determines the colour, and the worst
//! one, so that a red microsecond is not hidden by a grey second. Neighbouring bins with nothing
//! but one and the same state are one item.
//!
//! If a row has at most one state per bin, its states themselves are the items.

use super::state_names::{StateId, StateNames};
use super::store::{add, RowId, StateInterval, StateSum, Store, Visit};
use std::io;

/// The bins of a picture: `count` bins of 2^`level` ns. Bin i begins at (`first` + i) · 2^`level`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    pub level: u32,
    pub first: u64,
    pub count: u64,
}

impl Grid {
    /// The largest level, at which a bin is longer than any trace.
    pub const MAX_LEVEL: u32 = 56;

    pub fn begin(&self) -> u64 {
        self.first << self.level
    }

    pub fn end(&self) -> u64 {
        (self.first + self.count) << self.level
    }

    pub(super) fn bin(&self, t: u64) -> u64 {
        t >> self.level
    }

    pub(super) fn width(&self) -> u64 {
        1 << self.level
    }
}

/// A state, or one or several neighbouring bins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Item {
    /// In ns. Bins reach from edge to edge; a state reaches to its own begin and end.
    pub begin: u64,
    pub end: u64,
    /// The state with most of the time.
    pub state: StateId,
    /// The state of the most serious class.
    pub worst: StateId,
    /// Number of states that begin in it.
    pub count: u64,
    /// Time in which the row executes code, in ns.
    pub busy_ns: u64,
}

/// The items of a row in a picture.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowItems {
    /// True if each item is a state.
    pub is_exact: bool,
    /// True if each item is about all rows of a group ([`super::group_bins`]).
    pub is_group: bool,
    pub items: Vec<Item>,
}

/// Returns the items of a row in a picture.
///
/// # Errors
///
/// If the store's file cannot be read.
pub fn row_items(store: &Store, names: &StateNames, row: RowId, grid: Grid) -> io::Result<RowItems> {
    let (begin, end) = (grid.begin(), grid.end());
    if store.count_at_most(row, begin, end, grid.count) <= grid.count {
        return exact_items(store, names, row, (begin, end));
    }
    let mut binned = Binned { grid, names, bin: None, sums: Vec::new(), items: Vec::new(), last_is_pure: false };
    store.visit(row, begin, end, &mut binned)?;
    binned.close_bin();
    Ok(RowItems { items: binned.items, ..RowItems::default() })
}

/// Returns the states of a row that overlap a range, each as an item.
///
/// # Errors
///
/// If the store's file cannot be read.
pub fn exact_items(store: &Store, names: &StateNames, row: RowId, (begin, end): (u64, u64)) -> io::Result<RowItems> {
    let mut exact = Exact { names, items: Vec::new() };
    store.visit(row, begin, end, &mut exact)?;
    Ok(RowItems { is_exact: true, items: exact.items, ..RowItems::default() })
}

/// Collects the states themselves.
struct Exact<'a> {
    names: &'a StateNames,
    items: Vec<Item>,
}

impl Visit for Exact<'_> {
    fn is_enough(&mut self, _: u64, _: u64) -> bool {
        false
    }

    fn sums(&mut self, _: u64, _: &[StateSum]) {}

    fn state(&mut self, StateInterval { begin, end, state }: StateInterval) {
        let busy_ns = if self.names.class(state).is_busy() { end - begin } else { 0 };
        self.items.push(Item { begin, end, state, worst: state, count: 1, busy_ns });
    }
}

/// Collects bins.
struct Binned<'a> {
    grid: Grid,
    names: &'a StateNames,
    /// The bin to which `sums` belong.
    bin: Option<u64>,
    sums: Vec<StateSum>,
    items: Vec<Item>,
    /// True if the row is in one and the same state during the whole last item.
    last_is_pure: bool,
}

impl Visit for Binned<'_> {
    fn is_enough(&mut self, begin: u64, end: u64) -> bool {
        self.grid.bin(begin) == self.grid.bin(end - 1)
    }

    fn sums(&mut self, begin: u64, sums: &[StateSum]) {
        self.enter(self.grid.bin(begin));
        sums.iter().for_each(|sum| add(&mut self.sums, *sum));
    }

    fn state(&mut self, StateInterval { begin, end, state }: StateInterval) {
        let grid = self.grid;
        let (from, to) = (begin.max(grid.begin()), end.min(grid.end()));
        let (first, last) = (grid.bin(from), grid.bin(to - 1));
        let mut count = u64::from(begin >= grid.begin());
        let whole = from.div_ceil(grid.width())..to >> grid.level;
        if whole.start >= whole.end {
            // The state covers no whole bin: it lies in one bin, or in two neighbouring ones.
            let edge = (first + 1) << grid.level;
            self.add(first, StateSum { state, ns: to.min(edge) - from, count });
            if last > first {
                self.add(last, StateSum { state, ns: to - edge, count: 0 });
            }
            return;
        }
        if first < whole.start {
            self.add(first, StateSum { state, ns: (whole.start << grid.level) - from, count });
            count = 0;
        }
        self.close_bin();
        self.item(
            whole.start << grid.level,
            whole.end << grid.level,
            &[StateSum { state, ns: (whole.end - whole.start) << grid.level, count }],
        );
        if last >= whole.end {
            self.add(last, StateSum { state, ns: to - (whole.end << grid.level), count: 0 });
        }
    }
}

impl Binned<'_> {
    fn enter(&mut self, bin: u64) {
        if self.bin != Some(bin) {
            self.close_bin();
            self.bin = Some(bin);
        }
    }

    fn add(&mut self, bin: u64, sum: StateSum) {
        self.enter(bin);
        add(&mut self.sums, sum);
    }

    fn close_bin(&mut self) {
        let Some(bin) = self.bin.take() else { return };
        let sums = std::mem::take(&mut self.sums);
        self.item(bin << self.grid.level, (bin + 1) << self.grid.level, &sums);
        self.sums = sums;
        self.sums.clear();
    }

    fn item(&mut self, begin: u64, end: u64, sums: &[StateSum]) {
        let most = sums.iter().max_by_key(|sum| (sum.ns, std::cmp::Reverse(sum.state)));
        let worst = sums.iter().max_by_key(|sum| (self.names.class(sum.state), sum.ns, std::cmp::Reverse(sum.state)));
        let (Some(most), Some(worst)) = (most, worst) else { return };
        let busy_ns = sums.iter().filter(|sum| self.names.class(sum.state).is_busy()).map(|sum| sum.ns).sum();
        let count = sums.iter().map(|sum| sum.count).sum();
        let item = Item { begin, end, state: most.state, worst: worst.state, count, busy_ns };
        let is_pure = sums.len() == 1 && most.ns == end - begin;
        match self.items.last_mut() {
            Some(last) if is_pure && self.last_is_pure && last.end == begin && last.state == item.state => {
                last.end = end;
                last.count += count;
                last.busy_ns += busy_ns;
            }
            _ => self.items.push(item),
        }
        self.last_is_pure = is_pure;
    }
}
