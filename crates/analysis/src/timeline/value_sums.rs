//! The values of a row: single steps, and what a range of them sums up to.

use super::store::{RowId, ValueStep};
use super::{value_bins, Timeline};
use serde::Serialize;
use std::io;

/// The values of a row in a range.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RangeValues {
    pub row: u32,
    pub min: f64,
    pub max: f64,
    /// Weighted by time.
    pub mean: f64,
    /// Time with a value in the range, and number of changes in it.
    pub known_ns: u64,
    pub changes: u64,
}

impl Timeline {
    /// Returns true if the row has values instead of states.
    pub fn has_values(&self, row: RowId) -> bool {
        self.read().store.has_values(row)
    }

    /// Returns the first steps of a row with values that overlap the range, at most `limit`, and
    /// true if there are more.
    ///
    /// # Errors
    ///
    /// If the file of the values cannot be read.
    pub fn steps(&self, row: RowId, range: (u64, u64), limit: usize) -> io::Result<(Vec<ValueStep>, bool)> {
        value_bins::first_steps(&self.read().store, row, range, limit)
    }

    /// Returns the values of these rows in a range; nothing for rows without values there.
    ///
    /// # Errors
    ///
    /// If the file of the values cannot be read.
    pub fn range_values(&self, rows: &[RowId], (begin, end): (u64, u64)) -> io::Result<Vec<RangeValues>> {
        let mut all = Vec::new();
        for &row in rows {
            let content = self.read();
            if !content.store.has_values(row) {
                continue;
            }
            let sum = content.store.value_sum(row, begin, end)?;
            all.extend(sum.mean().map(|mean| RangeValues {
                row: row.0,
                min: sum.min,
                max: sum.max,
                mean,
                known_ns: sum.ns,
                changes: sum.count,
            }));
        }
        Ok(all)
    }
}
