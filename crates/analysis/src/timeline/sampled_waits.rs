//! The waits of a timeline whose stacks were sampled: which they are, and marks of them for a
//! picture.

use super::{RowId, Timeline};
use crate::scheduling::sampled_waits::SampledWait;
use crate::scheduling::time_kind::TimeKind;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Number of marks of a row from which on neighbours are joined, and number of all marks from which
/// on more of them are joined.
const MAX_ROW_MARKS: u64 = 2048;
const MAX_MARKS: usize = 20_000;

/// The waits in the order of their samples.
#[derive(Clone, Debug, Default)]
pub(super) struct Waits(pub Arc<[SampledWait]>);

/// A stretch of a row with a sampled wait, or with several that are close to each other, in ns
/// since the timeline's begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitMark {
    pub row: RowId,
    pub begin: u64,
    pub end: u64,
}

impl Timeline {
    /// Keeps the waits that a reading has found, in the order of their samples.
    pub fn set_sampled_waits(&self, waits: &[SampledWait]) {
        let mut content = self.write();
        content.waits = Waits(waits.iter().filter(|wait| wait.begin_ns < wait.end_ns).copied().collect());
        content.version += 1;
    }

    /// Returns all sampled waits, on the trace's clock, in the order of their samples.
    pub fn sampled_waits(&self) -> Arc<[SampledWait]> {
        self.read().waits.0.clone()
    }

    /// Returns the sampled wait of a row that has most of a range, in ns since the timeline's
    /// begin.
    pub fn sampled_wait(&self, row: RowId, (begin, end): (u64, u64)) -> Option<SampledWait> {
        let content = self.read();
        let tid = content.rows.iter().find(|of| of.id == row)?.tid?;
        let rows = content.thread_rows();
        let within = |wait: &&SampledWait| {
            let (from, to) = content.since_begin(wait);
            to.min(end).saturating_sub(from.max(begin))
        };
        let is_of_row = |wait: &&SampledWait| content.row_of_thread(&rows, tid, content.since_begin(wait).1) == Some(row);
        let of_row = content.waits.0.iter().filter(|wait| wait.tid == tid && within(wait) > 0).filter(is_of_row);
        of_row.max_by_key(within).copied()
    }

    /// Returns the row of a thread that has a state just before a time in ns since the timeline's
    /// begin.
    pub fn row_of_thread(&self, tid: i32, t: u64) -> Option<RowId> {
        let content = self.read();
        content.row_of_thread(&content.thread_rows(), tid, t)
    }

    /// Returns where the rows have sampled waits in a range.
    pub fn wait_marks(&self, (begin, end): (u64, u64)) -> Vec<WaitMark> {
        let content = self.read();
        let rows = content.thread_rows();
        let mut marks: BTreeMap<RowId, Vec<(u64, u64)>> = BTreeMap::new();
        for wait in content.waits.0.iter() {
            let (from, to) = content.since_begin(wait);
            if from >= end || to <= begin {
                continue;
            }
            if let Some(row) = content.row_of_thread(&rows, wait.tid, to) {
                marks.entry(row).or_default().push((from, to));
            }
        }
        let length = end.min(content.end - content.begin).saturating_sub(begin);
        let mut gap = length / MAX_ROW_MARKS;
        while marks.values().map(Vec::len).sum::<usize>() > MAX_MARKS && gap <= length {
            gap = 2 * gap + 1;
            marks.values_mut().for_each(|of_row| join(of_row, gap));
        }
        let of_row = |(row, of_row): (RowId, Vec<(u64, u64)>)| of_row.into_iter().map(move |(begin, end)| WaitMark { row, begin, end });
        marks.into_iter().flat_map(of_row).collect()
    }
}

/// Joins the marks of a row that are closer than `gap`.
fn join(marks: &mut Vec<(u64, u64)>, gap: u64) {
    marks.dedup_by(|next, last| {
        let is_close = next.0 < last.1.saturating_add(gap);
        if is_close {
            last.1 = last.1.max(next.1);
        }
        is_close
    });
}

impl super::Content {
    /// Returns the rows of each thread id. A thread id that was used again has several.
    fn thread_rows(&self) -> HashMap<i32, Vec<RowId>> {
        let mut rows: HashMap<i32, Vec<RowId>> = HashMap::new();
        for row in self.rows.iter() {
            if let Some(tid) = row.tid {
                rows.entry(tid).or_default().push(row.id);
            }
        }
        rows
    }

    fn since_begin(&self, wait: &SampledWait) -> (u64, u64) {
        let since = |t_ns: i64| u64::try_from(t_ns).unwrap_or(0).saturating_sub(self.begin);
        (since(wait.begin_ns), since(wait.end_ns))
    }

    /// Returns the row of a thread: of several with its id, the one that has a state just before
    /// this time.
    fn row_of_thread(&self, rows: &HashMap<i32, Vec<RowId>>, tid: i32, t: u64) -> Option<RowId> {
        let rows = rows.get(&tid)?;
        if let [one] = rows[..] {
            return Some(one);
        }
        let before = (t.saturating_sub(1), t.max(1));
        rows.iter().copied().find(|row| super::search::first(&self.store, *row, before, 1).is_ok_and(|(states, _)| !states.is_empty()))
    }
}

/// A wait in a file, in few digits: thread, time of the sample since the one before, times before
/// the sample, and kind. Locks are not kept.
type Stored = (i32, i64, [i64; 3], TimeKind, bool);

impl Serialize for Waits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut last = 0;
        serializer.collect_seq(self.0.iter().map(|wait| -> Stored {
            let since = wait.t_ns.wrapping_sub(std::mem::replace(&mut last, wait.t_ns));
            let before = [wait.begin_ns, wait.ready_ns, wait.end_ns].map(|t_ns| wait.t_ns.wrapping_sub(t_ns));
            (wait.tid, since, before, wait.kind, wait.by_thread)
        }))
    }
}

impl<'de> Deserialize<'de> for Waits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Waits, D::Error> {
        let mut t_ns = 0i64;
        let wait = |(tid, since, before, kind, by_thread): Stored| {
            t_ns = t_ns.wrapping_add(since);
            let [begin_ns, ready_ns, end_ns] = before.map(|before| t_ns.wrapping_sub(before));
            SampledWait { t_ns, tid, begin_ns, ready_ns, end_ns, kind, by_thread, lock: None }
        };
        let mut waits: Vec<SampledWait> = Vec::<Stored>::deserialize(deserializer)?.into_iter().map(wait).collect();
        waits.retain(|wait| wait.begin_ns < wait.end_ns);
        // A file may be made by anyone.
        waits.sort_by_key(|wait| wait.t_ns);
        Ok(Waits(waits.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(t_ns: i64, tid: i32) -> SampledWait {
        let (begin_ns, ready_ns, end_ns) = (t_ns - 500, t_ns - 30, t_ns - 2);
        SampledWait { t_ns, tid, begin_ns, ready_ns, end_ns, kind: TimeKind::Disk, by_thread: true, lock: None }
    }

    #[test]
    fn stored_waits_are_read_again() {
        let waits = Waits(Arc::from([wait(1_764_000_000_000_000_000, 7), wait(1_764_000_000_000_000_900, 8)]));
        let text = serde_json::to_string(&waits).unwrap();
        let again: Waits = serde_json::from_str(&text).unwrap();
        assert_eq!(again.0, waits.0, "{text}");
    }

    #[test]
    fn close_marks_are_joined() {
        let mut marks = vec![(0, 10), (15, 20), (100, 110), (111, 112)];
        join(&mut marks, 6);
        assert_eq!(marks, [(0, 20), (100, 112)]);
    }
}
