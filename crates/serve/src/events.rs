//! The events of a trace as lines: which of them a client asks for, and what it gets.

use serde::Serialize;

/// Maximum number of lines in an answer.
pub const MAX_LINES: usize = 1000;

/// Maximum number of items that one request searches.
pub(crate) const MAX_SEARCHED: u64 = 4 << 20;

/// Which lines are asked for. The items of a trace, events and losses, are numbered in the order of
/// time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventQuery {
    pub from: EventFrom,
    /// True if the lines before this place are asked for, false for those from it on.
    pub backwards: bool,
    /// Maximum number of lines, at most [`MAX_LINES`].
    pub limit: usize,
    /// Condition that events must fulfil, as of `longpole print --filter`. Losses fulfil it.
    pub filter: Option<String>,
    /// Maximum number of items that are searched.
    pub searched: u64,
}

impl EventQuery {
    /// Asks for all lines from a place on, as many as there may be in an answer.
    pub(crate) fn all(from: EventFrom) -> EventQuery {
        EventQuery { from, backwards: false, limit: MAX_LINES, filter: None, searched: MAX_SEARCHED }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventFrom {
    Number(u64),
    /// The first item at this time or later, in ns since the timeline's begin.
    Time(u64),
}

/// Lines in the order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EventLines {
    /// Number of all items of the trace.
    pub items: u64,
    pub lines: Vec<EventLine>,
    /// Number from which the lines before these ones, and those after them, can be asked for;
    /// `None` at the begin and at the end of the trace. There may be fewer lines than asked for,
    /// since a request searches a limited number of items.
    pub before: Option<u64>,
    pub after: Option<u64>,
    /// Notes on the filter, such as that it uses a name that no event has.
    pub notes: Vec<String>,
}

/// An event or a loss.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EventLine {
    pub number: u64,
    /// Time in ns since the timeline's begin, before which there may be events that are no
    /// interactions. A loss is at its end.
    pub t: i64,
    pub cpu: Option<u32>,
    /// The thread, as far as the trace tells it.
    pub who: String,
    pub tid: Option<i32>,
    /// Row of the thread, or else of the CPU.
    pub row: Option<u32>,
    /// Name of the event; empty for a loss.
    pub name: String,
    /// The values of the fields, or what was lost.
    pub text: String,
}
