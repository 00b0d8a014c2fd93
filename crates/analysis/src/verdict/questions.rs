//! The questions that are asked in turn; the first one with a certain answer is the verdict.

pub(in crate::verdict) mod hand_over;
pub(in crate::verdict) mod locks;
pub mod machine_states;
pub(in crate::verdict) mod processes;
pub(in crate::verdict) mod requests;
pub(in crate::verdict) mod schedule;
pub(in crate::verdict) mod serial_step;
pub(in crate::verdict) mod sleeps;
pub mod stages;
pub mod stations;
pub(in crate::verdict) mod waits;
pub(in crate::verdict) mod work;
