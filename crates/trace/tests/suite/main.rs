//! The tests of this crate's public interface, one module per theme. A single program is built and
//! linked faster than one for each theme; `scripts/test` runs each file in a process of its own.

mod contradictions;
mod derived;
mod export;
mod formats;
mod index;
mod live;
mod order;
mod recording;
mod tolerance;
mod unmerged;
