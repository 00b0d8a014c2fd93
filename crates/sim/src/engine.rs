//! The loop that executes a system, event by event.
//!
//! A runnable machine executes its program until it must wait: for time, for tokens, for space, for
//! a CPU. Events at one instant are processed in the order in which they were created. A seed
//! therefore always yields the same log, and a run with a change differs from the run without it
//! only by the effects of the change.

mod cpus;
mod program;
mod waits;

use crate::draw::{mix, word};
use crate::queue::{Running, Token, Want};
use crate::sink::{Effect, Sink, Wait};
use crate::system::{Id, System, Time};
use cpus::Cpus;
use program::{compile, Instr};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// The result of a simulation.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub end_ns: u64,
    /// What a profiler of all CPUs would see: (machine, state, ns).
    pub profile: Vec<(Id, Id, u64)>,
    /// The units that each queue still contains, and the sums of all puts and gets, for tests of
    /// conservation.
    pub queues: Vec<Flow>,
    pub effects: u64,
}

/// The units that went through a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    pub put: u64,
    pub got: u64,
    pub held: u64,
    pub arriving: u64,
}

/// Why a simulation did not reach its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failed {
    /// Nothing will ever happen again, and the end is not reached.
    Deadlock { t: u64, waiting: Vec<String> },
    /// The sink accepts no more effects.
    Stopped,
    /// The effects at one instant exceeded the limit (`MAX_EFFECTS_AT_ONCE`).
    Endless { t: u64 },
}

impl std::error::Error for Failed {}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failed::Deadlock { t, waiting } => write!(f, "at {t} ns nothing can happen any more; waiting: {}", waiting.join(", ")),
            Failed::Stopped => write!(f, "nobody listens any more"),
            Failed::Endless { t } => write!(f, "at {t} ns a program never ends and takes no time"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The current work of the machine, or a slice of it, is done.
    Worked(Id),
    Timer(Id, u64),
    Arrival(Id),
    SpaceBack(Id),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Nothing,
    Runnable,
    State(Id),
}

struct Runner {
    code: Vec<Instr>,
    pc: usize,
    counters: Vec<u64>,
    /// Number of draws, by instruction.
    drawn: Vec<u64>,
    stream: u64,
    pool: Option<Id>,
    shown: Shown,
    /// Remaining time of the current work, in ns.
    left: u64,
    working: u64,
    /// Time since which the machine polls, and the state in which it does.
    spins: Option<(u64, Id)>,
    callers: Vec<Id>,
    over: bool,
}

struct Engine<'a, S> {
    system: &'a System,
    sink: &'a mut S,
    now: u64,
    seq: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    runners: Vec<Runner>,
    queues: Vec<Running>,
    /// States of replies, by queue and caller.
    replies: Vec<Vec<u64>>,
    cpus: Vec<Cpus>,
    ready: VecDeque<Id>,
    profile: Vec<Vec<u64>>,
    effects: u64,
    at_once: u64,
    ended: bool,
}

/// Limit of effects at one instant, more than any real system has.
const MAX_EFFECTS_AT_ONCE: u64 = 50_000_000;

pub fn run(system: &System, sink: &mut impl Sink) -> Result<Outcome, Failed> {
    let mut engine = Engine::new(system, sink);
    engine.begin();
    engine.play()?;
    Ok(engine.outcome())
}

