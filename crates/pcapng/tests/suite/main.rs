//! The tests of this crate's public interface, one module per theme. A single program is built and
//! linked faster than one for each theme; `scripts/test` runs each theme in a process of its own.

mod common;
mod golden;
mod reading;
mod roundtrip;
mod wireshark;
