//! One machine: its state in the trace, and its times in all worlds.

use super::batch::{Caller, Paid, Round};
use super::cpus::LeftCpu;
use super::recorder::Under;
use super::served::{Server, Takes};
use super::what::{Op, Passed};
use crate::critical_path::key::State;
use longpole_model::interaction::MachineId;
use longpole_model::names::NameId;
use std::collections::VecDeque;

/// A machine's state in the trace, with its replay.
#[derive(Debug)]
pub struct Life {
    /// True between the machine's first interaction and its stop.
    pub exists: bool,
    pub seen: bool,
    pub class: Option<NameId>,
    /// State when the machine neither waits nor is interrupted.
    pub state: State,
    pub block: Option<Block>,
    /// Start of its wait for a CPU.
    pub ready: Option<u64>,
    /// Name of that wait.
    pub waits_as: State,
    /// The machine is the recorder.
    pub records: bool,
    /// The machine has left its CPU until a time that it set itself.
    pub asleep: bool,
    /// The machine is known to have a CPU.
    pub on_cpu: bool,
    /// The CPU that the machine was put off although it could have continued.
    pub off: Option<LeftCpu>,
    /// Chain number of the CPU that it has, or had last.
    pub chain: u32,
    /// Number of contexts on top of it.
    pub above: u32,
    /// The machine did something while it was interrupted.
    pub disturbed: bool,
    pub context: Option<Context>,
    /// The machine has been a context at least once.
    pub has_been_context: bool,
    /// Key of its own time; and the time in the trace up to which its operations reach.
    pub key: u32,
    pub since: u64,
    /// Present if the machine makes fewer calls in some world.
    pub caller: Option<Box<Caller>>,
    /// The machine has taken an item, and no time has passed since.
    pub took: bool,
    /// The call that its work belongs to.
    pub serving: Option<Paid>,
    /// The call for whose reply it waits without doing anything else, as far as is known.
    pub calling: Option<Paid>,
    /// The call that its current state is.
    pub inside: Option<Paid>,
    /// The signal that it sent to itself and has not yet taken.
    pub round: Option<Round>,
    /// The machine has done something else while it waited for a reply, at least once.
    pub asynchronous: bool,
    /// Its work since it was woken.
    pub run: Run,
    /// Its work since its last wait was not caused by another machine: it came by a timer, or its
    /// cause is unknown.
    pub alone: bool,
    /// The last item that it took since then, of another machine, which it passes on.
    pub passed: Option<Passed>,
    /// The machine is a thread of the kernel that works for others, one item after the other and
    /// each for itself.
    pub is_shared_worker: bool,
    pub takes: Takes,
    /// Number of times that the machine has stopped.
    pub stops: u32,
    pub is_forgotten: bool,
    pub replay: Replay,
}

/// A moment from which a machine's work may belong to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    Woken,
    Called,
    Entered,
    Signalled,
}

/// The purpose of a machine's work since it was woken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Run {
    Unknown,
    /// The machine has taken nothing yet.
    Woken,
    /// A call to which the machine has not replied.
    Serves(Paid),
    /// A call to which the machine has replied, or a signal.
    Served(Paid),
}

/// A wait that has not ended: its reason, and its start in the trace.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    pub why: NameId,
    pub start: u64,
}

/// Properties of a machine that runs on top of another one, or on an idle CPU (an interrupt).
#[derive(Clone, Copy, Debug)]
pub struct Context {
    pub below: Option<MachineId>,
    /// The cause is known, or will never be known.
    pub caused: bool,
    /// End of the context's previous life.
    pub idle_since: u64,
}

/// The machine in all worlds.
#[derive(Debug)]
pub struct Replay {
    pub v: Box<[f64]>,
    /// Time in the trace up to which the operations are done.
    pub t: u64,
    /// End of its trail.
    pub node: u64,
    /// A context's own work, which the machine below waits for.
    pub work: Option<Box<[f64]>>,
    /// Time at which it got the CPU that it has; 0 if unknown.
    pub came: Box<[f64]>,
    /// Time that this CPU had been in use by then, since it is known.
    pub busy: Box<[f64]>,
    /// Like `came`, plus the time that it waited for something while it had the CPU; valid while it
    /// has one.
    pub works_since: Box<[f64]>,
    pub has_cpu: bool,
    /// Host whose CPU it has.
    pub has_one_of: Option<Option<NameId>>,
    /// Time that it has worked on CPUs that it was known to have; empty if on none.
    pub worked: Vec<f64>,
    /// The machine is the recorder; and the CPU that it has, for the worlds without recording.
    pub records: bool,
    pub under: Option<Box<Under>>,
    /// Time at which it went to sleep, until it has a CPU again.
    pub slept: Option<Box<[f64]>>,
    pub sleeps: bool,
    /// Time at which its last work began, after a wait or as a context; and that of the work
    /// before.
    pub began: Option<Box<[f64]>>,
    pub formerly: Option<Box<[f64]>>,
    /// Time at which its previous work as a context ended.
    pub ended: Option<Box<[f64]>>,
    /// Times at which it was woken, called, entered a state that is a call, and signalled itself,
    /// in the order of [`Mark`], each with the end of its trail then.
    pub marks: [Option<(Box<[f64]>, u64)>; 4],
    /// What it meets next does not wait for its last work, if it comes before that began.
    pub anew: bool,
    /// Worlds in which the room of the current queue is another one, with their times before the
    /// machine asked for room.
    pub saved: Vec<(usize, f64)>,
    /// A context's times before it began, while its cause may still follow.
    pub base: Option<(Box<[f64]>, u64)>,
    pub past: Past,
    /// Operations that wait.
    pub pending: VecDeque<Op>,
    /// Present if it serves several machines.
    pub server: Option<Box<Server>>,
}

