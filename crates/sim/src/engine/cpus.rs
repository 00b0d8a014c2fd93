//! CPUs: which machine has one, which machine waits for one, and when it must give the CPU up.

use super::{Engine, Event, Instr, Shown};
use crate::sink::{Effect, Sink};
use crate::system::{Id, Pool};
use std::collections::VecDeque;

pub struct Cpus {
    free: u64,
    slice_ns: u64,
    waiting: VecDeque<Id>,
    /// Machines that have a CPU, each with the remainder of its slice in ns.
    running: Vec<(Id, u64)>,
}

impl Cpus {
    pub fn new(pool: &Pool) -> Cpus {
        Cpus { free: pool.cpus, slice_ns: pool.slice_ns, waiting: VecDeque::new(), running: Vec::new() }
    }

    fn slice(&mut self, machine: Id) -> &mut u64 {
        let at = self.running.iter().position(|running| running.0 == machine);
        // A machine that works has a CPU. If it has none nevertheless, it is added without taking
        // one from the free ones.
        match at {
            Some(at) => &mut self.running[at].1,
            None => {
                self.running.push((machine, self.slice_ns));
                let last = self.running.len() - 1;
                &mut self.running[last].1
            }
        }
    }
}

impl<S: Sink> Engine<'_, S> {
    /// Notes that the machine can continue; it does so as soon as it has a CPU.
    pub(super) fn wake(&mut self, machine: Id) {
        let Some(pool) = self.runner(machine).pool else {
            self.ready.push_back(machine);
            return;
        };
        if self.cpus[pool as usize].free > 0 {
            self.cpus[pool as usize].free -= 1;
            self.take_cpu(pool, machine);
        } else {
            self.wait_for_cpu(pool, machine);
        }
    }

    fn take_cpu(&mut self, pool: Id, machine: Id) {
        let cpus = &mut self.cpus[pool as usize];
        cpus.running.push((machine, cpus.slice_ns));
        self.ready.push_back(machine);
    }

    fn wait_for_cpu(&mut self, pool: Id, machine: Id) {
        if self.runner(machine).shown != Shown::Runnable {
            self.runner(machine).shown = Shown::Runnable;
            self.emit(machine, Effect::Runnable);
        }
        self.cpus[pool as usize].waiting.push_back(machine);
    }

    /// Takes the CPU from a machine that waits for something else, or has ended.
    pub(super) fn leave_cpu(&mut self, machine: Id) {
        let Some(pool) = self.runner(machine).pool else { return };
        let cpus = &mut self.cpus[pool as usize];
        cpus.running.retain(|running| running.0 != machine);
        match cpus.waiting.pop_front() {
            Some(next) => self.take_cpu(pool, next),
            None => cpus.free += 1,
        }
    }

    /// Continues the current work of the machine: all of it, or until the end of its slice.
    pub(super) fn work(&mut self, machine: Id) {
        let runner = self.runner(machine);
        let (pool, left) = (runner.pool, runner.left);
        let ns = match pool {
            Some(pool) => left.min(*self.cpus[pool as usize].slice(machine)),
            None => left,
        };
        self.runner(machine).working = ns;
        self.later(ns, Event::Worked(machine));
    }

    pub(super) fn worked(&mut self, machine: Id) {
        let runner = self.runner(machine);
        let ns = std::mem::take(&mut runner.working);
        runner.left -= ns;
        let (is_done, pool) = (runner.left == 0, runner.pool);
        if let Instr::Work { state, on_cpu: true, .. } = runner.code[runner.pc] {
            self.profile[machine as usize][state as usize] += ns;
        }
        if is_done {
            self.runner(machine).pc += 1;
        }
        let Some(pool) = pool else {
            self.ready.push_back(machine);
            return;
        };
        let cpus = &mut self.cpus[pool as usize];
        let whole = cpus.slice_ns;
        let others = !cpus.waiting.is_empty();
        let slice = cpus.slice(machine);
        *slice -= ns.min(*slice);
        if *slice > 0 {
            self.ready.push_back(machine);
        } else if others {
            self.leave_cpu(machine);
            self.wait_for_cpu(pool, machine);
        } else {
            *slice = whole;
            self.ready.push_back(machine);
        }
    }
}
