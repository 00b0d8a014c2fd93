//! The time that threads are in one state.

use super::{RowId, StateClass, StateId, Timeline};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// A state of some threads on a timeline.
#[derive(Clone, Debug)]
pub struct StateTimes {
    timeline: Arc<Timeline>,
    state: StateId,
    /// Rows of each thread id.
    rows: HashMap<i32, Vec<RowId>>,
}

impl StateTimes {
    /// Returns the times of a state on these rows of threads.
    pub fn new(timeline: Arc<Timeline>, state: StateId, rows: &[RowId]) -> StateTimes {
        let mut of_threads: HashMap<i32, Vec<RowId>> = HashMap::new();
        for row in timeline.listing().rows.iter().filter(|row| rows.contains(&row.id)) {
            if let Some(tid) = row.tid {
                of_threads.entry(tid).or_default().push(row.id);
            }
        }
        StateTimes { timeline, state, rows: of_threads }
    }

    fn rows(&self, tid: i32) -> &[RowId] {
        self.rows.get(&tid).map_or(&[], Vec::as_slice)
    }

    /// Returns how long the thread is in the state in a range on the trace's clock. Times that
    /// cannot be read count as 0.
    pub fn ns_in(&self, tid: i32, range: Range<i64>) -> u64 {
        let content = self.timeline.read();
        let since = |t_ns: i64| u64::try_from(t_ns).unwrap_or(0).saturating_sub(content.begin);
        let sums = |row: &RowId| content.store.sums(*row, since(range.start), since(range.end)).unwrap_or_default();
        let all = self.rows(tid).iter().flat_map(sums);
        all.filter(|sum| sum.state == self.state).map(|sum| sum.ns).sum()
    }

    /// Returns true if a sample of running code at this time is of the state. Samples are taken in
    /// an interrupt and show the code that it interrupted, so they are of the state before it if
    /// code runs in that state.
    pub fn runs_in(&self, tid: i32, t_ns: i64) -> bool {
        let content = self.timeline.read();
        let Some(mut t) = u64::try_from(t_ns).ok().and_then(|t| t.checked_sub(content.begin)) else { return false };
        self.rows(tid).iter().any(|row| {
            // More interrupts than these do not follow each other without a gap.
            for interrupts in 0..MAX_INTERRUPTS {
                let Ok((states, _)) = super::search::first(&content.store, *row, (t, t + 1), 1) else { return false };
                let Some(now) = states.first() else { return false };
                let class = content.names.class(now.state);
                if now.state == self.state {
                    return interrupts == 0 || class.is_busy();
                }
                if class != StateClass::Interrupt || now.begin == 0 {
                    return false;
                }
                t = now.begin - 1;
            }
            false
        })
    }
}

const MAX_INTERRUPTS: usize = 16;
