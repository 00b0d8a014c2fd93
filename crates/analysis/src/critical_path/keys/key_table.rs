//! The keys that occur, with what the pass sums up for each of them: its time over all machines,
//! and its slack.

use crate::critical_path::keys::key::{Key, Keys};
use crate::critical_path::slack::Slack;

/// Time of a key in ns. `behind` is the part after the end mark number `mark`, and does not belong
/// to the answer if that mark is the last one.
#[derive(Clone, Copy, Debug, Default)]
struct Total {
    ns: u64,
    mark: u64,
    behind: u64,
}

/// Placeholder for the index of a slack: a machine took nothing in the state of this key.
const NO_SLACK: u32 = u32::MAX;

/// The keys with their sums.
#[derive(Debug, Default)]
pub struct KeyTable {
    keys: Keys,
    /// Time of each key over all machines.
    totals: Vec<Total>,
    /// Index into `slack` of each key, or [`NO_SLACK`]. Few keys have a slack.
    slack_at: Vec<u32>,
    slack: Vec<Slack>,
    /// Number of end marks, and the time of the last one in ns.
    marks: u64,
    end: Option<u64>,
}

impl KeyTable {
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Returns the number of the key.
    pub fn id(&mut self, key: Key) -> u32 {
        let id = self.keys.id(key);
        if self.keys.len() > self.totals.len() {
            self.totals.push(Total::default());
            self.slack_at.push(NO_SLACK);
        }
        id
    }

    pub fn slack(&self, key: u32) -> Slack {
        let at = self.slack_at.get(key as usize).copied().unwrap_or(NO_SLACK);
        self.slack.get(at as usize).copied().unwrap_or_default()
    }

    pub fn slack_mut(&mut self, key: u32) -> &mut Slack {
        let at = &mut self.slack_at[key as usize];
        if *at == NO_SLACK {
            *at = self.slack.len() as u32;
            self.slack.push(Slack::default());
        }
        &mut self.slack[*at as usize]
    }

    /// Marks the end at `t` ns; a later mark replaces this one.
    pub fn mark_end(&mut self, t: u64) {
        self.marks += 1;
        self.end = Some(t);
    }

    /// Part of a stretch behind the end mark, in ns.
    fn behind(&self, from: u64, to: u64) -> u64 {
        self.end.map_or(0, |end| to.saturating_sub(end.max(from)))
    }

    /// Adds a stretch to the time of a key over all machines. The part after the current end mark
    /// is counted separately, so a new end mark need not visit all keys or machines: it only
    /// changes the number of the mark.
    pub fn count(&mut self, key: u32, from: u64, to: u64) {
        let behind = self.behind(from, to);
        let total = &mut self.totals[key as usize];
        total.ns += to - from;
        if behind > 0 {
            if total.mark != self.marks {
                (total.mark, total.behind) = (self.marks, 0);
            }
            total.behind += behind;
        }
    }

    /// Reverses [`KeyTable::count`].
    pub fn uncount(&mut self, key: u32, from: u64, to: u64) {
        let behind = self.behind(from, to);
        let Some(total) = self.totals.get_mut(key as usize) else { return };
        total.ns = total.ns.saturating_sub(to.saturating_sub(from));
        if total.mark == self.marks {
            total.behind = total.behind.saturating_sub(behind).min(total.ns);
        }
    }

    /// Returns the counted time of each key until the end mark, in ns.
    pub fn totals_to_end(&self) -> Vec<u64> {
        let to_end = |total: &Total| total.ns - if total.mark == self.marks { total.behind } else { 0 };
        self.totals.iter().map(to_end).collect()
    }
}
