//! What a change would bring: the trace is replayed in many worlds at once.
//!
//! Each machine has a simulated time in each world. A state adds its time (or a part of it); whoever takes something from a queue goes on when both
//! it and what it takes are there, also where in the trace one of them need not have waited; a put goes on when the queue has room in *that*
//! world; so does a lock, a reply, a wake-up, a CPU that was handed on. Blocked time is never kept, it follows. So a change moves the bottleneck as
//! it would in the system, which subtracting its share from the path does not.
//!
//! Who shares a server, a lock, the room of a queue or the only CPU with others has it in the order in which they come in that world ([`line`]), which is the trace's as long as nothing changes it.
//!
//! What cannot follow is what the trace does not say. Who of several takes which token, or has which of several CPUs, stays as observed. A wait without a known cause
//! takes no time in one replay of the unchanged trace (the gate): if that one's end differs by more than 5 % from the observed end, nothing is
//! predicted. In the predictions such waits stay as they were, and the interval says what they are worth.
//!
//! Deeds come in the order of the trace ([`steps`]) and become operations of machines ([`ops`]). An operation that needs what some other machine has not done yet in
//! this replay (a queue that is smaller than it was) waits, with all that its machine does afterwards.

mod answer;
mod at_once;
mod batch;
mod busy;
mod calls;
mod cpus;
mod demand;
mod few;
mod full;
pub(crate) mod grammar;
pub mod guess;
mod lanes;
mod life;
mod line;
mod locks;
mod one_cpu;
mod ops;
pub mod predicted;
pub mod propose;
mod queues;
mod recorder;
mod room;
mod scale;
mod served;
mod steps;
mod stopped;
mod trail;
mod what;

pub use answer::{Answer, FullQueue, NoAnswer, Place, Prediction, Share};
pub use demand::Bounds;
pub(crate) use full::Full;
pub use grammar::{Change, Scenario, Target, GRAMMAR};

use crate::critical_path::key::{Key, Keys, State};
use batch::Paid;
use busy::{Gone, Together, Used};
use cpus::Left;
use demand::Demand;
use few::Few;
use lanes::{Layout, Row, Slots};
use life::Life;
use locks::Lock;
use longpole_model::hash::IdMap;
use longpole_model::interaction::{Effect, Interaction, MachineId, QueueId, Vocabulary};
use longpole_model::names::NameId;
use longpole_model::tokens::Queues;
use one_cpu::OneCpu;
use room::Room;
use scale::Scale;
use served::Asked;
use std::collections::HashMap;
use stopped::Stopped;
use trail::Trail;

/// What is asked for, and what memory it may take.
#[derive(Clone, Debug)]
pub struct Options {
    pub scenarios: Vec<Scenario>,
    /// Whose last deed counts: MACHINE, or HOST/MACHINE. None: the one that the trace names, or else the last one that did something.
    pub machine: Option<String>,
    /// Bytes that tokens in flight may take, and the recent pasts of machines.
    pub most_bytes: usize,
    /// The scenarios are guesses: those whose names do not occur are left out, and are no reason to answer nothing.
    pub guessed: bool,
    /// What it cost to record one event of a probe, in ns: it is no part of the system, and of no world but the observed one and the gate.
    pub probe_ns: f64,
    /// CPUs of each host; 0: not known, or of a simulated system.
    pub cpus: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options { scenarios: Vec::new(), machine: None, most_bytes: 128 << 20, guessed: false, probe_ns: 0.0, cpus: 0 }
    }
}

/// Bytes of a token in flight beside the times that it bears, about.
const TOKEN: usize = 128;

/// What a token or a unit of room is from.
#[derive(Clone, Copy, Debug)]
struct From {
    slot: u32,
    by: MachineId,
    t: u64,
    host: Option<NameId>,
    link: Option<NameId>,
    /// Of a call or signal: what it costs.
    paid: Option<Paid>,
}

/// What a queue is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Items,
    /// A put is a call, or a signal that nobody answers.
    Calls,
    Signals,
    Replies,
}

