//! What a machine pays for each call or signal, paid once for so many items.
//!
//! A call is a put into `rpc:NAME`, a signal one into a queue with `merge`. What is paid is the state in which the machine calls (if it takes
//! no items in that state, too), and what the callee does until it replies or takes something else. With N items for each call, a call that served i items in the
//! trace costs i/N of what it did. A state that was named is a call, too (a system call that waits): all from where it begins to where it ends is paid.

use super::grammar::{Change, Scenario};
use longpole_model::interaction::{MachineId, QueueId};
use longpole_model::names::NameId;
use std::collections::{HashMap, HashSet};

/// That a scenario has it call less often.
#[derive(Clone, Debug)]
pub struct Asked {
    pub scenario: usize,
    /// Items for each call.
    pub items: f64,
    /// The state that is paid for, if it was said.
    state: Option<String>,
    /// It has been in that state.
    entered: Option<NameId>,
}

/// A machine that calls.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    pub asked: Vec<Asked>,
    /// Units moved through each queue, and how often it called.
    moved: HashMap<QueueId, u64>,
    count: u64,
    /// Keys of states: how often it calls in them, and how often it takes items.
    states: HashMap<u32, InState>,
    /// Signals that it gives to itself.
    own: HashSet<QueueId>,
}

#[derive(Clone, Copy, Debug, Default)]
struct InState {
    calls: u64,
    takes: u64,
}

/// Where it takes items hardly ever, the events that end the state were lost.
const HARDLY_EVER: u64 = 20;

/// Time that belongs to a call: whose, and for how many items.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Paid {
    pub by: MachineId,
    pub items: f64,
    /// The state that is the call.
    pub state: Option<NameId>,
}

/// It has given a signal to itself, and has done nothing else since.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    pub queue: QueueId,
    pub paid: Paid,
}

impl Caller {
    /// A machine of these words (host, machine, class, …), if a scenario batches it.
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

    /// For how many items a call is, so far: some come in bursts, so that what was moved since the last one says little. None have come: one.
    pub fn items(&self) -> f64 {
        let most = self.moved.values().copied().max().unwrap_or(0);
        (most as f64 / (self.count + 1) as f64).max(1.0)
    }

    /// It is in a state of its own from now on; says whether that is a call.
    pub fn enters(&mut self, name: NameId, text: &str) -> bool {
        let named = self.asked.iter_mut().filter(|asked| asked.state.as_deref() == Some(text));
        let is_call = named.map(|asked| asked.entered = Some(name)).count() > 0;
        self.count += u64::from(is_call);
        is_call
    }

    /// Scenarios in which this is paid less often, and once per how many items.
    pub fn pays_less(&self, paid: Paid) -> impl Iterator<Item = (usize, f64)> + '_ {
        self.asked.iter().filter(move |asked| asked.entered == paid.state).map(|asked| (asked.scenario, asked.items))
    }

    /// It calls in this state.
    pub fn called(&mut self, key: u32) {
        self.states.entry(key).or_default().calls += 1;
        self.count += 1;
    }

    /// It has taken a signal that it gave.
    pub fn signals_itself(&mut self, queue: QueueId) {
        self.own.insert(queue);
    }

    pub fn is_own(&self, queue: QueueId) -> bool {
        self.own.contains(&queue)
    }

    /// Whether its time in a state belongs to the call.
    pub fn pays(&self, key: u32, state: &str) -> bool {
        let said = self.asked.iter().any(|asked| asked.state.as_deref() == Some(state));
        said || self.states.get(&key).is_some_and(|state| state.calls > state.takes * HARDLY_EVER)
    }
}