impl<'a, S: Sink> Engine<'a, S> {
    fn new(system: &'a System, sink: &'a mut S) -> Engine<'a, S> {
        let runners = system.machines.iter().enumerate().map(|(at, machine)| {
            let (code, counters) = compile(&machine.program);
            Runner {
                drawn: vec![0; code.len()],
                code,
                pc: 0,
                counters: vec![0; counters],
                stream: mix(mix(system.seed) ^ at as u64),
                pool: machine.pool,
                shown: Shown::Nothing,
                left: 0,
                working: 0,
                spins: None,
                callers: Vec::new(),
                over: machine.forked,
            }
        });
        let runners: Vec<Runner> = runners.collect();
        let queue = |queue: &crate::system::Queue| Running {
            units: queue.initial,
            is_call: queue.is_call(),
            space: queue.capacity.map(|capacity| capacity - queue.initial),
            ..Running::default()
        };
        Engine {
            now: 0,
            seq: 0,
            events: BinaryHeap::new(),
            queues: system.queues.iter().map(queue).collect(),
            replies: vec![Vec::new(); system.queues.len()],
            cpus: system.pools.iter().map(Cpus::new).collect(),
            ready: VecDeque::new(),
            profile: vec![vec![0; system.states.len()]; runners.len()],
            runners,
            effects: 0,
            at_once: 0,
            ended: false,
            system,
            sink,
        }
    }

    fn begin(&mut self) {
        self.sink.begin(self.system);
        for machine in 0..self.runners.len() as Id {
            if !self.runner(machine).over {
                self.emit(machine, Effect::Here);
            }
        }
        for machine in 0..self.runners.len() as Id {
            if !self.runner(machine).over {
                self.wake(machine);
            }
        }
    }

    fn play(&mut self) -> Result<(), Failed> {
        loop {
            while let Some(machine) = self.ready.pop_front() {
                self.go(machine)?;
                if self.ended {
                    return Ok(());
                }
            }
            if self.sink.is_over() {
                return Err(Failed::Stopped);
            }
            let Some(Reverse((t, _, event))) = self.events.pop() else {
                let waits = |at: &usize| !self.runners[*at].over;
                let waiting = (0..self.runners.len()).filter(waits).map(|at| self.system.machines[at].name.clone());
                return Err(Failed::Deadlock { t: self.now, waiting: waiting.collect() });
            };
            if t > self.now {
                self.at_once = 0;
            }
            self.now = t;
            match event {
                Event::Worked(machine) => self.worked(machine),
                Event::Timer(machine, at) => {
                    self.emit(machine, Effect::Timer(at));
                    self.runner(machine).shown = Shown::Runnable;
                    self.wake(machine);
                }
                Event::Arrival(queue) => {
                    if let Some((_, token)) = self.queue(queue).arriving.pop_front() {
                        self.add(queue, token);
                    }
                    self.serve_waiting(queue);
                }
                Event::SpaceBack(queue) => {
                    let back = self.queue(queue).returning.pop_front().map_or(0, |back| back.1);
                    if let Some(space) = &mut self.queue(queue).space {
                        *space += back;
                    }
                    self.serve_waiting(queue);
                }
            }
        }
    }

    fn outcome(mut self) -> Outcome {
        // A machine that polls at the end has done so until now.
        for machine in 0..self.runners.len() as Id {
            self.spun(machine);
        }
        let mut profile = Vec::new();
        for (machine, states) in self.profile.iter().enumerate() {
            let some = states.iter().enumerate().filter(|(_, &ns)| ns > 0);
            profile.extend(some.map(|(state, &ns)| (machine as Id, state as Id, ns)));
        }
        let flow = |queue: &Running| Flow {
            put: queue.puts,
            got: queue.gets,
            held: queue.units,
            arriving: queue.arriving.iter().map(|arriving| arriving.1.n).sum(),
        };
        Outcome { end_ns: self.now, profile, queues: self.queues.iter().map(flow).collect(), effects: self.effects }
    }

    fn runner(&mut self, machine: Id) -> &mut Runner {
        &mut self.runners[machine as usize]
    }

    fn queue(&mut self, queue: Id) -> &mut Running {
        &mut self.queues[queue as usize]
    }

    fn emit(&mut self, machine: Id, effect: Effect) {
        self.effects += 1;
        self.at_once += 1;
        self.sink.effect(self.now, machine, effect);
    }

    fn later(&mut self, ns: u64, event: Event) {
        self.seq += 1;
        self.events.push(Reverse((self.now.saturating_add(ns), self.seq, event)));
    }

    fn show(&mut self, machine: Id, state: Id) {
        if self.runner(machine).shown != Shown::State(state) || self.sink.wants_all_work() {
            self.runner(machine).shown = Shown::State(state);
            self.emit(machine, Effect::State(state));
        }
    }

    fn draw(&mut self, machine: Id, time: Time) -> u64 {
        let runner = self.runner(machine);
        let at = runner.pc;
        let count = runner.drawn[at];
        runner.drawn[at] += 1;
        time.at(word(runner.stream ^ mix(at as u64 + 1), count))
    }

    /// Executes the machine's program until it waits.
    fn go(&mut self, machine: Id) -> Result<(), Failed> {
        loop {
            if self.at_once > MAX_EFFECTS_AT_ONCE {
                return Err(Failed::Endless { t: self.now });
            }
            let runner = self.runner(machine);
            let Some(&instr) = runner.code.get(runner.pc) else {
                runner.over = true;
                if machine == self.system.end {
                    self.emit(machine, Effect::End);
                    self.ended = true;
                } else {
                    self.emit(machine, Effect::Stop);
                    self.leave_cpu(machine);
                }
                return Ok(());
            };
            let continues = match instr {
                Instr::Work { state, time, .. } => {
                    if self.runner(machine).left == 0 {
                        let ns = self.draw(machine, time);
                        self.runner(machine).left = ns;
                    }
                    if self.runner(machine).left > 0 {
                        self.show(machine, state);
                        self.work(machine);
                        return Ok(());
                    }
                    true
                }
                Instr::Put { queue, n } => self.put(machine, queue, Token { n, caller: machine }, false),
                Instr::Reserve { queue, n } => self.put(machine, queue, Token { n, caller: machine }, true),
                Instr::Get { queue, n } => self.get(machine, queue, Want::Units(n), Wait::Tokens(queue)),
                Instr::Drain { queue } => self.get(machine, queue, Want::All, Wait::Tokens(queue)),
                Instr::Peek { queue, n } => self.get(machine, queue, Want::Look(n), Wait::Tokens(queue)),
                Instr::Serve { queue } => self.get(machine, queue, Want::Units(1), Wait::Tokens(queue)),
                Instr::Poll { queue, state } => {
                    let continues = self.get(machine, queue, Want::Units(1), Wait::Poll(queue));
                    if !continues {
                        self.runner(machine).spins = Some((self.now, state));
                    }
                    continues
                }
                Instr::Call { queue } => self.put(machine, queue, Token { n: 1, caller: machine }, false),
                Instr::Returned { queue } => self.returned(machine, queue),
                Instr::Reply { queue } => self.reply(machine, queue),
                Instr::Sleep { time } => {
                    let ns = self.draw(machine, time);
                    self.sleep(machine, ns)
                }
                Instr::Tick { period } => {
                    let at = self.runner(machine).pc;
                    self.runner(machine).drawn[at] += 1;
                    let next = (period * self.runner(machine).drawn[at]).saturating_sub(self.now);
                    self.sleep(machine, next)
                }
                Instr::Fork { machine: child } => {
                    self.runner(child).over = false;
                    self.emit(child, Effect::Fork(machine));
                    self.wake(child);
                    true
                }
                Instr::Each { queue, slot, skip } => {
                    let there = self.queue(queue).units;
                    if there == 0 || !self.queue(queue).getters.is_empty() {
                        self.at_once += 1;
                        self.runner(machine).pc = skip;
                        continue;
                    }
                    self.runner(machine).counters[slot] = there;
                    self.get(machine, queue, Want::All, Wait::Tokens(queue))
                }
                Instr::Down { slot, back } => {
                    let runner = self.runner(machine);
                    runner.counters[slot] -= 1;
                    if runner.counters[slot] > 0 {
                        runner.pc = back;
                        continue;
                    }
                    true
                }
                Instr::Next { slot, times, back } => {
                    let runner = self.runner(machine);
                    runner.counters[slot] += 1;
                    if runner.counters[slot] < times {
                        runner.pc = back;
                        continue;
                    }
                    runner.counters[slot] = 0;
                    true
                }
                Instr::Jump { back } => {
                    self.at_once += 1;
                    self.runner(machine).pc = back;
                    continue;
                }
                Instr::Every { slot, n, skip } => {
                    let runner = self.runner(machine);
                    runner.counters[slot] += 1;
                    if runner.counters[slot] < n {
                        runner.pc = skip;
                        continue;
                    }
                    runner.counters[slot] = 0;
                    true
                }
            };
            if !continues {
                return Ok(());
            }
            self.runner(machine).pc += 1;
        }
    }
}
