//! What the state machine counts: recorded events by their kind, lost ones, and contradictions.

/// Numbers of events. Unless they are a [`Count`], they are those in the requested range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Kernel events.
    pub events: u64,
    /// Switches between threads. Without any, no CPU time can be accounted.
    pub switches: Count,
    pub system_calls: Count,
    pub interrupts: Count,
    pub faults: Count,
    /// Calls of timer functions.
    pub expiries: Count,
    /// Events about packets.
    pub hops: Count,
    /// Lost events; `uncounted_losses` counts the losses for which no number is known.
    pub lost: u64,
    pub uncounted_losses: u64,
    /// Events that cannot follow from the events before them, although no loss was recorded.
    pub contradictions: u64,
    /// Idle intervals whose end is not in the trace.
    pub unseen_idle_ends: u64,
    /// Switches between threads that are not in the trace.
    pub unseen_switches: u64,
}

/// A number of events of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Events from the begin of the trace on.
    pub in_all: u64,
    /// Events in the requested range.
    pub in_range: u64,
}

impl Count {
    pub(crate) fn add(&mut self, covered: bool) {
        self.in_all += 1;
        self.in_range += u64::from(covered);
    }
}

impl std::ops::Add for Count {
    type Output = Count;

    fn add(self, other: Count) -> Count {
        Count { in_all: self.in_all + other.in_all, in_range: self.in_range + other.in_range }
    }
}
