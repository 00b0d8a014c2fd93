//! Comparison of several recordings of one system.
//!
//! [`diff`] compares two recordings, before and after a change, and says which differences are
//! certain. [`repeated`] combines recordings of the same system into one answer with the scatter
//! between runs. [`change`] has the statistics that both use. The analyses of a single recording do
//! not belong here; their results are the input.

pub mod change;
pub mod diff;
pub mod repeated;
