//! The factors of states in each world, and which names of the changes occur in the trace.

use super::grammar::{Change, Scenario, Target};
use super::lanes::{Layout, Row, KEPT};
use crate::critical_path::key::{Key, Link, State, Words};
use crate::stats::nearest::{nearest, suggestion};
use longpole_model::kinds::{LinkKind, SegmentKind, StateKind, BLOCKED};
use std::collections::BTreeSet;

/// Largest number of names that are stored to suggest one for a name that does not occur.
const MOST_NAMES: usize = 1 << 16;

/// The changes of all scenarios, and which of their names have occurred.
#[derive(Debug)]
pub struct Scale {
    /// (scenario, index of the change in it, target, factor)
    scales: Vec<(usize, usize, Target, f64)>,
    scenarios: Vec<Scenario>,
    /// For each change of each scenario, whether the name occurs.
    met: Vec<Vec<Met>>,
    cpus: Vec<u32>,
    /// Scenarios that add CPUs, with the number of CPUs.
    more_cpus: Vec<(usize, u32)>,
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

impl Scale {
    pub fn new(scenarios: &[Scenario]) -> Scale {
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
        let more = |change: &Change| if let Change::Cpus { more } = change { *more } else { 0 };
        let cpus: Vec<u32> = scenarios.iter().map(|scenario| scenario.changes.iter().map(more).sum()).collect();
        let more_cpus = cpus.iter().copied().enumerate().filter(|&(_, more)| more > 0).collect();
        let (states, machines, queues) = Default::default();
        Scale { scales, scenarios: scenarios.to_vec(), met, cpus, more_cpus, states, machines, queues }
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
            if self.states.len() < MOST_NAMES && !derived {
                self.states.insert(format!("{name}::{state}"));
            }
        }
        let mut row: Row = None;
        if is_lost {
            // When the receiver would have acted without the loss is unknown, so nothing waits for
            // it.
            let mut nothing = vec![0.0; layout.len()];
            nothing[..KEPT].fill(1.0);
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

    /// Number of CPUs that a scenario adds to each host.
    pub fn cpus(&self, scenario: usize) -> u32 {
        self.cpus[scenario]
    }

    /// Scenarios that add CPUs, with the number of CPUs.
    pub fn more_cpus(&self) -> &[(usize, u32)] {
        &self.more_cpus
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
        if self.machines.len() < MOST_NAMES {
            self.machines.insert(words[1].clone());
            self.machines.insert(words[2].clone());
        }
    }

    /// Returns the changes that let this lock or server do several pieces of work at once: the
    /// scenario, the index of the change in it, and the number of pieces (`None`: any number).
    pub fn at_once(&self, words: &Words) -> Vec<(usize, usize, Option<u64>)> {
        let of = |(at, scenario): (usize, &Scenario)| {
            let changes = scenario.changes.iter().enumerate();
            let meant = changes.filter_map(|(which, change)| Some((which, change.at_once().filter(|(name, _)| is_of(words, name))?.1)));
            meant.map(move |(which, count)| (at, which, count)).collect::<Vec<_>>()
        };
        self.scenarios.iter().enumerate().flat_map(of).collect()
    }

    /// Notes that such changes are made, since the lock or server exists.
    pub fn are_met(&mut self, changes: &[(usize, usize, Option<u64>)]) {
        changes.iter().for_each(|&(scenario, which, _)| self.met[scenario][which] = Met::Yes);
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
        if self.queues.len() < MOST_NAMES {
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
                    return Some(format!("{name} is a wait: its time follows from what is waited for, and that can be changed"));
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
                [] => "there is none at all".to_owned(),
                near => format!("the nearest: {}", near.join(", ")),
            };
            return Some(format!("no {kind} \"{name}\" occurs; {near}"));
        }
        None
    }
}

/// The machine does this itself, work or sleep; not a wait for something, nor a wait for a CPU.
fn is_own(kind: SegmentKind) -> bool {
    matches!(kind, SegmentKind::State(kind) if kind.is_code() || kind == StateKind::Asleep)
}

/// Threads are named PROGRAM/THREAD.
fn program(class: &str) -> &str {
    class.split('/').next().unwrap_or(class)
}

/// Returns true if `meant` is the name of the machine, or of its class.
pub fn is_of([host, machine, class, _]: &Words, meant: &str) -> bool {
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
