//! How long states last in a range: number, sum, mean and percentiles, as a selection shows them.

use super::state_names::StateId;
use super::store::{RowId, StateInterval, StateSum, Store, Visit};
use crate::stats::histogram::Histogram;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io;

/// The durations of one state of one row in a range. A state that the range cuts counts with the
/// part inside. Percentiles are within 1 % of the true value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Distribution {
    pub row: u32,
    pub state: u32,
    pub count: u64,
    pub total_ns: u64,
    pub mean_ns: f64,
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
}

/// Returns the distributions of a row by time, the longest first.
pub(super) fn distributions(store: &Store, row: RowId, (begin, end): (u64, u64)) -> io::Result<Vec<Distribution>> {
    let mut durations = Durations { begin, end, states: BTreeMap::new() };
    store.visit(row, begin, end, &mut durations)?;
    let mut all: Vec<_> = durations.states.iter().map(|(&state, durations)| distribution(row, state, durations)).collect();
    all.sort_by_key(|it| (std::cmp::Reverse(it.total_ns), it.state));
    Ok(all)
}

fn distribution(row: RowId, state: StateId, durations: &Histogram) -> Distribution {
    Distribution {
        row: row.0,
        state: state.0,
        count: durations.count(),
        total_ns: durations.sum(),
        mean_ns: durations.mean().unwrap_or(0.0),
        p50_ns: durations.quantile(0.5).unwrap_or(0),
        p99_ns: durations.quantile(0.99).unwrap_or(0),
        max_ns: durations.max().unwrap_or(0),
    }
}

struct Durations {
    begin: u64,
    end: u64,
    states: BTreeMap<StateId, Histogram>,
}

impl Visit for Durations {
    fn is_enough(&mut self, _: u64, _: u64) -> bool {
        false
    }

    fn sums(&mut self, _: u64, _: &[StateSum]) {}

    fn state(&mut self, StateInterval { begin, end, state }: StateInterval) {
        self.states.entry(state).or_default().record(end.min(self.end) - begin.max(self.begin));
    }
}
