//! Cycle counters that need no recorder: numbered points, and scopes whose cost is printed.

pub(crate) mod points;
mod stderr_line;
pub(crate) mod tsc;
