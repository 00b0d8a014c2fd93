//! Latencies from a machine log: calls, stays in states, signals, and activity between blocks.
//!
//! A stay in a state lasts until the machine states another one; its blocks, and the times in which
//! it is runnable or interrupted, are parts of it. A call is a put into `rpc:NAME`, its reply a put
//! into `rpc:NAME:reply:ID`. A reply belongs to the oldest call of that name that the replying
//! machine has taken and not answered.

use super::{CallTimes, Latency, Measured, Net, MAX_IN_FLIGHT};
use crate::stats::growing::entry;
use crate::stats::text::machine_place;
use longpole_model::hash::IdMap;
use longpole_model::interaction::{Effect, Interaction, MachineId, QueueId, Vocabulary};
use longpole_model::kinds::{QueueKind, StateKind};
use longpole_model::names::NameId;
use std::collections::{HashMap, VecDeque};

/// Purpose of a queue.
#[derive(Clone, Copy, Debug)]
enum Use {
    Tokens,
    /// Calls, with the number of the call's name.
    Calls(u32),
    Replies(u32),
    Signal,
}

#[derive(Clone, Copy, Debug)]
struct Call {
    caller: MachineId,
    called: u64,
    taken: Option<(MachineId, u64)>,
    replied: u64,
}

/// Current use of a machine's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    #[default]
    Runs,
    Runnable,
    Blocked,
}

#[derive(Debug, Default)]
struct Machine {
    stay: Option<(NameId, u64)>,
    mode: Mode,
    contexts_above: u32,
    below: Option<MachineId>,
    /// Time until which the stay is split into its parts; and the parts in ns: running,
    /// interrupted, runnable, blocked.
    since: u64,
    parts: [u64; 4],
    awake: Option<u64>,
    /// Calls that the machine has taken and not answered.
    unanswered: VecDeque<(u32, Call)>,
}

/// The measurement for machine logs; it sees each interaction in the order of time.
#[derive(Debug, Default)]
pub struct LatenciesOfMachines {
    machines: Vec<Machine>,
    uses: Vec<Option<Use>>,
    names: Vec<NameId>,
    known: IdMap<NameId, u32>,
    /// Calls that no machine has taken yet, by name.
    waiting: Vec<VecDeque<Call>>,
    replies: HashMap<QueueId, Call>,
    /// The first submit that was not received: its sender and time, and the number of submits
    /// since.
    pending: HashMap<QueueId, (MachineId, u64, u64)>,
    measured: Measured<MachineId>,
    begin: u64,
    now: u64,
}

impl LatenciesOfMachines {
    /// Sets the start of the range to `t` ns. What began earlier is left out.
    pub fn begin_at(&mut self, t: u64) {
        self.begin = t;
    }

    pub fn interaction(&mut self, vocabulary: &Vocabulary, interaction: &Interaction) {
        if matches!(interaction.effect, Effect::Declare { .. }) {
            return;
        }
        self.now = self.now.max(interaction.t);
        match interaction.effect {
            Effect::State { machine, state } => self.state(vocabulary, machine, state),
            Effect::Block { machine, .. } => {
                self.set_mode(machine, Mode::Blocked);
                if let Some(awake) = self.machine(machine).awake.take().filter(|&awake| awake >= self.begin) {
                    self.measured.activities.entry(machine).or_default().record(self.now - awake);
                }
            }
            Effect::Wake { machine, .. } => {
                if self.machine(machine).mode == Mode::Blocked {
                    self.end_block(machine, Mode::Runnable);
                }
            }
            Effect::Put { machine, queue, n, .. } => {
                self.end_block(machine, Mode::Runs);
                self.put(vocabulary, machine, queue, n);
            }
            Effect::Get { machine, queue, .. } => {
                self.end_block(machine, Mode::Runs);
                self.get(vocabulary, machine, queue);
            }
            Effect::Peek { machine, .. } | Effect::Reserve { machine, .. } => self.end_block(machine, Mode::Runs),
            Effect::Push { machine, below, .. } => {
                self.machine(machine).below = below;
                self.count_contexts_above(below, 1);
            }
            Effect::Pop { machine } | Effect::Stop { machine } => {
                self.end_stay(machine);
                let below = self.machine(machine).below;
                *self.machine(machine) = Machine::default();
                self.count_contexts_above(below, -1);
            }
            Effect::Now
            | Effect::Declare { .. }
            | Effect::Class { .. }
            | Effect::Here { .. }
            | Effect::Remember { .. }
            | Effect::Fork { .. }
            | Effect::End { .. } => {}
        }
    }

    fn machine(&mut self, machine: MachineId) -> &mut Machine {
        entry(&mut self.machines, machine.0)
    }

    /// Adds the time until now to the current part.
    fn charge(&mut self, machine: MachineId) {
        let now = self.now;
        let it = self.machine(machine);
        let part = match it.mode {
            _ if it.contexts_above > 0 => 1,
            Mode::Runs => 0,
            Mode::Runnable => 2,
            Mode::Blocked => 3,
        };
        it.parts[part] += now - it.since.min(now);
        it.since = now;
    }

    fn set_mode(&mut self, machine: MachineId, mode: Mode) {
        self.charge(machine);
        self.machine(machine).mode = mode;
    }

    /// Ends the machine's block, if there is one.
    fn end_block(&mut self, machine: MachineId, mode: Mode) {
        if self.machine(machine).mode == Mode::Blocked {
            self.set_mode(machine, mode);
            let now = self.now;
            self.machine(machine).awake = Some(now);
        }
    }

