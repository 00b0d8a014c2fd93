//! Measures what a probe costs on this host.
//!
//! The command contains a small program and a library with probes in loops, which record themselves
//! (`subject/`). They run in a runtime directory of their own, so that they and recorders do not
//! see each other. This module starts them, reads the lines that they print, and computes medians
//! of paired differences and ratios. Whether a budget is met is decided by the verb.

mod series;
mod statistics;
mod subject;

pub use series::{Key, Measurement, Threads};
pub use statistics::Estimate;

use anyhow::Context;

/// Number and size of batches in the quick measurement. A batch of 16,384 events takes 0.2 ms, and
/// three other loops run in each round, so the start of a recording is delayed by about 30 ms.
const QUICK_ROUNDS: u32 = 31;
const QUICK_TURNS: u32 = 16_384;

/// Measures all loops, in an executable and in a library, alone and in two threads.
pub fn measure(rounds: u32, turns: u32) -> anyhow::Result<Measurement> {
    let lines = subject::run_all(rounds, turns)?;
    Measurement::parse(&lines).context("cannot read what the measuring program printed")
}

/// Measures only a mark with one argument in an executable, and the loops that it is compared with.
pub fn measure_quick() -> anyhow::Result<Measurement> {
    let lines = subject::run_quick(QUICK_ROUNDS, QUICK_TURNS)?;
    Measurement::parse(&lines).context("cannot read what the measuring program printed")
}

/// Returns the cost of one enabled 16-byte event in ns, without the loop around it; `None` if it
/// cannot be measured. Takes less than 0.1 s. A recording stores this value as `probe_cost_ns`.
pub fn probe_cost() -> Option<f64> {
    let measurement = measure_quick().ok()?;
    let cost = measurement.cost(&Key::new("executable", "on", "mark", Threads::One))?;
    (cost.median > 0.0).then_some(cost.median)
}
