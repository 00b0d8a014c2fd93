//! A machine that calls: how many items each of its calls is for, and in which states it calls.
//!
//! A cost that the machine pays for each call or signal is paid once for several items in the
//! worlds with fewer calls (batching).
//!
//! A call is a put into `rpc:NAME`; a signal is a put into a queue with `merge`. The cost consists
//! of the state in which the machine calls, unless it takes items in that state too, and the
//! callee's work until it replies or takes something else. If a world makes one call for N items, a
//! call that served i items in the trace costs i/N of its time. A state may also be named as the
//! call, for example a system call that waits; then all time from its start to its end is the cost.
//!
//! Example: a thread moves 40 items through its queues and makes 9 calls. The next one is for 4
//! items.

use crate::what_if::operation::PaidCall;
use crate::what_if::replay::fewer_calls::BatchChange;
use longpole_model::interaction::QueueId;
use std::collections::{HashMap, HashSet};

/// A machine that calls.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    /// States that are calls, as far as the changes name them.
    named: Vec<String>,
    /// Units moved through each queue, and number of calls.
    moved: HashMap<QueueId, u64>,
    count: u64,
    /// Number of calls and of gets, by the key of the state in which they happened.
    states: HashMap<u32, InState>,
    /// Queues of signals that the machine sends to itself.
    own: HashSet<QueueId>,
}

#[derive(Clone, Copy, Debug, Default)]
struct InState {
    calls: u64,
    gets: u64,
}

/// A state with less than one get per this number of calls is paid for: the few gets in it are due
/// to lost events.
const HARDLY_EVER: u64 = 20;

/// The interval in which a machine has sent a signal to itself and has done nothing else since.
#[derive(Clone, Copy, Debug)]
pub struct SelfSignal {
    pub queue: QueueId,
    pub paid: PaidCall,
}

impl Caller {
    /// Makes the caller of a machine that calls less often in some worlds.
    pub fn new(changes: &[BatchChange]) -> Caller {
        Caller { named: changes.iter().filter_map(|change| change.state.clone()).collect(), ..Caller::default() }
    }

    pub fn count_moved(&mut self, queue: QueueId, n: u64) {
        let moved = self.moved.entry(queue).or_default();
        *moved = moved.saturating_add(n);
    }

    pub fn count_get(&mut self, key: u32) {
        self.states.entry(key).or_default().gets += 1;
    }

    /// Mean number of items per call up to now, at least 1. The number since the last call would
    /// say little, because items may come in bursts.
    pub fn items(&self) -> f64 {
        let most = self.moved.values().copied().max().unwrap_or(0);
        (most as f64 / (self.count + 1) as f64).max(1.0)
    }

    /// Notes that the machine enters a state of its own. Returns true if that state is a call.
    pub fn enter(&mut self, state: &str) -> bool {
        let is_call = self.is_named(state);
        self.count += u64::from(is_call);
        is_call
    }

    /// Notes a call in this state.
    pub fn count_call(&mut self, key: u32) {
        self.states.entry(key).or_default().calls += 1;
        self.count += 1;
    }

    /// Notes that the machine took a signal that it sent itself.
    pub fn note_self_signal(&mut self, queue: QueueId) {
        self.own.insert(queue);
    }

    pub fn is_own(&self, queue: QueueId) -> bool {
        self.own.contains(&queue)
    }

    /// Returns true if the machine's time in this state belongs to the call.
    pub fn pays(&self, key: u32, state: &str) -> bool {
        self.is_named(state) || self.states.get(&key).is_some_and(|state| state.calls > state.gets * HARDLY_EVER)
    }

    fn is_named(&self, state: &str) -> bool {
        self.named.iter().any(|named| named == state)
    }
}