    fn count_contexts_above(&mut self, below: Option<MachineId>, by: i32) {
        if let Some(below) = below {
            self.charge(below);
            let it = self.machine(below);
            it.contexts_above = it.contexts_above.saturating_add_signed(by);
        }
    }

    fn state(&mut self, vocabulary: &Vocabulary, machine: MachineId, state: NameId) {
        self.end_block(machine, Mode::Runs);
        let kind = vocabulary.names.state_kind(state);
        if kind.waits_for_cpu() || matches!(kind, StateKind::Interrupted | StateKind::Unknown) {
            return self.set_mode(machine, Mode::Runnable);
        }
        self.set_mode(machine, Mode::Runs);
        if self.machine(machine).stay.is_some_and(|(known, _)| known == state) {
            return;
        }
        self.end_stay(machine);
        let now = self.now;
        let it = self.machine(machine);
        (it.stay, it.parts, it.since) = (Some((state, now)), [0; 4], now);
    }

    /// Ends the stay.
    fn end_stay(&mut self, machine: MachineId) {
        self.charge(machine);
        let begin = self.begin;
        let Some((state, since)) = self.machine(machine).stay.take().filter(|&(_, since)| since >= begin) else { return };
        let (total, parts) = (self.now - since, self.machine(machine).parts);
        let stays = self.measured.spans.entry((machine, state)).or_default();
        stays.total.record(total);
        let Net { running, interrupted, runnable, blocked, .. } = &mut **stays.net.get_or_insert_default();
        [running, interrupted, runnable, blocked].into_iter().zip(parts).for_each(|(times, ns)| times.record(ns));
    }

    fn use_of(&mut self, vocabulary: &Vocabulary, queue: QueueId) -> Use {
        let at = queue.0 as usize;
        if self.uses.len() <= at {
            self.uses.resize(at + 1, None);
        }
        if let Some(known) = self.uses[at] {
            return known;
        }
        let made = match vocabulary.queue_kind(queue) {
            QueueKind::Replies => Use::Replies(self.call(vocabulary.queue_of(queue))),
            QueueKind::Calls => Use::Calls(self.call(vocabulary.queue_of(queue))),
            QueueKind::Signals => Use::Signal,
            QueueKind::Items => Use::Tokens,
        };
        self.uses[at] = Some(made);
        made
    }

    fn call(&mut self, name: NameId) -> u32 {
        let Self { known, names, waiting, .. } = self;
        *known.entry(name).or_insert_with(|| {
            names.push(name);
            waiting.push(VecDeque::new());
            names.len() as u32 - 1
        })
    }

    fn put(&mut self, vocabulary: &Vocabulary, machine: MachineId, queue: QueueId, n: u64) {
        let now = self.now;
        match self.use_of(vocabulary, queue) {
            Use::Tokens => {}
            Use::Calls(name) => {
                let call = Call { caller: machine, called: now, taken: None, replied: 0 };
                push(&mut self.waiting[name as usize], call);
            }
            Use::Replies(name) => {
                let unanswered = &mut self.machine(machine).unanswered;
                let Some(place) = unanswered.iter().position(|(known, _)| *known == name) else { return };
                if let Some((_, call)) = unanswered.remove(place).filter(|_| self.replies.len() < MAX_IN_FLIGHT) {
                    self.replies.insert(queue, Call { replied: now, ..call });
                }
            }
            Use::Signal => {
                let (_, _, count) = self.pending.entry(queue).or_insert((machine, now, 0));
                *count = count.saturating_add(n);
            }
        }
    }

    fn get(&mut self, vocabulary: &Vocabulary, machine: MachineId, queue: QueueId) {
        let (now, begin) = (self.now, self.begin);
        match self.use_of(vocabulary, queue) {
            Use::Tokens => {}
            Use::Calls(name) => {
                if let Some(call) = self.waiting[name as usize].pop_front() {
                    push(&mut self.machine(machine).unanswered, (name, Call { taken: Some((machine, now)), ..call }));
                }
            }
            Use::Replies(name) => {
                let Some(call) = self.replies.remove(&queue).filter(|call| call.called >= begin) else { return };
                let Some((server, taken)) = call.taken else { return };
                let calls = self.measured.calls.entry((self.names[name as usize], call.caller, Some(server))).or_default();
                let [called, dispatched, replied, returned] = [call.called, taken, call.replied, now].map(|t| t as i64);
                calls.total.record(now - call.called);
                calls.record_parts(CallTimes { called, dispatched, replied, returned });
            }
            Use::Signal => {
                let Some((sender, since, count)) = self.pending.remove(&queue).filter(|pending| pending.1 >= begin) else { return };
                let signals = self.measured.signals.entry((vocabulary.queue_of(queue), sender, machine)).or_default();
                signals.times.record(now - since);
                signals.submits = signals.submits.saturating_add(count);
                signals.merged = signals.merged.saturating_add(count.saturating_sub(1));
                signals.self_sent += u64::from(sender == machine);
            }
        }
    }

    pub fn answer(self, vocabulary: &Vocabulary) -> Vec<Latency> {
        let who = |machine| Some(machine_place(vocabulary, machine));
        self.measured.answer(|name| vocabulary.names.text(name).to_owned(), who)
    }
}

/// Appends an element; drops the oldest one if there are too many.
fn push<T>(queue: &mut VecDeque<T>, new: T) {
    if queue.len() == MAX_IN_FLIGHT {
        queue.pop_front();
    }
    queue.push_back(new);
}
