//! Blocked times of threads: how long and how often, by the reasons that the events show.

use longpole_model::linux::watch::BlockReason;
use longpole_model::linux::Linux;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// Blocked time of a thread for one reason.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Blocked {
    /// System call, with the kind of its file if known (`read: pipe`), or `sleep: …`, `signal: …`,
    /// `child: …`, `disk`, `page fault`, `kernel thread`, `stopped`, `unknown`.
    pub reason: String,
    pub ns: u64,
    /// Share of the thread's blocked time.
    pub share: f64,
    pub count: u64,
}

/// Blocked times and counts of one thread.
#[derive(Clone, Debug, Default)]
pub struct Blocks(HashMap<BlockReason, (u64, u64)>);

impl Blocks {
    pub fn add(&mut self, why: BlockReason, ns: u64) {
        let (sum, count) = self.0.entry(why).or_default();
        *sum += ns;
        *count += 1;
    }

    /// Returns the blocked times by reason, the longest first.
    pub fn answer(&self, linux: &Linux) -> Vec<Blocked> {
        let mut merged: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for (why, (ns, count)) in &self.0 {
            let (sum, times) = merged.entry(linux.reason_text(*why)).or_default();
            *sum += ns;
            *times += count;
        }
        let total: u64 = merged.values().map(|(ns, _)| ns).sum();
        let share = |ns: u64| if total > 0 { ns as f64 / total as f64 } else { 0.0 };
        let mut out: Vec<Blocked> =
            merged.into_iter().map(|(reason, (ns, count))| Blocked { reason, ns, share: share(ns), count }).collect();
        out.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| a.reason.cmp(&b.reason)));
        out
    }
}
