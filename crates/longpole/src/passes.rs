//! Passes: each file reads a trace once and feeds several analyses on the way.
//!
//! A pass opens the trace, walks through its items in order, and passes each to the analyses of
//! `longpole_analysis` that a group of verbs needs. Example: `passes::kernel` runs the Linux model
//! for `cpu`, `sched`, `irq` and `syscalls`.
//!
//! Code that reads a trace for more than one verb belongs here. Analyses do not; they belong to
//! `longpole_analysis`. Printing belongs to `render/`, and what only one verb needs belongs to its
//! file in `verbs/`.

pub(crate) mod compared;
pub(crate) mod event_lines;
pub(crate) mod function_changes;
pub(crate) mod html_report;
pub(crate) mod kept_view;
pub(crate) mod kernel;
pub(crate) mod live_reading;
pub(crate) mod one_report;
pub(crate) mod path_flames;
pub(crate) mod period;
pub(crate) mod predictions;
pub(crate) mod probes;
pub(crate) mod samples;
