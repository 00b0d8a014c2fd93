//! Rows of values: fill levels of queues, and counters. They are added after the reading, because
//! the depth at the begin of a recording may be known only later.

use super::rows::{RowKind, ValueFacts};
use super::store::{RowId, ValueStep};
use super::{Content, Timeline};
use std::io;

/// Time in ns after the last event of a timeline without states.
const MOMENT_NS: u64 = 2;

/// Number of changes for which the timeline is locked at once.
const CHANGES_AT_ONCE: usize = 4096;

/// A value over time, for a row of its own.
pub struct ValueSeries<'a> {
    /// `Queue` or `Counter`.
    pub kind: RowKind,
    pub host: &'a str,
    pub name: &'a str,
    pub detail: String,
    pub unit: Option<&'static str>,
    pub capacity: Option<u64>,
    /// Passes each change: its time in ns on the trace's clock, and the new value.
    pub each_change: &'a dyn Fn(&mut dyn FnMut(i64, f64)) -> io::Result<()>,
}

impl Timeline {
    /// Adds a row with values, below the group of its kind. Each value lasts until the next change,
    /// the last one until the end of the timeline.
    ///
    /// # Errors
    ///
    /// If the changes cannot be read again.
    pub fn add_values(&self, series: &ValueSeries<'_>) -> io::Result<RowId> {
        let row = {
            let mut content = self.write();
            let Content { rows, store, .. } = &mut *content;
            rows.add_values(store, series.kind, (series.name, &series.detail))
        };
        let mut changes: Vec<(i64, f64)> = Vec::with_capacity(CHANGES_AT_ONCE);
        (series.each_change)(&mut |t_ns, value| {
            changes.push((t_ns, value));
            if changes.len() == CHANGES_AT_ONCE {
                self.push_changes(row, &changes);
                // The last change lasts until the next one.
                changes.drain(..CHANGES_AT_ONCE - 1);
            }
        })?;
        if let Some(&(_, value)) = changes.last() {
            changes.push((i64::MAX, value));
            self.push_changes(row, &changes);
        }
        let mut content = self.write();
        let sum = content.store.value_sum(row, 0, u64::MAX)?;
        let facts = (sum.ns > 0).then_some(ValueFacts {
            min: sum.min,
            max: sum.max,
            unit: series.unit.map(str::to_owned),
            capacity: series.capacity,
        });
        let group = content.group_of_values(series);
        if let Some(row) = content.rows.get_mut(row) {
            (row.values, row.parent) = (facts, Some(group));
        }
        content.version += 1;
        Ok(row)
    }

    /// Sets the range in ns on the trace's clock of a timeline that has none yet.
    pub fn set_empty_range(&self, begin_ns: i64, end_ns: i64) {
        let mut content = self.write();
        if content.begin == content.end {
            content.begin = u64::try_from(begin_ns).unwrap_or(0);
            // A single packet is shown as long as its state is.
            content.end = u64::try_from(end_ns).unwrap_or(0).max(content.begin).saturating_add(MOMENT_NS);
            content.version += 1;
        }
    }

    fn push_changes(&self, row: RowId, changes: &[(i64, f64)]) {
        let mut content = self.write();
        let (origin, end) = (content.begin, content.end);
        let since = |t_ns: i64| u64::try_from(t_ns).unwrap_or(0).clamp(origin, end) - origin;
        for pair in changes.windows(2) {
            let (begin, end) = (since(pair[0].0), since(pair[1].0));
            content.store.push_value(row, ValueStep { begin, end, value: pair[0].1 });
        }
    }
}

impl Content {
    /// Returns the group for rows of this series' kind, which may be new.
    fn group_of_values(&mut self, series: &ValueSeries<'_>) -> RowId {
        let (head, title) = match series.kind {
            RowKind::Queue => (RowKind::Queues, "queues"),
            _ => (RowKind::Counters, "counters"),
        };
        self.rows.titled_group(&mut self.store, head, title, series.host)
    }
}
