//! Finds states: the first ones of a range, or those with a text in their names.

use super::state_names::{StateId, StateName};
use super::store::{RowId, StateInterval, StateSum, Store, Visit};
use std::io;

/// A state that was searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    pub row: RowId,
    pub interval: StateInterval,
}

/// The states that were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Number of all states that match and begin in the range, and their time in the range in ns.
    pub count: u64,
    pub total_ns: u64,
    /// The first ones, by row and time.
    pub matches: Vec<Match>,
}

/// Returns the first states that overlap the range, and true if there are more than `limit`.
pub(super) fn first(store: &Store, row: RowId, (begin, end): (u64, u64), limit: usize) -> io::Result<(Vec<StateInterval>, bool)> {
    let mut first = First { wanted: |_| true, limit: limit.saturating_add(1), found: Vec::new() };
    store.visit(row, begin, end, &mut first)?;
    let more = first.found.len() > limit;
    first.found.truncate(limit);
    Ok((first.found, more))
}

/// Collects the first states that are wanted. Skips stretches without such a state.
struct First<W> {
    wanted: W,
    limit: usize,
    found: Vec<StateInterval>,
}

impl<W: Fn(StateId) -> bool> Visit for First<W> {
    fn is_enough(&mut self, _: u64, _: u64) -> bool {
        false
    }

    fn sums(&mut self, _: u64, _: &[StateSum]) {}

    fn state(&mut self, interval: StateInterval) {
        if (self.wanted)(interval.state) {
            self.found.push(interval);
        }
    }

    fn is_over(&self) -> bool {
        self.found.len() >= self.limit
    }
}

/// A search for states by a text in their names.
pub(super) struct Search {
    /// For each state, true if it is searched for.
    is_wanted: Vec<bool>,
    begin: u64,
    end: u64,
    limit: usize,
}

impl Search {
    pub fn new(states: &[StateName], text: &str, (begin, end): (u64, u64), limit: usize) -> Search {
        let text = text.to_lowercase();
        Search { is_wanted: states.iter().map(|state| state.name.to_lowercase().contains(&text)).collect(), begin, end, limit }
    }

    /// Adds what is found in a row.
    pub fn row(&self, store: &Store, row: RowId, found: &mut Found) -> io::Result<()> {
        let wanted = |state: StateId| self.is_wanted.get(state.0 as usize).copied().unwrap_or(false);
        let before = found.count;
        for sum in store.sums(row, self.begin, self.end)?.iter().filter(|sum| wanted(sum.state)) {
            found.count += sum.count;
            found.total_ns += sum.ns;
        }
        if found.count > before && found.matches.len() < self.limit {
            let mut first = First { wanted, limit: self.limit - found.matches.len(), found: Vec::new() };
            store.visit(row, self.begin, self.end, &mut first)?;
            found.matches.extend(first.found.into_iter().map(|interval| Match { row, interval }));
        }
        Ok(())
    }
}
