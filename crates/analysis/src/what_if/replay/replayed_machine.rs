//! A machine in a replay: its times in all worlds, and what the replay must remember of it.

use super::past::Past;
use crate::what_if::operation::{CallMark, Operation};
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
    pub is_recorder: bool,
    /// Time at which the machine went to sleep, until it has a CPU again.
    pub slept: Option<Box<[f64]>>,
    pub sleeps: bool,
    /// Time at which the machine's last work began, after a wait or as a context; and that of the
    /// work before it.
    pub work_began: Option<Box<[f64]>>,
    pub earlier_work_began: Option<Box<[f64]>>,
    /// Time at which the machine's previous work as a context ended.
    pub context_ended: Option<Box<[f64]>>,
    /// Times at which the machine was woken, called, entered a state that is a call, and signalled
    /// itself, in the order of [`CallMark`], each with the end of its path then.
    pub call_marks: [Option<(Box<[f64]>, u64)>; 4],
    /// The next meeting may set the machine back to before its last work began
    /// (`Operation::AllowSetBack`).
    pub may_set_back: bool,
    /// Lanes of the worlds that change the capacity of the current queue, each with the machine's
    /// time before it asked for room.
    pub saved: Vec<(usize, f64)>,
    /// A context's times before it began, and the time in the trace that they belong to; only while
    /// its cause may still become known.
    pub before_context: Option<(Box<[f64]>, u64)>,
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
    pub got_at: Box<[f64]>,
    /// Time that this CPU had been in use by then, since it is known.
    pub busy: Box<[f64]>,
    /// Like `got_at`, plus the time that the machine waited for something while it had the CPU;
    /// valid while it has one.
    pub works_since: Box<[f64]>,
    /// The machine is known to have a CPU.
    pub is_known: bool,
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
    pub got_at: Box<[f64]>,
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
                got_at: vec![0.0; lanes].into(),
                busy: vec![0.0; lanes].into(),
                works_since: vec![0.0; lanes].into(),
                is_known: false,
                host: None,
                worked: Vec::new(),
                under: None,
            },
            is_recorder: false,
            slept: None,
            sleeps: false,
            work_began: None,
            earlier_work_began: None,
            context_ended: None,
            call_marks: [None, None, None, None],
            may_set_back: false,
            saved: Vec::new(),
            before_context: None,
            past: Past::default(),
            pending: VecDeque::new(),
            server: None,
        }
    }

    /// Notes that the machine gets a CPU now. `busy` is the time that the CPU has been in use.
    pub fn take_cpu(&mut self, busy: Option<&[f64]>) {
        self.cpu.got_at.copy_from_slice(&self.v);
        self.cpu.works_since.copy_from_slice(&self.v);
        self.cpu.is_known = true;
        match busy {
            Some(busy) => self.cpu.busy.copy_from_slice(busy),
            None => self.cpu.busy.fill(0.0),
        }
    }

    /// Notes that the machine leaves its CPU now. `stay` gets the time that it worked there, 0 if
    /// it is unknown when it got the CPU.
    pub fn leave_cpu(&mut self, stay: &mut [f64]) {
        let known = std::mem::take(&mut self.cpu.is_known);
        for (lane, stay) in stay.iter_mut().enumerate() {
            let worked = (self.v[lane] - self.cpu.works_since[lane]).max(0.0);
            self.cpu.busy[lane] += worked;
            if known {
                self.cpu.worked[lane] += self.v[lane] - self.cpu.works_since[lane];
            }
            *stay = if self.cpu.got_at[lane] > 0.0 { worked } else { 0.0 };
        }
    }

    /// Excludes the following change of its time from its work on the CPU, until `resume_cpu_work`.
    pub fn pause_cpu_work(&mut self) {
        if self.cpu.is_known {
            self.cpu.works_since.iter_mut().zip(&self.v).for_each(|(since, v)| *since -= v);
        }
    }

    /// Ends the exclusion that `pause_cpu_work` began.
    pub fn resume_cpu_work(&mut self) {
        if self.cpu.is_known {
            self.cpu.works_since.iter_mut().zip(&self.v).for_each(|(since, v)| *since += v);
        }
    }

    /// Notes that a context begins: its previous work is over.
    pub fn end_context_work(&mut self) {
        keep(&mut self.context_ended, &self.v);
    }

    /// Stores the machine's times at this moment.
    pub fn mark_call(&mut self, which: CallMark) {
        match &mut self.call_marks[which as usize] {
            Some((v, node)) => {
                v.copy_from_slice(&self.v);
                *node = self.node;
            }
            none => *none = Some((self.v.clone(), self.node)),
        }
    }

    /// Notes that the machine is about to be woken.
    pub fn wake_up(&mut self) {
        keep(&mut self.slept, &self.v);
        self.sleeps = true;
    }

    /// Notes that the machine begins its work now.
    pub fn begin_work(&mut self) {
        std::mem::swap(&mut self.work_began, &mut self.earlier_work_began);
        keep(&mut self.work_began, &self.v);
    }

    /// Returns the time in ns that the machine has worked on CPUs in a world until now.
    pub fn worked(&self, lane: usize) -> f64 {
        let unfinished = if self.cpu.is_known { self.v[lane] - self.cpu.works_since[lane] } else { 0.0 };
        self.cpu.worked.get(lane).map_or(0.0, |worked| worked + unfinished)
    }

    /// Notes that the machine has a CPU and works from now on; the time since it got the CPU was
    /// the kernel's.
    pub fn begin_cpu_work(&mut self) {
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
