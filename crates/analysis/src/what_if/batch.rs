//! Batching: a cost that a machine pays for each call or signal, paid once for several items.
//!
//! A call is a put into `rpc:NAME`; a signal is a put into a queue with `merge`. The cost consists
//! of the state in which the machine calls, unless it takes items in that state too, and the
//! callee's work until it replies or takes something else. If a world makes one call for N items, a
//! call that served i items in the trace costs i/N of its time. A state may also be named as the
//! call, for example a system call that waits; then all time from its start to its end is the cost.
//!
//! Example: a thread writes each item with a system call of 10 µs. With `batch thread::write 10`,
//! each call of the trace served one item and costs 1 µs.

use super::grammar::{Change, Scenario};
use longpole_model::interaction::{MachineId, QueueId};
use longpole_model::names::NameId;
use std::collections::{HashMap, HashSet};

/// A scenario's request that a machine call less often.
#[derive(Clone, Debug)]
pub struct Asked {
    pub scenario: usize,
    /// Number of items per call.
    pub items: f64,
    /// Name of the state that is the call, if the change names one.
    state: Option<String>,
    /// The state's name in the trace, once the machine has been in it.
    entered: Option<NameId>,
}

/// A machine that calls.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    pub asked: Vec<Asked>,
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
    takes: u64,
}

/// A state with less than one get per this number of calls is paid for: the few gets in it are due
/// to lost events.
const HARDLY_EVER: u64 = 20;

/// Time that belongs to a call: the calling machine and the number of items of the call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Paid {
    pub by: MachineId,
    pub items: f64,
    /// The state that is the call, if one was named.
    pub state: Option<NameId>,
}

/// The interval in which a machine has sent a signal to itself and has done nothing else since.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    pub queue: QueueId,
    pub paid: Paid,
}

impl Caller {
    /// Returns a caller if a scenario batches the machine. `is` decides whether a name is the
    /// machine's.
    pub fn of(scenarios: &[Scenario], is: impl Fn(&str) -> bool) -> Option<Box<Caller>> {
        let mut asked = Vec::new();
        for (at, scenario) in scenarios.iter().enumerate() {
            for change in &scenario.changes {
                let Change::Batch { target, items } = change else { continue };
                if let Some((_, state)) = target.ways.iter().find(|way| is(&way.0)) {
                    asked.push(Asked { scenario: at, items: *items as f64, state: state.clone(), entered: None });
                }
            }
        }
        (!asked.is_empty()).then(|| Box::new(Caller { asked, ..Caller::default() }))
    }

    pub fn moved(&mut self, queue: QueueId, n: u64) {
        let moved = self.moved.entry(queue).or_default();
        *moved = moved.saturating_add(n);
    }

    pub fn takes(&mut self, key: u32) {
        self.states.entry(key).or_default().takes += 1;
    }

    /// Mean number of items per call up to now, at least 1. The number since the last call would
    /// say little, because items may come in bursts.
    pub fn items(&self) -> f64 {
        let most = self.moved.values().copied().max().unwrap_or(0);
        (most as f64 / (self.count + 1) as f64).max(1.0)
    }

    /// Notes that the machine enters a state of its own. Returns true if that state is a call.
    pub fn enters(&mut self, name: NameId, text: &str) -> bool {
        let named = self.asked.iter_mut().filter(|asked| asked.state.as_deref() == Some(text));
        let is_call = named.map(|asked| asked.entered = Some(name)).count() > 0;
        self.count += u64::from(is_call);
        is_call
    }

    /// Returns the scenarios in which this is paid less often, with their number of items per call.
    pub fn pays_less(&self, paid: Paid) -> impl Iterator<Item = (usize, f64)> + '_ {
        self.asked.iter().filter(move |asked| asked.entered == paid.state).map(|asked| (asked.scenario, asked.items))
    }

    /// Notes a call in this state.
    pub fn called(&mut self, key: u32) {
        self.states.entry(key).or_default().calls += 1;
        self.count += 1;
    }

    /// Notes that the machine took a signal that it sent itself.
    pub fn signals_itself(&mut self, queue: QueueId) {
        self.own.insert(queue);
    }

    pub fn is_own(&self, queue: QueueId) -> bool {
        self.own.contains(&queue)
    }

    /// Returns true if the machine's time in this state belongs to the call.
    pub fn pays(&self, key: u32, state: &str) -> bool {
        let said = self.asked.iter().any(|asked| asked.state.as_deref() == Some(state));
        said || self.states.get(&key).is_some_and(|state| state.calls > state.takes * HARDLY_EVER)
    }
}
