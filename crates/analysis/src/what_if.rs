//! Predictions of changes: the trace is replayed in many worlds at the same time.
//!
//! A *world* is one variant of the run: the unchanged trace, or the trace after one scenario's
//! changes. Each machine has a simulated time in each world ([`lanes`]). A state adds its duration,
//! times the factor that the world gives it. A get completes when both the machine and the token
//! are there, even if one of them did not have to wait in the trace. A put completes when the queue
//! has room *in that world*. The same rule holds for locks, replies, wake-ups and CPUs that are
//! handed over. Blocked time is never copied from the trace; it follows. A change therefore moves
//! the bottleneck as it would in the real system; subtracting a share from the critical path would
//! not.
//!
//! Example: a client and a server alternate, 1 ms each. In the world `client x0.5` the client's
//! states add 0.5 ms; the server receives each request 0.5 ms earlier, still needs 1 ms, and the
//! run takes three quarters of the time.
//!
//! Machines that share a server, a lock, the room of a queue or a host's only CPU get it in the
//! order of their arrival in that world ([`line`]); as long as nothing changes, that is the order
//! of the trace.
//!
//! What the trace does not say cannot follow from it. Which of several machines takes which token,
//! or has which of several CPUs, stays as observed. A wait without a known cause takes no time in
//! one replay of the unchanged trace, the gate. If the end of the gate differs by more than 5 %
//! from the observed end, nothing is predicted. In the predictions such waits keep their observed
//! duration, and the interval of a prediction covers the case that they take no time.
//!
//! Interactions come in the order of the trace ([`steps`]) and become operations of machines
//! ([`ops`]). An operation may need something that another machine has not done yet in this replay,
//! for example room in a queue that is smaller than it was. It then waits, together with all later
//! operations of its machine.

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
use busy::{ForgottenWork, Together, Used};
use cpus::LeftCpu;
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

/// Settings of a replay: the question, and limits of memory.
#[derive(Clone, Debug)]
pub struct Options {
    pub scenarios: Vec<Scenario>,
    /// Name of the machine whose last interaction is the end: MACHINE or HOST/MACHINE. With `None`,
    /// the machine of the last end that the trace marks or, without one, the last machine that did
    /// something.
    pub machine: Option<String>,
    /// Limit of memory in bytes for tokens in flight and for the recent pasts of machines.
    pub most_bytes: usize,
    /// The scenarios are guesses: those whose names do not occur are left out instead of being an
    /// error.
    pub guessed: bool,
    /// Cost of recording one event of a probe, in ns. It is not part of the system, so it is left
    /// out of all worlds but the observed one, the gate and the whole one.
    pub probe_ns: f64,
    /// CPUs of each host; 0 if unknown, or if the system is simulated.
    pub cpus: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options { scenarios: Vec::new(), machine: None, most_bytes: 128 << 20, guessed: false, probe_ns: 0.0, cpus: 0 }
    }
}

/// Approximate size in bytes of a token in flight, without its vector of times.
const TOKEN: usize = 128;

/// Origin of a token or of a unit of room in a queue.
#[derive(Clone, Copy, Debug)]
struct From {
    slot: u32,
    by: MachineId,
    t: u64,
    host: Option<NameId>,
    link: Option<NameId>,
    /// Cost of the call or signal, for tokens of calls and signals.
    paid: Option<Paid>,
}

/// Purpose of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Items,
    /// Each put is a call; in a queue of `Signals`, a signal that gets no reply.
    Calls,
    Signals,
    Replies,
}

/// What is known of a queue.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// `None` before the queue's first use.
    kind: Option<Kind>,
    is_lock: bool,
    /// Capacity, if the queue is bounded and each put and get up to now was of a single unit.
    room: Option<u64>,
    /// Number of puts and of gets; tokens that are there from the start count as put.
    puts: u64,
    takes: u64,
    /// The only machine that takes from the queue; the latest one if there are several, in which
    /// case `room` is `None`.
    taker: Option<MachineId>,
    is_lifo: bool,
    /// Some world gives the queue another capacity.
    has_room: bool,
    /// The machine whose token was taken first; `is_shared` is true if other machines put too.
    by: Option<MachineId>,
    is_shared: bool,
    /// Key of the link `queued` of this queue.
    queued: Option<u32>,
}

