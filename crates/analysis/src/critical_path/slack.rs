//! Slack: how much later an item could have come without delaying the machine that took it.
//!
//! Example: an item that lay in a queue for 3 ms before it was taken has a slack of 3 ms.

/// Slack of what a machine took without waiting in one state: the time between the put and the get.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slack {
    pub least: Option<u64>,
    /// Sum of the times between successive gets of the machine in ns; and the part of it in which
    /// the item was nearly late ([`NEARLY_LATE_PART`]).
    cycles: u128,
    near_cycles: u128,
}

/// An item that arrived at most one `NEARLY_LATE_PART`th (5 %) of a cycle before its get was nearly
/// late.
const NEARLY_LATE_PART: u64 = 20;

impl Slack {
    pub fn record(&mut self, slack: u64, cycle: u64) {
        self.least = Some(self.least.map_or(slack, |least| least.min(slack)));
        self.cycles += u128::from(cycle);
        if slack <= cycle / NEARLY_LATE_PART {
            self.near_cycles += u128::from(cycle);
        }
    }

    pub fn merge(&mut self, other: Slack) {
        self.least = match (self.least, other.least) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        self.cycles += other.cycles;
        self.near_cycles += other.near_cycles;
    }

    pub fn near_share(&self) -> Option<f64> {
        (self.cycles > 0).then(|| self.near_cycles as f64 / self.cycles as f64)
    }
}
