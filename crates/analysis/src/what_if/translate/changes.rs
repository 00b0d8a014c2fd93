//! The changes of all scenarios, applied to what occurs in the trace: the factors of states, the
//! capacities of queues, and which of the names occur at all.
//!
//! Example: the change `server::parse x0.5` gives the key of that state the factor 0.5 in the two
//! lanes of its scenario. If no state has this name, the nearest names are suggested.

use crate::critical_path::keys::key::{Key, Link, State, Words};
use crate::stats::nearest::{nearest, suggestion};
use crate::what_if::grammar::{Change, Scenario, Target};
use crate::what_if::replay::fewer_calls::BatchChange;
use crate::what_if::service::places::PlacesChange;
use crate::what_if::worlds::time_vector::{Layout, Row, UNCHANGED};
use longpole_model::kinds::{LinkKind, SegmentKind, StateKind, BLOCKED};
use std::collections::BTreeSet;

/// Largest number of names that are stored to suggest one for a name that does not occur.
const MAX_NAMES: usize = 1 << 16;

/// The changes of all scenarios, and which of their names have occurred.
#[derive(Debug)]
pub struct Changes {
    /// (scenario, index of the change in it, target, factor)
    scales: Vec<(usize, usize, Target, f64)>,
    scenarios: Vec<Scenario>,
    /// For each change of each scenario, whether the name occurs.
    met: Vec<Vec<Met>>,
    states: BTreeSet<String>,
    machines: BTreeSet<String>,
    queues: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Met {
    No,
    /// The name occurs, but its time follows from that of others.
    Derived,
    Yes,
}

impl Changes {
    pub fn new(scenarios: &[Scenario]) -> Changes {
        let mut scales = Vec::new();
        let mut met = Vec::new();
        for (at, scenario) in scenarios.iter().enumerate() {
            for (which, change) in scenario.changes.iter().enumerate() {
                if let Change::Scale { target, factor } = change {
                    scales.push((at, which, target.clone(), *factor));
                }
            }
            met.push(
                scenario.changes.iter().map(|change| if matches!(change, Change::Cpus { .. }) { Met::Yes } else { Met::No }).collect(),
            );
        }
        let (states, machines, queues) = Default::default();
        Changes { scales, scenarios: scenarios.to_vec(), met, states, machines, queues }
    }

    /// Returns the factors of a key at its first use. `is_lost` is true if its machine represents
    /// lost events.
    pub fn row(&mut self, words: &Words, (key, kind): (&Key, SegmentKind), is_lost: bool, layout: Layout) -> Row {
        let derived = match key {
            Key::State { state, .. } => matches!(state, State::Blocked(_) | State::Interrupted | State::Unknown),
            Key::Link { kind, .. } => *kind == Link::Queued,
        };
        let [_, machine, class, state] = words;
        for name in [machine, class] {
            if self.states.len() < MAX_NAMES && !derived {
                self.states.insert(format!("{name}::{state}"));
            }
        }
        let mut row: Row = None;
        if is_lost {
            // When the receiver would have acted without the loss is unknown, so nothing waits for
            // it.
            let mut nothing = vec![0.0; layout.len()];
            nothing[..UNCHANGED].fill(1.0);
            return Some(nothing.into());
        }
        for (scenario, which, target, factor) in &self.scales {
            let is_meant = |(machine, state): &(String, Option<String>)| match state {
                Some(state) => *state == words[3] && is_of(words, machine),
                None => is_own(kind) && (is_of(words, machine) || program(&words[2]) == machine),
            };
            if !target.ways.iter().any(is_meant) {
                continue;
            }
            let met = &mut self.met[*scenario][*which];
            if derived {
                if *met == Met::No {
                    *met = Met::Derived;
                }
                continue;
            }
            *met = Met::Yes;
            let row = row.get_or_insert_with(|| vec![1.0; layout.len()].into());
            layout.of(*scenario).into_iter().for_each(|lane| row[lane] *= factor);
        }
        row
    }

    /// Returns the largest factor of a state in each world, at least 1.
    pub fn most(&self, layout: Layout) -> Vec<f64> {
        let mut most = vec![1.0; layout.len()];
        for (scenario, _, _, factor) in &self.scales {
            layout.of(*scenario).into_iter().for_each(|lane| most[lane] = f64::max(most[lane], *factor));
        }
        most
    }

    /// Returns the number of CPUs that each scenario adds to each host.
    pub fn cpus(&self) -> Vec<u32> {
        let more = |change: &Change| if let Change::Cpus { more } = change { *more } else { 0 };
        self.scenarios.iter().map(|scenario| scenario.changes.iter().map(more).sum()).collect()
    }

    /// Notes a machine's first interaction.
    pub fn machine(&mut self, words: &Words) {
        for (met, scenario) in self.met.iter_mut().zip(&self.scenarios) {
            for (met, change) in met.iter_mut().zip(&scenario.changes) {
                let Change::Batch { target, .. } = change else { continue };
                if target.ways.iter().any(|(machine, _)| is_of(words, machine)) {
                    *met = Met::Yes;
                }
            }
        }
        if self.machines.len() < MAX_NAMES {
            self.machines.insert(words[1].clone());
            self.machines.insert(words[2].clone());
        }
    }