/// The current end: the machine, its times, and the end of its trail.
#[derive(Debug)]
struct EndMark {
    machine: MachineId,
    v: Box<[f64]>,
    node: u64,
}

/// Numbers of what was met in the trace and has no place in the replay.
#[derive(Clone, Debug, Default)]
struct Counts {
    contradictions: u64,
    /// Causes that lie further back than is remembered.
    too_old: u64,
}

/// Delays of one kind of token between put and get, if a machine was waiting for the token.
#[derive(Clone, Copy, Debug, Default)]
struct Delay {
    count: f64,
    sum: f64,
}

/// The replay of a trace in all worlds. It sees each interaction once, in the order of time.
pub struct WhatIf {
    options: Options,
    /// For each requested scenario that adds CPUs and makes other changes: the index of the same
    /// scenario without the CPUs. Those scenarios follow the requested ones.
    alone: Vec<Option<usize>>,
    layout: Layout,
    scale: Scale,
    /// Largest factor of any state in each world.
    most: Vec<f64>,
    keys: Keys,
    rows: Vec<Row>,
    /// Delays by the key of the link.
    delays: Vec<Delay>,
    /// For each key, the first line of the trace with a wait whose cause is unknown.
    first_unexplained: IdMap<u32, u64>,
    lives: Vec<Life>,
    stopped: Stopped,
    slots: Slots,
    queues: Queues<From>,
    /// Largest number of past changes that each machine remembers.
    most_past: usize,
    /// Queues that were declared or used.
    known: Vec<Known>,
    /// In some world a machine calls less often.
    is_batched: bool,
    locks: IdMap<QueueId, Lock>,
    /// Machines that do several pieces of work at once in some scenarios: the scenario, the number
    /// of its change, and the number of pieces (`None`: any).
    at_once: IdMap<MachineId, Vec<(usize, usize, Option<u64>)>>,
    rooms: IdMap<QueueId, Room>,
    asked_room: IdMap<QueueId, Asked>,
    lines_made: usize,
    /// Largest number of gets that each line remembers.
    most_in_line: usize,
    /// For each host, the CPUs that were left and are free, with the time at which they were left.
    cpus: Few<Option<NameId>, Vec<(LeftCpu, u64)>>,
    used: Few<Option<NameId>, Used>,
    one_cpus: Few<Option<NameId>, OneCpu>,
    together: Together,
    demand: Demand,
    gone: HashMap<(Option<NameId>, u32), ForgottenWork>,
    /// Number of CPU chains up to now.
    chains: u32,
    /// For each host and scenario, the CPUs that the scenario adds: the times at which they become
    /// free.
    extra: Few<(Option<NameId>, usize), Vec<f64>>,
    full: Full,
    trail: Trail,
    /// Number of operations that wait.
    held: usize,
    /// The reason why a scenario cannot be replayed any further.
    still: Vec<Option<&'static str>>,
    /// Scenarios in which some call's cost is spread over more items.
    is_paid: Vec<bool>,
    /// Defect of the last end that the trace marked.
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
        // A scenario with more CPUs is at least as good as its other changes alone, so these are
        // replayed too.
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

    /// Sets the start of the range to `t` ns. What is before only establishes the state at that
    /// time. Must be called before the first interaction.
    pub fn begin_at(&mut self, t: u64) {
        self.asked_begin = t;
    }

    /// Processes the next interaction; interactions must be in the order of time.
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

    /// Advances the clock to `t` ns without an interaction.
    pub fn until(&mut self, t: u64) {
        self.now = self.now.max(t.saturating_sub(self.begin.unwrap_or(t)));
    }

    /// Number of vectors that are held, of machines, tokens, room and free CPUs.
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
