//! Passes over a trace.

pub(in crate::pipeline) mod first_pass;
pub mod live_pass;
pub mod report_pass;
pub(in crate::pipeline) mod second_pass;
