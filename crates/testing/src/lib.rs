//! What the tests of several crates share: writers of traces, byte by byte and without Longpole's
//! own writers, and comparisons with other tools. As in a test, an unexpected result is a panic.

pub mod alike;
pub mod captures;
pub mod kernel;
pub mod tar_entry;
pub mod trace_dat;
pub mod user_trace;
