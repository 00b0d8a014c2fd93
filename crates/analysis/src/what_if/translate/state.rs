//! What the translation knows of the trace, up to the position that it has reached.

use super::changes::Changes;
use super::groups::Groups;
use super::queue_uses::{QueueUses, TokenOrigin};
use super::traced_machine::TracedMachine;
use crate::critical_path::keys::key::{Key, Keys, State};
use crate::what_if::full_queues::FullQueues;
use crate::what_if::grammar::Scenario;
use crate::what_if::operation::{LeftCpu, Operation};
use crate::what_if::options::Options;
use crate::what_if::replay::cpus::{Cpus, Host};
use crate::what_if::replay::replayer::Replayer;
use crate::what_if::replay::state::Replay;
use crate::what_if::worlds::small_map::SmallMap;
use crate::what_if::worlds::time_vector::Layout;
use longpole_model::hash::IdMap;
use longpole_model::interaction::{MachineId, Vocabulary};
use longpole_model::tokens::Queues;
use std::collections::VecDeque;

/// Approximate size in bytes of a token in flight, without its vector of times.
const TOKEN: usize = 128;

/// Position in the trace.
#[derive(Debug, Default)]
pub struct Clock {
    /// Start of the replay, in ns of the trace.
    pub begin: Option<u64>,
    /// Start of the requested range.
    pub requested_begin: u64,
    /// Time since the start, in ns.
    pub now: u64,
    pub line: u64,
}

/// The machine whose end counts.
#[derive(Debug, Default)]
pub struct EndMachine {
    /// Name of the requested machine.
    pub name: Option<String>,
    /// The requested machine, and another one of the same name on another host.
    pub requested: Option<MachineId>,
    pub namesake: Option<MachineId>,
    /// The last machine that did something.
    pub last: Option<MachineId>,
    /// Defect of the last end that the trace marked.
    pub no_end: Option<String>,
}

/// Delays of one kind of token between put and get, if a machine was waiting for the token.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delay {
    pub count: f64,
    pub sum: f64,
}

/// The keys of states and links that have occurred.
#[derive(Debug, Default)]
pub struct States {
    pub keys: Keys,
    /// Delays by the key of the link.
    pub delays: Vec<Delay>,
    /// For each key, the first line of the trace with a wait whose cause is unknown.
    pub first_unexplained: IdMap<u32, u64>,
}

/// The trace as far as it was read, with the replay of its operations.
#[derive(Debug)]
pub struct Translation {
    pub replay: Replayer,
    pub changes: Changes,
    pub machines: Vec<TracedMachine>,
    /// The machines that stopped, in that order, each with the number of its stop.
    pub stopped: VecDeque<(MachineId, u32)>,
    pub states: States,
    pub queues: Queues<TokenOrigin>,
    pub uses: QueueUses,
    pub full: FullQueues,
    /// For each host, the CPUs that were left and are free, with the time at which they were left.
    pub free_cpus: SmallMap<Host, Vec<(LeftCpu, u64)>>,
    /// Number of CPU chains up to now.
    pub chains: u32,
    pub groups: Groups,
    /// In some world a machine calls less often.
    pub is_batched: bool,
    pub clock: Clock,
    pub end_machine: EndMachine,
    /// Number of interactions that contradict the ones before.
    pub contradictions: u64,
    pub interactions: u64,
    /// Number of causes by machines that were forgotten.
    pub forgotten_causes: u64,
}

impl Translation {
    pub fn new(options: &Options) -> Translation {
        let layout = Layout { scenarios: options.scenarios.len() };
        let changes = Changes::new(&options.scenarios);
        let cpus = Cpus::new(changes.cpus(), changes.most(layout));
        Translation {
            replay: Replayer::new(Replay::new(options, cpus)),
            changes,
            machines: Vec::new(),
            stopped: VecDeque::new(),
            states: States::default(),
            queues: Queues::new((options.most_bytes / (8 * layout.len() + TOKEN)).max(1 << 10)),
            uses: QueueUses::default(),
            full: FullQueues::default(),
            free_cpus: SmallMap::default(),
            chains: 0,
            groups: Groups::default(),
            is_batched: options.scenarios.iter().any(Scenario::batches),
            clock: Clock::default(),
            end_machine: EndMachine { name: options.machine.clone(), ..EndMachine::default() },
            contradictions: 0,
            interactions: 0,
            forgotten_causes: 0,
        }
    }

    /// Returns the machine, made at its first use.
    #[inline]
    pub fn machine(&mut self, machine: MachineId) -> &mut TracedMachine {
        let at = machine.0 as usize;
        if at >= self.machines.len() {
            self.meet_more(at + 1);
        }
        &mut self.machines[at]
    }

    #[cold]
    fn meet_more(&mut self, machines: usize) {
        self.machines.resize_with(machines, TracedMachine::default);
        self.replay.make_machines(machines);
    }

    /// Number of vectors that are held, of machines, tokens, room and free CPUs.
    pub fn held_vectors(&mut self) -> usize {
        self.replay.here().slots.live() + self.machines.iter().filter(|machine| !machine.is_forgotten).count()
    }

    /// Returns true if no context is on top of the machine.
    pub fn is_top(&self, machine: MachineId) -> bool {
        self.known(machine).is_some_and(|traced| traced.stack.above == 0)
    }

    /// Returns the machine if it was used.
    pub fn known(&self, machine: MachineId) -> Option<&TracedMachine> {
        self.machines.get(machine.0 as usize)
    }

    /// Issues an operation of the machine at the current position of the trace.
    pub fn issue(&mut self, machine: MachineId, operation: Operation) {
        let now = self.clock.now;
        let traced = self.machine(machine);
        if operation.takes_time() {
            traced.since = now;
        }
        self.replay.run(machine, now, operation);
    }

    /// Connects two machines, since one waits for the other. A thread of the kernel that works for
    /// any machine connects none.
    pub fn connect(&mut self, machine: MachineId, by: MachineId) {
        if !self.machine(machine).is_shared_worker && !self.machine(by).is_shared_worker {
            self.groups.join(machine, by);
        }
    }

    /// Returns the number of the key; at its first use, the replay gets its factors.
    pub fn key(&mut self, vocabulary: &Vocabulary, key: Key) -> u32 {
        let id = self.states.keys.id(key);
        while self.states.keys.len() > self.states.delays.len() {
            let is_lost = matches!(key, Key::State { machine, .. } if vocabulary.is_lost_events(machine));
            let kind = key.kind(vocabulary, false);
            let factors = self.changes.row(&key.words(vocabulary), (&key, kind), is_lost, self.replay.layout);
            self.replay.add_factors(factors);
            self.states.delays.push(Delay::default());
        }
        id
    }

    pub fn state_key(&mut self, vocabulary: &Vocabulary, machine: MachineId, state: State) -> u32 {
        let class = self.machine(machine).class;
        self.key(vocabulary, Key::State { machine, class, state })
    }
}
