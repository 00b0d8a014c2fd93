//! One machine: what it does in the trace, and when it would have done so in each world.

use super::batch::{Caller, Paid, Round};
use super::cpus::Left;
use super::recorder::Under;
use super::served::{Server, Takes};
use super::what::{Op, Passed};
use crate::critical_path::key::State;
use longpole_model::interaction::MachineId;
use longpole_model::names::NameId;
use std::collections::VecDeque;

#[derive(Debug)]
pub struct Life {
    /// Between its first line and its stop.
    pub exists: bool,
    pub seen: bool,
    pub class: Option<NameId>,
    /// What it does when it neither waits nor is interrupted.
    pub state: State,
    pub block: Option<Block>,
    /// Since when it waits for a CPU.
    pub ready: Option<u64>,
    /// The name of that wait.
    pub waits_as: State,
    /// It is the recorder.
    pub records: bool,
    /// It has left its CPU until a time of its own.
    pub asleep: bool,
    /// It is known to have a CPU.
    pub on_cpu: bool,
    /// The CPU that it was put off although it could have gone on.
    pub off: Option<Left>,
    /// Which one it has, or had.
    pub chain: u32,
    /// Contexts that are on top of it.
    pub above: u32,
    /// While it was interrupted it did something.
    pub disturbed: bool,
    pub context: Option<Context>,
    /// It has been a context.
    pub was_context: bool,
    /// The key of its own time, and until when the trace has told of it.
    pub key: u32,
    pub since: u64,
    /// Its calls are fewer in some world.
    pub caller: Option<Box<Caller>>,
    /// It has taken an item, and no time has passed since.
    pub took: bool,
    /// What it does belongs to this call.
    pub serving: Option<Paid>,
    /// It has called and does nothing but wait for the reply, as far as is known.
    pub calling: Option<Paid>,
    /// It is in a state that is a call by itself.
    pub inside: Option<Paid>,
    /// It goes back to where it takes its own signal.
    pub round: Option<Round>,
    /// It did something else once while it waited for a reply.
    pub asynchronous: bool,
    /// What it does since it was woken.
    pub run: Run,
    /// What it did last before it waited, nobody else has caused: it came by a timer, or why is not known.
    pub alone: bool,
    /// What it took last since then; others' that it passes on.
    pub passed: Option<Passed>,
    /// It is a thread of the kernel, which does what others have for it, one thing after the other and each for itself.
    pub serves_anyone: bool,
    pub takes: Takes,
    /// How often it has stopped.
    pub stops: u32,
    pub is_forgotten: bool,
    pub replay: Replay,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    Woken,
    Called,
    Entered,
    Signalled,
}

/// For whom a machine works since it was woken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Run {
    Unknown,
    /// It has taken nothing yet.
    Woken,
    /// A call, to which it has not replied.
    Serves(Paid),
    /// A call to which it has replied, or a signal.
    Served(Paid),
}

