//! The tests of this crate's public interface, one module per theme. A single program is built and
//! linked faster than one for each theme; `scripts/test` runs each theme in a process of its own.

mod babeltrace;
mod common;
mod corpora;
mod golden;
mod hostile;
mod properties;
mod resume;
mod rewrite;
mod tolerance;
mod tsdl;
mod write;
mod writer;