/// A queue.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// None: it was not met yet.
    kind: Option<Kind>,
    is_lock: bool,
    /// Of a queue with room for so many, of which one is put and taken at a time.
    room: Option<u64>,
    /// How often something was put, and taken; what is there from the begin was put.
    puts: u64,
    takes: u64,
    /// Who takes from it, if it is only one.
    taker: Option<MachineId>,
    is_lifo: bool,
    /// Its room is another one in some world.
    has_room: bool,
    /// Who put what was first taken from it; and another one has, too.
    by: Option<MachineId>,
    is_shared: bool,
    /// The key of what is queued in it.
    queued: Option<u32>,
}

/// Whose end counts, so far.
#[derive(Debug)]
struct EndMark {
    machine: MachineId,
    v: Box<[f64]>,
    node: u64,
}

/// What was met and has no place in the replay.
#[derive(Clone, Debug, Default)]
struct Counts {
    contradictions: u64,
    /// Causes that lie further back than is remembered.
    too_old: u64,
}

/// How long tokens of one kind were on their way when somebody waited for them.
#[derive(Clone, Copy, Debug, Default)]
struct Delay {
    count: f64,
    sum: f64,
}

pub struct WhatIf {
    options: Options,
    /// Of each scenario that is asked for: the one without its CPUs, which comes behind those.
    alone: Vec<Option<usize>>,
    layout: Layout,
    scale: Scale,
    /// In each world, the largest factor of a state.
    most: Vec<f64>,
    keys: Keys,
    rows: Vec<Row>,
    /// Of each link's key.
    delays: Vec<Delay>,
    /// Of each key, the first line with a wait of which no cause is known.
    first_unexplained: IdMap<u32, u64>,
    lives: Vec<Life>,
    stopped: Stopped,
    slots: Slots,
    queues: Queues<From>,
    /// How much of a machine's past is kept.
    most_past: usize,
    /// Queues that were declared or used, and what they are for.
    known: Vec<Known>,
    /// In some world a machine calls less often.
    is_batched: bool,
    locks: IdMap<QueueId, Lock>,
    /// Machines that do several pieces of work at once in some scenarios.
    at_once: IdMap<MachineId, Vec<(usize, usize, Option<u64>)>>,
    rooms: IdMap<QueueId, Room>,
    asked_room: IdMap<QueueId, Asked>,
    lines_made: usize,
    /// How many takings each line remembers.
    most_in_line: usize,
    /// Of each host.
    cpus: Few<Option<NameId>, Vec<(Left, u64)>>,
    used: Few<Option<NameId>, Used>,
    one_cpus: Few<Option<NameId>, OneCpu>,
    together: Together,
    demand: Demand,
    gone: HashMap<(Option<NameId>, u32), Gone>,
    /// Numbers of CPUs so far.
    chains: u32,
    /// Of each host, the CPUs that a scenario adds, by when they are free.
    extra: Few<(Option<NameId>, usize), Vec<f64>>,
    full: Full,
    trail: Trail,
    /// Machines whose operations wait, and how many operations.
    held: usize,
    /// Why a scenario cannot be followed.
    still: Vec<Option<&'static str>>,
    /// Scenarios in which something is paid for more items at once.
    is_paid: Vec<bool>,
    /// What is wrong with the end that was told last.
    no_end: Option<String>,
    begin: Option<u64>,
    asked_begin: u64,
    now: u64,
    line: u64,
    last: Option<MachineId>,
    end: Option<EndMark>,
    asked: Option<MachineId>,
    namesake: Option<MachineId>,
    counts: Counts,
    bits: Vec<u64>,
    early: Vec<u64>,
    scratch: Vec<f64>,
    interactions: u64,
}

