//! The tests of this crate's public interface, one module per theme. A single program is built and
//! linked faster than one for each theme; `scripts/test` runs each file in a process of its own.

mod analyses;
mod code;
mod kernel_events;
mod network;
mod pages;
mod record;
mod robustness;
mod screens;
mod support;
mod traces;
mod verdicts;