impl Life {
    pub fn new(lanes: usize) -> Life {
        Life {
            exists: false,
            seen: false,
            class: None,
            state: State::Run,
            block: None,
            ready: None,
            waits_as: State::Runnable,
            records: false,
            asleep: false,
            on_cpu: false,
            off: None,
            chain: 0,
            above: 0,
            disturbed: false,
            context: None,
            has_been_context: false,
            key: 0,
            since: 0,
            caller: None,
            took: false,
            serving: None,
            calling: None,
            inside: None,
            round: None,
            asynchronous: false,
            run: Run::Unknown,
            alone: false,
            passed: None,
            is_shared_worker: false,
            takes: Takes::default(),
            stops: 0,
            is_forgotten: false,
            replay: Replay::new(lanes),
        }
    }

    /// Forgets a machine that stopped long ago and can no longer be a cause. If it lives again, it
    /// is as new.
    pub fn forget(&mut self) {
        let (class, stops) = (self.class, self.stops);
        *self = Life { class, stops, is_forgotten: true, ..Life::new(0) };
    }

    /// Returns true if the machine's time goes to its own state.
    pub fn works(&self) -> bool {
        self.exists && self.block.is_none() && self.ready.is_none() && self.above == 0
    }
}

impl Replay {
    pub fn new(lanes: usize) -> Replay {
        Replay {
            v: vec![0.0; lanes].into(),
            t: 0,
            node: super::trail::NONE,
            work: None,
            came: vec![0.0; lanes].into(),
            busy: vec![0.0; lanes].into(),
            works_since: vec![0.0; lanes].into(),
            has_cpu: false,
            has_one_of: None,
            worked: Vec::new(),
            records: false,
            under: None,
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
        self.came.copy_from_slice(&self.v);
        self.works_since.copy_from_slice(&self.v);
        self.has_cpu = true;
        match busy {
            Some(busy) => self.busy.copy_from_slice(busy),
            None => self.busy.fill(0.0),
        }
    }

    /// Notes that the machine leaves its CPU now. `stay` gets the time that it worked there, 0 if
    /// it is unknown when it got the CPU.
    pub fn leaves_cpu(&mut self, stay: &mut [f64]) {
        let known = std::mem::take(&mut self.has_cpu);
        for (lane, stay) in stay.iter_mut().enumerate() {
            let worked = (self.v[lane] - self.works_since[lane]).max(0.0);
            self.busy[lane] += worked;
            if known {
                self.worked[lane] += self.v[lane] - self.works_since[lane];
            }
            *stay = if self.came[lane] > 0.0 { worked } else { 0.0 };
        }
    }

    /// Excludes the following change of its time from its work on the CPU, until `resumes`.
    pub fn pauses(&mut self) {
        if self.has_cpu {
            self.works_since.iter_mut().zip(&self.v).for_each(|(since, v)| *since -= v);
        }
    }

    /// Ends the exclusion that `pauses` began.
    pub fn resumes(&mut self) {
        if self.has_cpu {
            self.works_since.iter_mut().zip(&self.v).for_each(|(since, v)| *since += v);
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
}

/// Appends a jump, reusing the memory of the oldest one if there are `most` of them.
fn push(jumps: &mut VecDeque<Jump>, (since, t): (u64, u64), v: &[f64], node: u64, most: usize) {
    let oldest = if jumps.len() >= most { jumps.pop_front() } else { None };
    let mut jump = oldest.unwrap_or_else(|| Jump { since, t, v: vec![0.0; v.len()].into(), node });
    (jump.since, jump.t, jump.node) = (since, t, node);
    jump.v.copy_from_slice(v);
    jumps.push_back(jump);
}

fn keep(kept: &mut Option<Box<[f64]>>, v: &[f64]) {
    match kept {
        Some(kept) => kept.copy_from_slice(v),
        None => *kept = Some(v.into()),
    }
}

/// The recent past of a machine. It is needed because a cause may have happened before the
/// interaction that names it.
#[derive(Debug, Default)]
pub struct Past {
    /// Stretches of its own time as (from, to, key), newest last.
    pub own: VecDeque<(u64, u64, u32)>,
    /// Times at which a wait ended, or the machine's times were replaced: the previous times, and
    /// the time in the trace that they belong to.
    pub jumps: VecDeque<Jump>,
    /// Moments at which the machine only stated that it exists, with its times then. A later cause
    /// may name them however much the machine does afterwards.
    pub marks: VecDeque<Jump>,
}

/// Times of a machine before they were replaced at `t`; they belong to the moment `since`.
#[derive(Debug)]
pub struct Jump {
    pub since: u64,
    pub t: u64,
    pub v: Box<[f64]>,
    pub node: u64,
}

impl Past {
    pub fn own(&mut self, from: u64, to: u64, key: u32, most: usize) {
        match self.own.back_mut() {
            Some(last) if last.1 == from && last.2 == key => last.1 = to,
            _ => {
                if self.own.len() >= most {
                    self.own.pop_front();
                }
                self.own.push_back((from, to, key));
            }
        }
    }

    pub fn jump(&mut self, since: u64, t: u64, v: &[f64], node: u64, most: usize) {
        push(&mut self.jumps, (since, t), v, node, most);
    }

    pub fn mark(&mut self, t: u64, v: &[f64], node: u64, most: usize) {
        push(&mut self.marks, (t, t), v, node, most);
    }
}
