//! What the work on every runtime directory shares: one recording, with its rules, its files, its
//! sums and the conditions that it watches.
//!
//! The parts are separate fields, so that a function that takes events can read the rules and write
//! the files at the same time. `rules` decides what is recorded, `triggers` looks at events for
//! snapshots that wait, `larger_rings` limits memory. Files and sums are of the room `output`.
//! Nothing here knows a runtime directory; a directory and the recording meet in `drain` and
//! `attach`.

pub(crate) mod larger_rings;
pub(crate) mod rules;
pub(crate) mod triggers;

use crate::clock::Clock;
use crate::output::account::Account;
use crate::output::files::Files;
use larger_rings::LargerRings;
use rules::Rules;
use triggers::Triggers;

/// One recording, as the work on runtime directories sees it.
#[derive(Debug)]
pub(crate) struct Recording {
    pub rules: Rules,
    pub files: Files,
    pub account: Account,
    pub triggers: Triggers,
    pub larger_rings: LargerRings,
    pub clock: Clock,
    /// Buffer for copies of events, reused to avoid allocations.
    pub scratch: Vec<u8>,
}

impl Recording {
    pub fn new(rules: Rules, files: Files, clock: Clock) -> Recording {
        Recording {
            rules,
            files,
            account: Account::default(),
            triggers: Triggers::default(),
            larger_rings: LargerRings::default(),
            clock,
            scratch: Vec::new(),
        }
    }

    /// Records something unexpected for the readers of the recording. Equal texts are counted.
    pub fn note(&mut self, text: impl Into<String>) {
        self.account.note(text);
    }

    /// Unix time in ns by the clock of the recording's events, which ignores later changes of the
    /// system time.
    pub fn now_ns(&self) -> u64 {
        self.clock.unix_ns(self.clock.now()).max(0) as u64
    }

    /// Closes a lane. If its losses cannot be written now, it stays open for a later attempt,
    /// unless `last` is set.
    pub fn close_lane(&mut self, index: usize, last: bool) {
        if let Err(diagnostic) = self.files.stream_files.close(index, last) {
            self.account.note(diagnostic);
        }
    }
}
