//! Bins of a group: what all rows in it do together in each of many equal stretches of time. A
//! picture shows them for a group whose rows it does not show.
//!
//! Example: a process has four threads. In a bin of 1 ms, one of them runs all the time, and the
//! others sleep: a quarter of the bin is busy.

use super::bins::{Grid, Item, RowItems};
use super::state_names::{StateId, StateNames};
use super::store::{RowId, StateInterval, StateSum, Store, Visit};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::io;

/// Largest number of rows that are added up for a group. A larger group has no bins.
pub const MAX_GROUP_ROWS: usize = 2048;

/// Time in ns and number of each state.
type Sums = HashMap<StateId, (u64, u64)>;

fn item(names: &StateNames, sums: &Sums, parts: u64, (begin, end): (u64, u64)) -> Option<Item> {
    let is_busy = |state: StateId| names.class(state).is_busy();
    // What runs says more about a group than what sleeps, of which there is always most.
    let (&state, _) = sums.iter().max_by_key(|(&state, sum)| (is_busy(state), sum.0, Reverse(state)))?;
    let (&worst, _) = sums.iter().max_by_key(|(&state, sum)| (names.class(state), sum.0, Reverse(state)))?;
    let busy: u64 = sums.iter().filter(|(&state, _)| is_busy(state)).map(|(_, sum)| sum.0).sum();
    Some(Item { begin, end, state, worst, count: sums.values().map(|sum| sum.1).sum(), busy_ns: busy / parts.max(1) })
}

/// Adds up the states of rows in bins.
pub struct GroupBins {
    grid: Grid,
    bins: Vec<Sums>,
}

impl GroupBins {
    pub fn new(grid: Grid) -> GroupBins {
        GroupBins { grid, bins: vec![HashMap::new(); grid.count as usize] }
    }

    /// Adds the states of a row.
    ///
    /// # Errors
    ///
    /// If the store's file cannot be read.
    pub fn add(&mut self, store: &Store, row: RowId) -> io::Result<()> {
        let (begin, end) = (self.grid.begin(), self.grid.end());
        store.visit(row, begin, end, self)
    }

    /// Returns the bins. `parts` is the number of rows that are busy all the time in a bin that is
    /// busy as a whole: its busy time is the sum of theirs divided by that.
    pub fn items(&self, names: &StateNames, parts: u64) -> RowItems {
        let grid = self.grid;
        let begins = (0..grid.count).map(|bin| (grid.first + bin) << grid.level);
        let items = begins.zip(&self.bins).filter_map(|(begin, sums)| item(names, sums, parts, (begin, begin + grid.width())));
        RowItems { is_exact: false, is_group: true, items: items.collect() }
    }

    fn add_to(&mut self, bin: u64, StateSum { state, ns, count }: StateSum) {
        let Some(sums) = bin.checked_sub(self.grid.first).and_then(|bin| self.bins.get_mut(bin as usize)) else { return };
        let sum = sums.entry(state).or_default();
        *sum = (sum.0.saturating_add(ns), sum.1.saturating_add(count));
    }
}

impl Visit for GroupBins {
    fn is_enough(&mut self, begin: u64, end: u64) -> bool {
        self.grid.bin(begin) == self.grid.bin(end - 1)
    }

    fn sums(&mut self, begin: u64, sums: &[StateSum]) {
        sums.iter().for_each(|sum| self.add_to(self.grid.bin(begin), *sum));
    }

    fn state(&mut self, StateInterval { begin, end, state }: StateInterval) {
        let grid = self.grid;
        let (from, to) = (begin.max(grid.begin()), end.min(grid.end()));
        let is_first_bin = |bin: u64| bin == grid.bin(from) && begin >= grid.begin();
        for bin in grid.bin(from)..=grid.bin(to.saturating_sub(1).max(from)) {
            let ns = to.min((bin + 1) << grid.level) - from.max(bin << grid.level);
            self.add_to(bin, StateSum { state, ns, count: u64::from(is_first_bin(bin)) });
        }
    }
}
