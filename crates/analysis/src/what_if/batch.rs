//! What a machine pays for each call or signal, paid once for so many items.
//!
//! A call is a put into `rpc:NAME`, a signal one into a queue with `merge`. What is paid is the state in which the machine calls (if it takes
//! no items in that state, too), and what the callee does until it replies or takes something else. With N items for each call, a call that served i items in the
//! trace costs i/N of what it did.

use super::grammar::{Change, Scenario};
use longpole_model::interaction::{MachineId, QueueId};
use std::collections::HashMap;

/// A machine that calls.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    /// Scenario, items for each call, and the state that is paid for, if it was said.
    pub asked: Vec<(usize, f64, Option<String>)>,
    /// Units moved through each queue, and how often it called.
    moved: HashMap<QueueId, u64>,
    count: u64,
    /// Keys of states: how often it calls in them, and how often it takes items.
    states: HashMap<u32, InState>,
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
}

impl Caller {
    /// A machine of these words (host, machine, class, …), if a scenario batches it.
    pub fn of(scenarios: &[Scenario], is: impl Fn(&str) -> bool) -> Option<Box<Caller>> {
        let mut asked = Vec::new();
        for (at, scenario) in scenarios.iter().enumerate() {
            for change in &scenario.changes {
                let Change::Batch { target, items } = change else { continue };
                if let Some((_, state)) = target.ways.iter().find(|way| is(&way.0)) {
                    asked.push((at, *items as f64, state.clone()));
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

    /// It calls in this state.
    pub fn called(&mut self, key: u32) {
        self.states.entry(key).or_default().calls += 1;
        self.count += 1;
    }

    /// Whether its time in a state belongs to the call.
    pub fn pays(&self, key: u32, state: &str) -> bool {
        let said = self.asked.iter().any(|asked| asked.2.as_deref() == Some(state));
        said || self.states.get(&key).is_some_and(|state| state.calls > state.takes * HARDLY_EVER)
    }
}