impl WhatIf {
    pub fn new(mut options: Options) -> WhatIf {
        let asked = options.scenarios.len();
        // What the other changes bring without more CPUs, they bring with them, too.
        let alone: Vec<Option<Scenario>> = options.scenarios.iter().map(Scenario::without_cpus).collect();
        let mut alone_at = Vec::with_capacity(asked);
        for scenario in alone {
            alone_at.push(scenario.is_some().then_some(options.scenarios.len()));
            options.scenarios.extend(scenario);
        }
        let layout = Layout { scenarios: options.scenarios.len() };
        let lanes = layout.len();
        let scale = Scale::new(&options.scenarios);
        WhatIf {
            alone: alone_at,
            layout,
            most: scale.most(layout),
            scale,
            keys: Keys::default(),
            rows: Vec::new(),
            delays: Vec::new(),
            first_unexplained: IdMap::default(),
            lives: Vec::new(),
            stopped: Stopped::default(),
            slots: Slots::new(lanes),
            queues: Queues::new((options.most_bytes / (8 * lanes + TOKEN)).max(1 << 10)),
            most_past: 64,
            known: Vec::new(),
            locks: IdMap::default(),
            at_once: IdMap::default(),
            rooms: IdMap::default(),
            asked_room: IdMap::default(),
            lines_made: 0,
            most_in_line: line::MOST,
            cpus: Few::default(),
            used: Few::default(),
            one_cpus: Few::default(),
            together: Together::default(),
            demand: Demand::default(),
            gone: HashMap::new(),
            chains: 0,
            extra: Few::default(),
            full: Full::default(),
            trail: Trail::new(layout.kept().len()),
            held: 0,
            is_batched: options.scenarios.iter().any(Scenario::batches),
            still: vec![None; layout.scenarios],
            is_paid: vec![false; layout.scenarios],
            no_end: None,
            begin: None,
            asked_begin: 0,
            now: 0,
            line: 0,
            last: None,
            end: None,
            asked: None,
            namesake: None,
            counts: Counts::default(),
            bits: vec![0; layout.words()],
            early: vec![0; layout.words()],
            scratch: vec![0.0; lanes],
            interactions: 0,
            options,
        }
    }

    /// What is before only leads to how things stand then; to be said before anything has happened.
    pub fn begin_at(&mut self, t: u64) {
        self.asked_begin = t;
    }

    /// The next interaction in the order of time.
    pub fn interaction(&mut self, vocabulary: &Vocabulary, interaction: &Interaction) {
        let Interaction { t, line, effect } = *interaction;
        self.interactions += 1;
        if let Effect::Declare { queue, shape } = effect {
            self.declare(vocabulary, queue, shape);
            return self.queues.declare(queue, shape);
        }
        let begin = *self.begin.get_or_insert(t.max(self.asked_begin));
        self.now = self.now.max(t.saturating_sub(begin));
        self.line = line;
        if t < begin && matches!(effect, Effect::End { .. }) {
            return;
        }
        self.step(vocabulary, effect);
        if self.trail.is_due() {
            let tip = self.end.as_ref().map(|end| end.machine).or(self.asked).or(self.last);
            let tip = tip.map_or(trail::NONE, |machine| self.life(machine).replay.node);
            self.trail.forget(tip, &self.rows);
        }
    }

    /// Time goes on to `t` without anything happening.
    pub fn until(&mut self, t: u64) {
        self.now = self.now.max(t.saturating_sub(self.begin.unwrap_or(t)));
    }

    /// Vectors that are held: of machines, tokens, room and free CPUs.
    pub fn held(&self) -> usize {
        self.slots.live() + self.lives.iter().filter(|life| !life.is_forgotten).count()
    }

    #[inline]
    fn life(&mut self, machine: MachineId) -> &mut Life {
        let at = machine.0 as usize;
        if at >= self.lives.len() {
            self.meet_more(at + 1);
        }
        &mut self.lives[at]
    }

    #[cold]
    fn meet_more(&mut self, machines: usize) {
        let lanes = self.layout.len();
        self.lives.resize_with(machines, || Life::new(lanes));
        let all = self.options.most_bytes / (8 * lanes);
        self.most_past = (all / machines).clamp(4, 64);
    }

    fn life_is_top(&self, machine: MachineId) -> bool {
        self.lives.get(machine.0 as usize).is_some_and(|life| life.above == 0)
    }

    fn key(&mut self, vocabulary: &Vocabulary, key: Key) -> u32 {
        let id = self.keys.id(key);
        while self.keys.len() > self.rows.len() {
            let is_lost = matches!(key, Key::State { machine, .. } if vocabulary.is_lost_events(machine));
            let kind = key.kind(vocabulary, false);
            self.rows.push(self.scale.row(&key.words(vocabulary), (&key, kind), is_lost, self.layout));
            self.delays.push(Delay::default());
        }
        id
    }

    fn state_key(&mut self, vocabulary: &Vocabulary, machine: MachineId, state: State) -> u32 {
        let class = self.life(machine).class;
        self.key(vocabulary, Key::State { machine, class, state })
    }
}
