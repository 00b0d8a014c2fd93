//! Entries: the rows of an output as a tree, and their numbers.

use super::experiments::Experiment;
use super::outputs::Output;
use longpole_analysis::timeline::{Listing, Row, RowId, RowKind};
use std::collections::{HashMap, HashSet};

/// Number of an entry that is no row: the head of a trace's rows, or the sum of all of them.
const HEAD: u32 = u32::MAX;

/// Returns the number of a row's entry: the trace's place in the experiment, and the row. Rows of
/// the first trace have their own numbers. JavaScript has whole numbers below 2^53, and the parser
/// of the TypeScript client makes a `bigint`, which is refused, of those with more than 15 digits.
pub(crate) fn of_row(trace: usize, row: RowId) -> u64 {
    (trace as u64) << 32 | u64::from(row.0)
}

/// Returns the number of the entry above all rows of a trace.
pub(crate) fn of_head(trace: usize) -> u64 {
    (trace as u64) << 32 | u64::from(HEAD)
}

/// Returns the trace's place in the experiment, and the row; `None` for the head of a trace.
pub(crate) fn row_of(entry: u64) -> (usize, Option<RowId>) {
    let row = entry as u32;
    ((entry >> 32) as usize, (row != HEAD).then_some(RowId(row)))
}

/// The rows of one trace that an output shows.
pub(crate) struct Shown {
    /// Place of the trace in the experiment.
    pub trace: usize,
    pub listing: Listing,
    /// Positions in the listing, parents before their children.
    rows: Vec<usize>,
}

impl Shown {
    /// Returns what the output shows of each trace.
    pub fn of(experiment: &Experiment, output: Output) -> Vec<Shown> {
        let listings = experiment.traces.iter().map(|reading| reading.timeline.listing());
        listings.enumerate().map(|(trace, listing)| Shown { trace, rows: shown(output, &listing), listing }).collect()
    }

    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().map(|&at| &self.listing.rows[at])
    }

    /// Returns the rows that have states and are requested; `None` requests all.
    pub fn requested(&self, items: Option<&HashSet<u64>>) -> Vec<&Row> {
        let is_requested = |row: &Row| items.is_none_or(|items| items.contains(&of_row(self.trace, row.id)));
        self.rows().filter(|row| has_states(row.kind) && is_requested(row)).collect()
    }
}

/// Returns the rows of an output, and the groups above them. On the critical path's output, these
/// are the rows that are on the path. A trace without the kernel's events knows no threads, but the
/// programs that wrote it; they are shown instead.
fn shown(output: Output, listing: &Listing) -> Vec<usize> {
    let positions: HashMap<RowId, usize> = listing.rows.iter().enumerate().map(|(at, row)| (row.id, at)).collect();
    let has_threads = listing.rows.iter().any(|row| row.kind == RowKind::Thread);
    let output = if output == Output::Threads && !has_threads { Output::Machines } else { output };
    let is_shown = |row: &&Row| output.shows(row.kind) && (output != Output::CriticalPath || row.kind == RowKind::Path || row.path_ns > 0);
    let mut with_parents: HashSet<RowId> = HashSet::new();
    for row in listing.rows.iter().filter(is_shown) {
        let mut next = Some(row.id);
        while let Some(id) = next.filter(|&id| with_parents.insert(id)) {
            next = positions.get(&id).and_then(|&at| listing.rows[at].parent);
        }
    }
    let mut shown: Vec<usize> = (0..listing.rows.len()).filter(|&at| with_parents.contains(&listing.rows[at].id)).collect();
    if output.shows(RowKind::Cpu) && !output.shows(RowKind::Thread) {
        // CPUs are in the order of their numbers: CPU 2 before CPU 10. Groups are before them.
        let order = |&at: &usize| (listing.rows[at].kind, listing.rows[at].name.len(), &listing.rows[at].name);
        shown.sort_by(|a, b| order(a).cmp(&order(b)));
    }
    shown
}

/// Returns true for rows with states, false for groups.
pub(crate) fn has_states(kind: RowKind) -> bool {
    matches!(kind, RowKind::Path | RowKind::Thread | RowKind::Cpu | RowKind::Interrupt | RowKind::Machine)
}

/// Returns the number of the entry above a row: its group, else the head of the trace if there are
/// several traces, else -1.
pub(crate) fn parent_of(experiment: &Experiment, trace: usize, row: &Row) -> i64 {
    let head = || if experiment.traces.len() > 1 { of_head(trace) as i64 } else { -1 };
    row.parent.map_or_else(head, |parent| of_row(trace, parent) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_an_entry_names_its_trace_and_row() {
        for (trace, row) in [(0, 0), (0, 7), (1, 0), (1000, u32::MAX - 1)] {
            let entry = of_row(trace, RowId(row));
            assert!(entry < 1_000_000_000_000_000);
            assert_eq!(row_of(entry), (trace, Some(RowId(row))));
        }
        assert_eq!(row_of(of_head(3)), (3, None));
    }
}
