//! Evidence: the time range of the trace that shows an observation best.

use serde::Serialize;

/// A time range, in ns on the trace's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Evidence {
    pub start_ns: i64,
    pub end_ns: i64,
}
