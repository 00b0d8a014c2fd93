//! What a replay knows: the machines in all worlds, and what they share.

use super::cpu_work::ForgottenWork;
use super::cpus::Cpus;
use super::demand::Demand;
use super::fewer_calls::FewerCalls;
use super::replayed_machine::ReplayedMachine;
use crate::what_if::options::Options;
use crate::what_if::service::Service;
use crate::what_if::worlds::paths::Paths;
use crate::what_if::worlds::slots::Slots;
use crate::what_if::worlds::time_vector::{self, Layout, Row, OBSERVED};
use longpole_model::interaction::MachineId;

/// Largest number of waiting operations, over all machines.
const MAX_HELD: usize = 1 << 20;

/// Largest and smallest number of past changes that each machine remembers.
const MAX_PAST: usize = 64;
const MIN_PAST: usize = 4;

/// The end of a world's run: the machine whose end it is, its times, and the end of its path.
#[derive(Debug)]
pub struct EndMark {
    pub machine: MachineId,
    pub v: Box<[f64]>,
    pub node: u64,
}

/// Operations that are held back, and why scenarios were given up for them.
#[derive(Debug)]
pub struct Held {
    pub count: usize,
    pub most: usize,
    /// For each scenario, the reason why it cannot be replayed any further.
    pub given_up: Vec<Option<&'static str>>,
}

/// Vectors that operations use while they run.
#[derive(Debug)]
pub struct Scratch {
    pub times: Vec<f64>,
    /// One bit for each kept lane.
    pub bits: Vec<u64>,
    pub early: Vec<u64>,
}

/// All worlds, at the positions that the operations have reached.
#[derive(Debug)]
pub struct Replay {
    pub layout: Layout,
    pub machines: Vec<ReplayedMachine>,
    /// Largest number of past changes that each machine remembers.
    pub most_past: usize,
    pub slots: Slots,
    pub paths: Paths,
    /// Factors of each key.
    pub factors: Vec<Row>,
    pub service: Service,
    pub cpus: Cpus,
    pub calls: FewerCalls,
    pub demand: Demand,
    pub forgotten: ForgottenWork,
    pub held: Held,
    pub end: Option<EndMark>,
    /// Number of causes that lie further back than a machine remembers.
    pub too_old: u64,
    /// Cost of recording one event of a probe, in ns.
    pub probe_ns: f64,
    pub scratch: Scratch,
    most_vectors: usize,
}

impl Replay {
    pub fn new(options: &Options, cpus: Cpus) -> Replay {
        let layout = Layout { scenarios: options.scenarios.len() };
        let lanes = layout.len();
        let most_vectors = options.most_bytes / (8 * lanes);
        Replay {
            layout,
            machines: Vec::new(),
            most_past: MAX_PAST,
            slots: Slots::new(lanes),
            paths: Paths::new(layout.kept().len()),
            factors: Vec::new(),
            service: Service::new(options.most_bytes / 4),
            cpus,
            calls: FewerCalls::new(layout),
            demand: Demand::default(),
            forgotten: ForgottenWork::default(),
            held: Held { count: 0, most: most_vectors.clamp(1 << 10, MAX_HELD), given_up: vec![None; layout.scenarios] },
            end: None,
            too_old: 0,
            probe_ns: options.probe_ns,
            scratch: Scratch { times: vec![0.0; lanes], bits: vec![0; layout.words()], early: vec![0; layout.words()] },
            most_vectors,
        }
    }

    /// Makes room for this number of machines.
    pub fn make_machines(&mut self, machines: usize) {
        let lanes = self.layout.len();
        self.machines.resize_with(machines, || ReplayedMachine::new(lanes));
        self.most_past = (self.most_vectors / machines).clamp(MIN_PAST, MAX_PAST);
    }

    pub fn machine(&self, machine: MachineId) -> &ReplayedMachine {
        &self.machines[machine.0 as usize]
    }

    pub fn machine_mut(&mut self, machine: MachineId) -> &mut ReplayedMachine {
        &mut self.machines[machine.0 as usize]
    }

    /// Frees the memory of a machine that can no longer be a cause.
    pub fn forget(&mut self, machine: MachineId) {
        *self.machine_mut(machine) = ReplayedMachine::new(0);
        self.calls.forget(machine);
    }

    /// Restores a forgotten machine that does something again, as a new one.
    pub fn restore(&mut self, machine: MachineId) {
        *self.machine_mut(machine) = ReplayedMachine::new(self.layout.len());
    }

    /// Advances the machine to `t` in the trace.
    pub fn advance(&mut self, machine: MachineId, t: u64) {
        let replayed = &mut self.machines[machine.0 as usize];
        replayed.t = t;
        replayed.v[OBSERVED] = t as f64;
    }

    /// Writes the machine's times at a moment of the trace into `scratch.times`. Returns the node
    /// of its path.
    pub fn times_at(&mut self, machine: MachineId, at: u64) -> u64 {
        let kept = self.layout.kept();
        let replayed = &self.machines[machine.0 as usize];
        let (past, times) = (&replayed.past, &mut self.scratch.times);
        if at < replayed.t {
            if let Ok(marked) = past.marks.binary_search_by_key(&at, |mark| mark.t) {
                times.copy_from_slice(&past.marks[marked].v);
                return past.marks[marked].node;
            }
        }
        let later = match past.jumps.back() {
            Some(last) if last.t > at => past.jumps.partition_point(|jump| jump.t <= at),
            _ => past.jumps.len(),
        };
        let (v, t, node) = match past.jumps.get(later) {
            Some(jump) => (&jump.v, jump.since, jump.node),
            None => (&replayed.v, replayed.t, replayed.node),
        };
        times.copy_from_slice(v);
        if at >= t {
            // The machine was waiting then, and its cause had not come.
            times[kept].iter_mut().for_each(|v| *v += (at - t) as f64);
            times[OBSERVED] = at as f64;
            return node;
        }
        let mut reached = t;
        for &(from, to, key) in past.own.iter().rev() {
            if to <= at {
                break;
            }
            let ns = to.min(t).saturating_sub(from.max(at));
            if ns > 0 {
                time_vector::add(times, -(ns as f64), &self.factors[key as usize]);
                reached = from.max(at);
            }
        }
        if reached > at && past.jumps.front().is_some_and(|first| first.t > at) {
            self.too_old += 1;
            times.iter_mut().for_each(|v| *v = (*v - (reached - at) as f64).max(0.0));
        }
        times[OBSERVED] = at as f64;
        node
    }
}