    /// Returns the changes that let this machine call less often.
    pub fn batches(&self, words: &Words) -> Vec<BatchChange> {
        let mut batches = Vec::new();
        for (at, scenario) in self.scenarios.iter().enumerate() {
            for change in &scenario.changes {
                let Change::Batch { target, items } = change else { continue };
                if let Some((_, state)) = target.ways.iter().find(|way| is_of(words, &way.0)) {
                    batches.push(BatchChange { scenario: at, items: *items as f64, state: state.clone(), entered: None });
                }
            }
        }
        batches
    }

    /// Returns the changes that let this lock or server do several pieces of work at once.
    pub fn places(&self, words: &Words) -> Vec<PlacesChange> {
        let mut places = Vec::new();
        for (scenario, of) in self.scenarios.iter().enumerate() {
            for (index, change) in of.changes.iter().enumerate() {
                if let Some((_, count)) = change.at_once().filter(|(name, _)| is_of(words, name)) {
                    places.push(PlacesChange { scenario, index, count });
                }
            }
        }
        places
    }

    /// Notes that such changes are made, since the lock or server exists.
    pub fn mark_met(&mut self, changes: &[PlacesChange]) {
        changes.iter().for_each(|change| self.met[change.scenario][change.index] = Met::Yes);
    }

    /// Notes a queue's first use. Returns the capacities that scenarios give it (`None`:
    /// unlimited).
    pub fn queue(&mut self, name: &str) -> Vec<(usize, Option<u64>)> {
        let mut asked = Vec::new();
        for (at, (met, scenario)) in self.met.iter_mut().zip(&self.scenarios).enumerate() {
            for (met, change) in met.iter_mut().zip(&scenario.changes) {
                if let Change::Capacity { queue, units } = change {
                    if queue == name {
                        *met = Met::Yes;
                        asked.push((at, *units));
                    }
                }
            }
        }
        if self.queues.len() < MAX_NAMES {
            self.queues.insert(name.to_owned());
        }
        asked
    }

    /// Returns the reason why a scenario cannot be applied to this trace.
    pub fn missing(&self, scenario: usize) -> Option<String> {
        for (met, change) in self.met[scenario].iter().zip(&self.scenarios[scenario].changes) {
            if *met == Met::Yes {
                continue;
            }
            let (kind, name, names) = match change {
                Change::Scale { target, .. } if *met == Met::Derived || is_wait(target) => {
                    let name = &target.text;
                    return Some(format!("{name} is a wait: its time depends on what it waits for; change that instead"));
                }
                Change::Scale { target, .. } => ("state", &target.text, &self.states),
                Change::Batch { target, .. } => ("machine", &target.text, &self.machines),
                Change::Capacity { queue, .. } => ("queue", queue, &self.queues),
                Change::Cpus { .. } => continue,
                Change::Concurrency { of, .. } | Change::Split { lock: of } if self.machines.contains(of) || self.queues.contains(of) => {
                    return Some(format!("{of} is neither a lock nor a server that takes one request after the other"));
                }
                Change::Concurrency { of, .. } => {
                    let names = self.machines.iter().chain(&self.queues).map(String::as_str);
                    return Some(format!("no machine or lock \"{of}\" occurs{}", suggestion(of, names)));
                }
                Change::Split { lock } => ("lock", lock, &self.queues),
            };
            let near = nearest(name, names.iter().map(String::as_str), 3);
            let near = match near.as_slice() {
                [] => "there is none".to_owned(),
                near => format!("the nearest: {}", near.join(", ")),
            };
            return Some(format!("no {kind} \"{name}\" occurs; {near}"));
        }
        None
    }
}

/// The machine does this itself, work or sleep; not a wait for something, nor a wait for a CPU. The
/// time for which a quota holds it back grows and shrinks with its work, if the program is alone in
/// its control group.
fn is_own(kind: SegmentKind) -> bool {
    matches!(kind, SegmentKind::State(kind) if kind.is_code() || matches!(kind, StateKind::Asleep | StateKind::Throttled))
}

/// Threads are named PROGRAM/THREAD.
fn program(class: &str) -> &str {
    class.split('/').next().unwrap_or(class)
}

/// Returns true if `meant` is the name of the machine, or of its class.
fn is_of([host, machine, class, _]: &Words, meant: &str) -> bool {
    meant == machine || meant == class || meant.strip_prefix(host.as_str()).and_then(|rest| rest.strip_prefix('/')) == Some(machine)
}

/// Returns true if the name of a state that did not occur is the name of a wait.
fn is_wait(target: &Target) -> bool {
    let is_wait = |state: &str| {
        let of_machine = matches!(StateKind::of_text(state), StateKind::Interrupted | StateKind::Unknown);
        of_machine || LinkKind::of_text(state) == LinkKind::Queued || state.starts_with(BLOCKED)
    };
    target.ways.iter().filter_map(|way| way.1.as_deref()).any(is_wait)
}
