//! The verdict: which bottleneck is found, with which reasons, and when none is.

mod faults;
mod known_bottlenecks;
mod process_verdicts;
mod reasons;
mod verdict_schema;
