//! A machine in a replay: its times in all worlds, and what the replay must remember of it.

use super::past::Past;
use crate::what_if::operation::{Mark, Operation};
use crate::what_if::service::server::Server;
use crate::what_if::worlds::paths;
use longpole_model::names::NameId;
use std::collections::VecDeque;

/// An operation that waits. It lasts until `t` in the trace; the machine knows when it began.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    pub t: u64,
    pub operation: Operation,
}

/// A machine in all worlds.
#[derive(Debug)]
pub struct ReplayedMachine {
    pub v: Box<[f64]>,
    /// Time in the trace up to which the operations are done.
    pub t: u64,
    /// End of the machine's path.
    pub node: u64,
    /// A context's own work, which the machine below waits for.
    pub work: Option<Box<[f64]>>,
    pub cpu: CpuUse,
    /// The machine is the recorder.
    pub records: bool,
    /// Time at which the machine went to sleep, until it has a CPU again.
    pub slept: Option<Box<[f64]>>,
    pub sleeps: bool,
    /// Time at which the machine's last work began, after a wait or as a context; and that of the
    /// work before.
    pub began: Option<Box<[f64]>>,
    pub formerly: Option<Box<[f64]>>,
    /// Time at which the machine's previous work as a context ended.
    pub ended: Option<Box<[f64]>>,
    /// Times at which the machine was woken, called, entered a state that is a call, and signalled
    /// itself, in the order of [`Mark`], each with the end of its path then.
    pub marks: [Option<(Box<[f64]>, u64)>; 4],
    /// What the machine meets next does not wait for the machine's last work, if it comes before
    /// that began.
    pub anew: bool,
    /// Worlds in which the room of the current queue is another one, with their times before the
    /// machine asked for room.
    pub saved: Vec<(usize, f64)>,
    /// A context's times before it began, while its cause may still follow.
    pub base: Option<(Box<[f64]>, u64)>,
    pub past: Past,
    /// Operations that wait.
    pub pending: VecDeque<Pending>,
    /// Present if the machine serves several machines.
    pub server: Option<Box<Server>>,
}

/// The CPU that a machine has in a replay, and its work on CPUs.
#[derive(Debug)]
pub struct CpuUse {
    /// Time at which the machine got the CPU; 0 if unknown.
    pub came: Box<[f64]>,
    /// Time that this CPU had been in use by then, since it is known.
    pub busy: Box<[f64]>,
    /// Like `came`, plus the time that the machine waited for something while it had the CPU; valid
    /// while it has one.
    pub works_since: Box<[f64]>,
    pub is_had: bool,
    /// Host of the CPU.
    pub host: Option<Option<NameId>>,
    /// Time that the machine has worked on CPUs that it was known to have; empty if on none.
    pub worked: Vec<f64>,
    /// State of the CPU before the recorder got it, for the worlds without recording.
    pub under: Option<Box<UnderRecorder>>,
}

/// The state of a CPU when the recorder got it: when it was left, when the previous machine had got
/// it, how long it had been in use, and the previous machine's path.
#[derive(Debug)]
pub struct UnderRecorder {
    pub left: Box<[f64]>,
    pub came: Box<[f64]>,
    pub busy: Box<[f64]>,
    pub node: u64,
}

impl ReplayedMachine {
    pub fn new(lanes: usize) -> ReplayedMachine {
        ReplayedMachine {
            v: vec![0.0; lanes].into(),
            t: 0,
            node: paths::NONE,
            work: None,
            cpu: CpuUse {
                came: vec![0.0; lanes].into(),
                busy: vec![0.0; lanes].into(),
                works_since: vec![0.0; lanes].into(),
                is_had: false,
                host: None,
                worked: Vec::new(),
                under: None,
            },
            records: false,
            slept: None,
            sleeps: false,
            began: None,
            formerly: None,
            ended: None,
            marks: [None, None, None, None],
            anew: false,
            saved: Vec::new(),
            base: None,
            past: Past::default(),
            pending: VecDeque::new(),
            server: None,
        }
    }

    /// Notes that the machine gets a CPU now. `busy` is the time that the CPU has been in use.
    pub fn takes_cpu(&mut self, busy: Option<&[f64]>) {
        self.cpu.came.copy_from_slice(&self.v);
        self.cpu.works_since.copy_from_slice(&self.v);
        self.cpu.is_had = true;
        match busy {
            Some(busy) => self.cpu.busy.copy_from_slice(busy),
            None => self.cpu.busy.fill(0.0),
        }
    }

    /// Notes that the machine leaves its CPU now. `stay` gets the time that it worked there, 0 if
    /// it is unknown when it got the CPU.
    pub fn leaves_cpu(&mut self, stay: &mut [f64]) {
        let known = std::mem::take(&mut self.cpu.is_had);
        for (lane, stay) in stay.iter_mut().enumerate() {
            let worked = (self.v[lane] - self.cpu.works_since[lane]).max(0.0);
            self.cpu.busy[lane] += worked;
            if known {
                self.cpu.worked[lane] += self.v[lane] - self.cpu.works_since[lane];
            }
            *stay = if self.cpu.came[lane] > 0.0 { worked } else { 0.0 };
        }
    }

    /// Excludes the following change of its time from its work on the CPU, until `resumes`.
    pub fn pauses(&mut self) {
        if self.cpu.is_had {
            self.cpu.works_since.iter_mut().zip(&self.v).for_each(|(since, v)| *since -= v);
        }
    }

    /// Ends the exclusion that `pauses` began.
    pub fn resumes(&mut self) {
        if self.cpu.is_had {
            self.cpu.works_since.iter_mut().zip(&self.v).for_each(|(since, v)| *since += v);
        }
    }

    /// A context begins: its previous work is over.
    pub fn ends(&mut self) {
        keep(&mut self.ended, &self.v);
    }

    /// Stores the machine's times at this moment.
    pub fn marks(&mut self, which: Mark) {
        match &mut self.marks[which as usize] {
            Some((v, node)) => {
                v.copy_from_slice(&self.v);
                *node = self.node;
            }
            none => *none = Some((self.v.clone(), self.node)),
        }
    }

    /// The machine is about to be woken.
    pub fn wakes(&mut self) {
        keep(&mut self.slept, &self.v);
        self.sleeps = true;
    }

    /// The machine begins its work now.
    pub fn begins(&mut self) {
        std::mem::swap(&mut self.began, &mut self.formerly);
        keep(&mut self.began, &self.v);
    }

    /// Returns the time in ns that the machine has worked on CPUs in a world until now.
    pub fn worked(&self, lane: usize) -> f64 {
        let unfinished = if self.cpu.is_had { self.v[lane] - self.cpu.works_since[lane] } else { 0.0 };
        self.cpu.worked.get(lane).map_or(0.0, |worked| worked + unfinished)
    }

    /// Notes that the machine has a CPU and works from now on; the time since it got the CPU was
    /// the kernel's.
    pub fn works_from_here(&mut self) {
        self.cpu.worked.resize(self.v.len(), 0.0);
        for ((worked, since), v) in self.cpu.worked.iter_mut().zip(&self.cpu.works_since).zip(&self.v) {
            *worked -= v - since;
        }
    }
}

fn keep(kept: &mut Option<Box<[f64]>>, v: &[f64]) {
    match kept {
        Some(kept) => kept.copy_from_slice(v),
        None => *kept = Some(v.into()),
    }
}
