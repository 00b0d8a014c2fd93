//! What a probe costs on this machine.
//!
//! The command carries a small program and a library, which hold the probes in loops and record themselves (`subject/`). They run in a
//! runtime directory of their own, so that neither a recorder sees them nor they see one. Here they are started, their lines are read,
//! and medians of paired differences and ratios are formed; what a budget says about them is the verb's affair.

mod series;
mod statistics;
mod subject;

pub use series::{Key, Measurement, Threads};
pub use statistics::Estimate;

use anyhow::Context;

/// Batches of 16,384 events: 0.2 ms each, three loops beside it, so that a recording's start waits some 30 ms.
const QUICK_ROUNDS: u32 = 31;
const QUICK_TURNS: u32 = 16_384;

/// All loops, in an executable and in a library, alone and in two threads.
pub fn measure(rounds: u32, turns: u32) -> anyhow::Result<Measurement> {
    let lines = subject::run_all(rounds, turns)?;
    Measurement::parse(&lines).context("cannot read what the measuring program printed")
}

/// Only a mark with one argument in an executable, and what it is compared with.
pub fn measure_quick() -> anyhow::Result<Measurement> {
    let lines = subject::run_quick(QUICK_ROUNDS, QUICK_TURNS)?;
    Measurement::parse(&lines).context("cannot read what the measuring program printed")
}

/// The cost of one 16-byte event in ns, on, without the loop around it; `None` where it cannot be measured. Takes less than 0.1 s.
/// This is the figure that a recording stores as `probe_cost_ns`.
pub fn probe_cost() -> Option<f64> {
    let measurement = measure_quick().ok()?;
    let cost = measurement.cost(&Key::new("executable", "on", "mark", Threads::One))?;
    (cost.median > 0.0).then_some(cost.median)
}
