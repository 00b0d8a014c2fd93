//! Time of threads per state, by what their probes tell. Probes do not see the scheduler: a thread that is ready but not running counts
//! as being in its state, so `runnable` is unknown, and so are the CPUs.

use crate::histogram::Histogram;
use crate::latency::since;
use crate::session::{Observer, Scene, Session};
use crate::windows::probe_ns;
use longpole_model::activity::{Outcome, State};
use longpole_model::step::{Op, Step};
use longpole_model::system::System;
use serde::Serialize;

#[derive(Debug, Serialize)]
pub struct Cpu {
    /// Nothing in a user trace tells of CPUs.
    pub cpus: Vec<()>,
    pub threads: Vec<ThreadTime>,
    /// Machines declared by `state` probes.
    pub machines: Vec<DeclaredTime>,
    pub lost: u64,
    pub probe_cost_ns: Option<f64>,
}

#[derive(Debug, Serialize)]
pub struct ThreadTime {
    pub pid: Option<i32>,
    pub tid: Option<i32>,
    pub name: String,
    pub running_ns: Option<u64>,
    pub runnable_ns: Option<u64>,
    pub blocked_ns: Option<u64>,
    /// Activities between a wake-up and the next wait.
    pub instances: Option<u64>,
    pub instance_ns: Option<Instances>,
    pub allowed_cpus: Option<Vec<u32>>,
    pub used_cpus: Option<Vec<u32>>,
    pub migrations: Option<u64>,
    pub total_ns: u64,
    pub lost: u64,
    pub states: Vec<StateTime>,
}

#[derive(Debug, Serialize)]
pub struct Instances {
    pub min: u64,
    pub mean: f64,
    pub max: u64,
}

#[derive(Debug, Serialize)]
pub struct StateTime {
    pub state: String,
    pub ns: u64,
    pub share: f64,
    /// The part of `ns` that the probes took themselves.
    pub probe_ns: u64,
    pub idle: bool,
}

#[derive(Debug, Serialize)]
pub struct DeclaredTime {
    pub machine: String,
    pub state: String,
    pub ns: u64,
}

/// Counts the activities; all else is in the session.
#[derive(Debug, Default)]
pub struct Activities {
    threads: Vec<(Option<i64>, Histogram)>,
}

impl Observer for Activities {
    fn step(&mut self, _scene: Scene<'_>, step: &Step, outcome: &Outcome) {
        let at = step.machine.0 as usize;
        if self.threads.len() <= at {
            self.threads.resize_with(at + 1, Default::default);
        }
        let (awake, times) = &mut self.threads[at];
        let waits = matches!(step.op, Op::Wait | Op::WaitEmpty { .. } | Op::WaitFull { .. });
        if waits {
            if let Some(begin) = awake.take() {
                times.record(since(begin, step.t_ns));
            }
        } else if outcome.state.is_idle() || outcome.state == State::Reentry {
            *awake = Some(step.t_ns);
        }
    }
}

pub fn answer(session: &Session, activities: &Activities, probe_cost_ps: Option<u64>) -> Cpu {
    let system = &session.system;
    let names = system.machine_names();
    let mut threads: Vec<ThreadTime> = Vec::new();
    for (at, machine) in system.machines.iter().enumerate() {
        let mut states: Vec<StateTime> = Vec::new();
        let (mut total, mut running, mut blocked) = (0, 0, 0);
        for (cell, time) in session.activity.cells().iter().zip(session.activity.totals()) {
            if cell.machine.0 as usize != at || time.ns == 0 {
                continue;
            }
            total += time.ns;
            match cell.state {
                State::Lost => {}
                // Who waits for a call's return does not run.
                state if state.is_idle() || matches!(state, State::Call(_)) => blocked += time.ns,
                _ => running += time.ns,
            }
            let state = state_name(system, cell.state);
            let probes = probe_ns(*time, probe_cost_ps.unwrap_or(0));
            match states.iter_mut().find(|known| known.state == state && known.idle == cell.state.is_idle()) {
                Some(known) => {
                    known.ns += time.ns;
                    known.probe_ns += probes;
                }
                None => states.push(StateTime { state, ns: time.ns, share: 0.0, probe_ns: probes, idle: cell.state.is_idle() }),
            }
        }
        for state in &mut states {
            state.share = if total > 0 { state.ns as f64 / total as f64 } else { 0.0 };
        }
        states.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| a.state.cmp(&b.state)));
        let instances = activities.threads.get(at).map(|(_, times)| times).filter(|times| !times.is_empty());
        threads.push(ThreadTime {
            pid: machine.pid,
            tid: machine.tid,
            name: names[at].clone(),
            running_ns: Some(running),
            runnable_ns: None,
            blocked_ns: Some(blocked),
            instances: instances.map(Histogram::count),
            instance_ns: instances.and_then(|times| {
                Some(Instances { min: times.min()?, mean: times.mean()?, max: times.max()? })
            }),
            allowed_cpus: None,
            used_cpus: None,
            migrations: None,
            total_ns: total,
            lost: session.lost_of.iter().find(|(of, _)| of.0 as usize == at).map_or(0, |(_, lost)| *lost),
            states,
        });
    }
    threads.sort_by(|a, b| b.running_ns.cmp(&a.running_ns).then_with(|| a.name.cmp(&b.name)));
    let end = session.range().map_or(0, |(_, end)| end);
    let machines = session
        .activity
        .declared(end)
        .into_iter()
        .map(|(machine, state, ns)| DeclaredTime {
            machine: system.names.text(machine).to_owned(),
            state: system.names.text(state).to_owned(),
            ns,
        })
        .collect();
    Cpu { cpus: Vec::new(), threads, machines, lost: session.lost, probe_cost_ns: probe_cost_ps.map(|ps| ps as f64 / 1000.0) }
}

/// What a state is called towards people and in JSON.
pub fn state_name(system: &System, state: State) -> String {
    match state {
        State::Run => "run".to_owned(),
        State::Span(name) | State::Declared(name) | State::Call(name) | State::Service(name) => {
            system.names.text(name).to_owned()
        }
        State::Reentry => "re-entry".to_owned(),
        State::WaitSignal(_) => "wait".to_owned(),
        State::WaitEmpty(queue) => format!("wait: {} empty", system.queue_name(queue)),
        State::WaitFull(queue) => format!("wait: {} full", system.queue_name(queue)),
        State::WaitCall => "wait: call".to_owned(),
        State::Lost => "lost".to_owned(),
    }
}
