//! The count of events below an answer: one number for a recording, whichever verb prints it, with
//! the range that was read.

use crate::render::answer::Asked;
use crate::render::style::{painted, Role};
use crate::render::table::number;

/// Numbers of events that were read, and of those that are missing.
#[derive(Clone, Copy, Debug, Default)]
pub struct EventCount {
    pub events: u64,
    pub lost: u64,
    /// Number of gaps for which the number of lost events is unknown.
    pub gaps: u64,
}

impl EventCount {
    /// Returns the count as a line. The range is that of the arguments, except that `from_begin` is
    /// true for a verb that also reads earlier events, because they determine a state.
    pub fn line(self, asked: &dyn Asked, from_begin: bool) -> String {
        let range = match (asked.has_begin() && !from_begin, asked.has_end()) {
            (false, false) => "in the whole recording",
            (true, false) => "from --begin on",
            (false, true) => "up to --end",
            (true, true) => "from --begin to --end",
        };
        let lost = format!("{} lost", number(self.lost));
        let lost = if self.lost > 0 { painted(Role::Limit, lost) } else { lost };
        let gaps = match self.gaps {
            0 => String::new(),
            gaps => painted(Role::Limit, format!(" and {} gaps of unknown size", number(gaps))),
        };
        format!("{} events {range}, {lost}{gaps}", number(self.events))
    }
}
