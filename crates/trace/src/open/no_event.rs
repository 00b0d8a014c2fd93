//! The reason why a trace, or the requested part of it, has no event. It is reported so that an
//! empty result is not mistaken for an answer to the user's question.

use std::fmt;

/// Reason why a trace yielded no event. See [`Trace::no_event`](crate::Trace::no_event).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoEvent {
    /// The trace has no stream.
    NoStream,
    /// All streams are empty.
    Anywhere,
    /// There are items, but none in the requested part.
    InPart { first_ns: i64, begin_ns: Option<i64>, end_ns: Option<i64> },
}

impl NoEvent {
    /// Returns the reason for a trace whose first item is at `first_ns` and for a part from
    /// `begin_ns` to `end_ns`, where the limits of `i64` mean no limit. Returns `None` if the whole
    /// trace was requested and has an item.
    pub(crate) fn why(streams: usize, first_ns: Option<i64>, (begin_ns, end_ns): (i64, i64)) -> Option<NoEvent> {
        let (begin_ns, end_ns) = ((begin_ns > i64::MIN).then_some(begin_ns), (end_ns < i64::MAX).then_some(end_ns));
        match (streams, first_ns) {
            (0, _) => Some(NoEvent::NoStream),
            (_, None) => Some(NoEvent::Anywhere),
            (_, Some(first_ns)) => (begin_ns.is_some() || end_ns.is_some()).then_some(NoEvent::InPart { first_ns, begin_ns, end_ns }),
        }
    }
}

impl fmt::Display for NoEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            NoEvent::NoStream => write!(f, "there is no event: there is metadata, and no stream next to it"),
            NoEvent::Anywhere => write!(f, "there is no event in any stream"),
            NoEvent::InPart { first_ns, begin_ns, end_ns } => {
                write!(f, "there is no event in the requested part: the first event is at {first_ns} ns, and none")?;
                begin_ns.map_or(Ok(()), |begin_ns| write!(f, " from {begin_ns} ns on"))?;
                end_ns.map_or(Ok(()), |end_ns| write!(f, " up to {end_ns} ns"))
            }
        }
    }
}
