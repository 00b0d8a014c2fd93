//! Output: turns answers into text for people, JSON lines, and pictures (SVG, DOT).
//!
//! A file has one kind of output, such as tables, events as lines, or the wait-for graph. It
//! receives a finished answer and writes to a given sink. Text that comes from a trace must pass
//! through `table::plain`, so that it cannot control the terminal.
//!
//! Code that formats or draws belongs here, if it is long or if several verbs need it. Analyses and
//! the choice of what to compute do not.

pub(crate) mod answer;
pub(crate) mod cpu_holders;
pub(crate) mod diagnostics;
pub(crate) mod event_count;
pub(crate) mod events;
pub(crate) mod left_out_events;
pub(crate) mod length;
pub(crate) mod pictures;
pub(crate) mod profile;
pub(crate) mod repeated;
pub(crate) mod shown_paths;
pub(crate) mod stacks;
pub(crate) mod strip;
pub(crate) mod style;
pub(crate) mod table;
pub(crate) mod terminal;
pub(crate) mod values;
pub(crate) mod wait_graph;