#[derive(Clone, Copy, Debug)]
pub struct Block {
    pub why: NameId,
    pub start: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct Context {
    pub below: Option<MachineId>,
    /// Its cause is known, or will not be.
    pub caused: bool,
    /// When its former life ended.
    pub idle_since: u64,
}

/// The machine in all worlds.
#[derive(Debug)]
pub struct Replay {
    pub v: Box<[f64]>,
    /// Until when in the trace.
    pub t: u64,
    /// The end of its trail.
    pub node: u64,
    /// A context's own work, which whoever is below waits for.
    pub work: Option<Box<[f64]>>,
    /// When it got the CPU that it has; 0: not known.
    pub came: Box<[f64]>,
    /// For how long that CPU had been had by then, since it is known.
    pub busy: Box<[f64]>,
    /// The same, and as much later as it waited for something with the CPU in its hand; while it has one.
    pub works_since: Box<[f64]>,
    pub has_cpu: bool,
    /// The host whose CPU it has.
    pub has_one_of: Option<Option<NameId>>,
    /// For how long it has worked on CPUs that it was known to have; nothing: on none.
    pub worked: Vec<f64>,
    /// It is the recorder; and what is known of the CPU that it has, where nobody records.
    pub records: bool,
    pub under: Option<Box<Under>>,
    /// When it went to sleep, until it has a CPU again.
    pub slept: Option<Box<[f64]>>,
    pub sleeps: bool,
    /// When it last began to do something after a wait, or as a context; and the time before that.
    pub began: Option<Box<[f64]>>,
    pub formerly: Option<Box<[f64]>>,
    /// When it ended what it did as a context before this.
    pub ended: Option<Box<[f64]>>,
    /// When it was woken, when it called, when it came into a state that is a call, and when it signalled itself; and the end of its trail then.
    pub marks: [Option<(Box<[f64]>, u64)>; 4],
    /// What comes next need not wait for what it did last, where it comes before that began.
    pub anew: bool,
    /// Those worlds in which the room of the queue in question is another one: their times before it was asked for.
    pub saved: Vec<(usize, f64)>,
    /// A context's times before it began, as long as its cause may come.
    pub base: Option<(Box<[f64]>, u64)>,
    pub past: Past,
    /// What it cannot do yet.
    pub pending: VecDeque<Op>,
    /// It serves several machines.
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
            was_context: false,
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
            serves_anyone: false,
            takes: Takes::default(),
            stops: 0,
            is_forgotten: false,
            replay: Replay::new(lanes),
        }
    }

    /// It has stopped long ago and is no cause any more: nothing is left but what it is. Should it live again, it is as new.
    pub fn forget(&mut self) {
        let (class, stops) = (self.class, self.stops);
        *self = Life { class, stops, is_forgotten: true, ..Life::new(0) };
    }

    /// Whether its time goes to its own state.
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

    /// It has got a CPU, now.
    pub fn takes_cpu(&mut self, busy: Option<&[f64]>) {
        self.came.copy_from_slice(&self.v);
        self.works_since.copy_from_slice(&self.v);
        self.has_cpu = true;
        match busy {
            Some(busy) => self.busy.copy_from_slice(busy),
            None => self.busy.fill(0.0),
        }
    }

    /// It leaves that CPU, now. `stay`: for how long it worked there; 0: since when it had it is not known.
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

    /// What comes next changes its time, and is no work.
    pub fn pauses(&mut self) {
        if self.has_cpu {
            self.works_since.iter_mut().zip(&self.v).for_each(|(since, v)| *since -= v);
        }
    }

    pub fn resumes(&mut self) {
        if self.has_cpu {
            self.works_since.iter_mut().zip(&self.v).for_each(|(since, v)| *since += v);
        }
    }

    /// A context begins: what it did before is over.
    pub fn ends(&mut self) {
        keep(&mut self.ended, &self.v);
    }

    pub fn marks(&mut self, which: Mark) {
        match &mut self.marks[which as usize] {
            Some((v, node)) => {
                v.copy_from_slice(&self.v);
                *node = self.node;
            }
            none => *none = Some((self.v.clone(), self.node)),
        }
    }

    /// It is about to be woken.
    pub fn wakes(&mut self) {
        keep(&mut self.slept, &self.v);
        self.sleeps = true;
    }

    /// It begins to do something, now.
    pub fn begins(&mut self) {
        std::mem::swap(&mut self.began, &mut self.formerly);
        keep(&mut self.began, &self.v);
    }
}

/// As the newest, in the room of the oldest where there are as many as may be.
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

/// What a machine did lately: a cause may lie before now.
#[derive(Debug, Default)]
pub struct Past {
    /// Stretches of its own time, newest last: from, to, key.
    pub own: VecDeque<(u64, u64, u32)>,
    /// Times at which a wait ended, or its times became others; what they had been, and since when in the trace.
    pub jumps: VecDeque<Jump>,
    /// Moments to which somebody may come back however much it does afterwards; the times then.
    pub marks: VecDeque<Jump>,
}

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
