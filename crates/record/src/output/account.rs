//! What the description of a recording reports about the whole run: sums, and diagnostics for the
//! readers.

use std::collections::BTreeMap;

/// Number of different diagnostics that are stored; further ones are dropped.
const MAX_DIAGNOSTICS: usize = 100;

/// Sums over the whole recording.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    /// Bytes of recorded events.
    pub recorded: u64,
    /// Bytes of stream files on the disk. Larger than `recorded`, because packets are padded to
    /// pages.
    pub written: u64,
    /// Number of lost events.
    pub lost: u64,
    /// Number of events of threads without a ring.
    pub refused: u64,
    /// Number of processes with probes that were seen.
    pub processes: u64,
    /// Number of processes that were left out because of the scope or of policies.
    pub unwanted: u64,
    /// Number of processes that another recorder holds.
    pub taken: u64,
    /// Bytes of events that no policy selects.
    pub dropped: u64,
    /// Bytes of events of threads of which only captured packets are recorded.
    pub packets_only: u64,
    /// Number of captured packets.
    pub packets: u64,
    /// Number of captured packets that could not be written.
    pub packets_refused: u64,
    /// Nanoseconds that threads waited for room in their rings, as counted by the threads.
    pub waited: u64,
}

/// The sums and diagnostics of a recording.
#[derive(Debug, Default)]
pub(crate) struct Account {
    pub totals: Totals,
    /// Reason why the thread of the newest of them had no ring.
    pub why_refused: String,
    /// Diagnostics, each with the number of its occurrences.
    diagnostics: BTreeMap<String, u64>,
}

impl Account {
    /// Records something unexpected for the readers of the recording. Equal texts are counted.
    pub fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        if self.diagnostics.len() < MAX_DIAGNOSTICS || self.diagnostics.contains_key(&text) {
            *self.diagnostics.entry(text).or_insert(0) += 1;
        }
    }

    /// Adds lost events.
    pub fn lose(&mut self, events: u64) {
        self.totals.lost = self.totals.lost.saturating_add(events);
    }

    /// The diagnostics, sorted; repeated ones with their number.
    pub fn diagnostics(&self) -> Vec<String> {
        let times = |(text, count): (&String, &u64)| match count {
            1 => text.clone(),
            count => format!("{text} ({count} times)"),
        };
        self.diagnostics.iter().map(times).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_diagnostics_are_counted_and_their_number_is_limited() {
        let mut account = Account::default();
        account.note("b");
        account.note("a");
        account.note("b");
        assert_eq!(account.diagnostics(), ["a", "b (2 times)"]);
        (0..2 * MAX_DIAGNOSTICS).for_each(|number| account.note(number.to_string()));
        account.note("a");
        assert_eq!(account.diagnostics().len(), MAX_DIAGNOSTICS);
        assert!(account.diagnostics().contains(&"a (2 times)".to_owned()));
    }
}
