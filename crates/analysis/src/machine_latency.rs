//! Latencies of a machine log: calls, stays in states, signals, and activity between blocks; as [`crate::latency`] tells them of probes.
//!
//! A stay in a state lasts until the machine says another one; its blocks, and the times in which it is runnable or interrupted, are parts of
//! it. A call is what the rules of the log say: a put into `rpc:NAME`, and a reply into `rpc:NAME:reply:ID`. Which reply is whose is known by who
//! took the call first and has not answered.

use crate::latency::{Kind, Latency, Part};
use crate::parts::Parts;
use crate::samples::Samples;
use crate::text;
use longpole_model::interaction::{Deed, Interaction, MachineId, QueueId, Vocabulary};
use longpole_model::names::NameId;
use std::collections::{HashMap, VecDeque};

/// Calls in flight of one name, or of one server: the oldest is given up.
const MOST_IN_FLIGHT: usize = 1 << 16;

/// Host and machine.
pub(crate) fn place(vocabulary: &Vocabulary, machine: MachineId) -> String {
    text::place(vocabulary.host(machine), vocabulary.machine_name(machine))
}

pub(crate) fn is_reply(queue: &str) -> bool {
    queue.starts_with("rpc:") && queue.contains(":reply:")
}

/// What a queue is to whoever uses it.
#[derive(Clone, Copy, Debug)]
enum Use {
    Tokens,
    /// By the number of the call's name.
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

#[derive(Debug, Default)]
struct Calls {
    total: Samples,
    dispatch: Samples,
    service: Samples,
    back: Samples,
}

#[derive(Debug, Default)]
struct Stays {
    total: Samples,
    net: Samples,
    interrupted: Samples,
    runnable: Samples,
    blocked: Samples,
}

#[derive(Debug, Default)]
struct Signals {
    times: Samples,
    submits: u64,
    merged: u64,
    self_sent: u64,
}

/// What a machine's time is at the moment.
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
    above: u32,
    below: Option<MachineId>,
    /// Until when its stay's time is told apart, and into what: ran, interrupted, runnable, blocked.
    since: u64,
    parts: [u64; 4],
    awake: Option<u64>,
    /// Calls that it has taken and not answered.
    serves: VecDeque<(u32, Call)>,
}

#[derive(Debug, Default)]
pub struct MachineLatency {
    machines: Vec<Machine>,
    uses: Vec<Option<Use>>,
    names: Vec<String>,
    known: HashMap<String, u32>,
    /// By name: calls that nobody has taken.
    waiting: Vec<VecDeque<Call>>,
    replies: HashMap<QueueId, Call>,
    /// What was submitted first, when, and how much by now.
    pending: HashMap<QueueId, (MachineId, u64, u64)>,
    calls: HashMap<(u32, MachineId, MachineId), Calls>,
    stays: HashMap<(NameId, MachineId), Stays>,
    signals: HashMap<(QueueId, MachineId, MachineId), Signals>,
    activities: HashMap<MachineId, Samples>,
    begin: u64,
    now: u64,
}

impl MachineLatency {
    /// What began before is not told.
    pub fn begin_at(&mut self, t: u64) {
        self.begin = t;
    }

    pub fn interaction(&mut self, vocabulary: &Vocabulary, interaction: &Interaction) {
        if matches!(interaction.deed, Deed::Declare { .. }) {
            return;
        }
        self.now = self.now.max(interaction.t);
        match interaction.deed {
            Deed::State { machine, state } => self.state(vocabulary, machine, state),
            Deed::Block { machine, .. } => {
                self.turns(machine, Mode::Blocked);
                if let Some(awake) = self.machine(machine).awake.take().filter(|&awake| awake >= self.begin) {
                    self.activities.entry(machine).or_default().record(self.now - awake);
                }
            }
            Deed::Wake { machine, .. } => {
                if self.machine(machine).mode == Mode::Blocked {
                    self.goes_on(machine, Mode::Runnable);
                }
            }
            Deed::Put { machine, queue, n, .. } => {
                self.goes_on(machine, Mode::Runs);
                self.put(vocabulary, machine, queue, n);
            }
            Deed::Get { machine, queue, .. } => {
                self.goes_on(machine, Mode::Runs);
                self.get(vocabulary, machine, queue);
            }
            Deed::Peek { machine, .. } | Deed::Reserve { machine, .. } => self.goes_on(machine, Mode::Runs),
            Deed::Push { machine, below, .. } => {
                self.machine(machine).below = below;
                self.lies_on(below, 1);
            }
            Deed::Pop { machine } | Deed::Stop { machine } => {
                self.leaves(machine);
                let below = self.machine(machine).below;
                *self.machine(machine) = Machine::default();
                self.lies_on(below, -1);
            }
            Deed::Now | Deed::Declare { .. } | Deed::Class { .. } | Deed::Here { .. } | Deed::Fork { .. } | Deed::End { .. } => {}
        }
    }

    fn machine(&mut self, machine: MachineId) -> &mut Machine {
        let at = machine.0 as usize;
        if self.machines.len() <= at {
            self.machines.resize_with(at + 1, Machine::default);
        }
        &mut self.machines[at]
    }

    /// Tells the time until now apart.
    fn charge(&mut self, machine: MachineId) {
        let now = self.now;
        let it = self.machine(machine);
        let part = match it.mode {
            _ if it.above > 0 => 1,
            Mode::Runs => 0,
            Mode::Runnable => 2,
            Mode::Blocked => 3,
        };
        it.parts[part] += now - it.since.min(now);
        it.since = now;
    }

    fn turns(&mut self, machine: MachineId, mode: Mode) {
        self.charge(machine);
        self.machine(machine).mode = mode;
    }

    /// A block, if it is in one, ends.
    fn goes_on(&mut self, machine: MachineId, mode: Mode) {
        if self.machine(machine).mode == Mode::Blocked {
            self.turns(machine, mode);
            let now = self.now;
            self.machine(machine).awake = Some(now);
        }
    }

    fn lies_on(&mut self, below: Option<MachineId>, by: i32) {
        if let Some(below) = below {
            self.charge(below);
            let it = self.machine(below);
            it.above = it.above.saturating_add_signed(by);
        }
    }

    fn state(&mut self, vocabulary: &Vocabulary, machine: MachineId, state: NameId) {
        self.goes_on(machine, Mode::Runs);
        if matches!(vocabulary.names.text(state), "runnable" | "preempted" | "throttled" | "interrupted" | "UNKNOWN") {
            return self.turns(machine, Mode::Runnable);
        }
        self.turns(machine, Mode::Runs);
        if self.machine(machine).stay.is_some_and(|(known, _)| known == state) {
            return;
        }
        self.leaves(machine);
        let now = self.now;
        let it = self.machine(machine);
        (it.stay, it.parts, it.since) = (Some((state, now)), [0; 4], now);
    }

    /// The stay ends.
    fn leaves(&mut self, machine: MachineId) {
        self.charge(machine);
        let begin = self.begin;
        let Some((state, since)) = self.machine(machine).stay.take().filter(|&(_, since)| since >= begin) else { return };
        let (total, parts) = (self.now - since, self.machine(machine).parts);
        let stays = self.stays.entry((state, machine)).or_default();
        stays.total.record(total);
        let kinds = [&mut stays.net, &mut stays.interrupted, &mut stays.runnable, &mut stays.blocked];
        kinds.into_iter().zip(parts).for_each(|(times, ns)| times.record(ns));
    }

    fn use_of(&mut self, vocabulary: &Vocabulary, queue: QueueId) -> Use {
        let at = queue.0 as usize;
        if self.uses.len() <= at {
            self.uses.resize(at + 1, None);
        }
        if let Some(known) = self.uses[at] {
            return known;
        }
        let name = vocabulary.link_name(queue);
        let made = match name.strip_prefix("rpc:").map(|call| (call, call.rfind(":reply:"))) {
            Some((call, Some(end))) => Use::Replies(self.call(&call[..end])),
            Some((call, None)) => Use::Calls(self.call(call)),
            None if name.starts_with("signal:") => Use::Signal,
            None => Use::Tokens,
        };
        self.uses[at] = Some(made);
        made
    }

    fn call(&mut self, name: &str) -> u32 {
        if let Some(&known) = self.known.get(name) {
            return known;
        }
        let number = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.waiting.push(VecDeque::new());
        self.known.insert(name.to_owned(), number);
        number
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
                let serves = &mut self.machine(machine).serves;
                let Some(place) = serves.iter().position(|(known, _)| *known == name) else { return };
                if let Some((_, call)) = serves.remove(place).filter(|_| self.replies.len() < MOST_IN_FLIGHT) {
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
                    push(&mut self.machine(machine).serves, (name, Call { taken: Some((machine, now)), ..call }));
                }
            }
            Use::Replies(name) => {
                let Some(call) = self.replies.remove(&queue).filter(|call| call.called >= begin) else { return };
                let Some((server, taken)) = call.taken else { return };
                let calls = self.calls.entry((name, call.caller, server)).or_default();
                calls.total.record(now - call.called);
                calls.dispatch.record(taken - call.called);
                calls.service.record(call.replied - taken);
                calls.back.record(now - call.replied);
            }
            Use::Signal => {
                let Some((sender, since, count)) = self.pending.remove(&queue).filter(|pending| pending.1 >= begin) else { return };
                let signals = self.signals.entry((queue, sender, machine)).or_default();
                signals.times.record(now - since);
                signals.submits = signals.submits.saturating_add(count);
                signals.merged = signals.merged.saturating_add(count.saturating_sub(1));
                signals.self_sent += u64::from(sender == machine);
            }
        }
    }

    pub fn answer(self, vocabulary: &Vocabulary) -> Vec<Latency> {
        let machine = |machine: MachineId| Some(place(vocabulary, machine));
        let times = |samples: &Samples| Part::Times(samples.times());
        let mut out = Vec::new();
        for ((name, caller, server), calls) in self.calls {
            out.push(Latency {
                kind: Kind::Rpc,
                name: self.names[name as usize].clone(),
                machine: machine(caller),
                peer: machine(server),
                times: calls.total.times(),
                parts: Parts::from([
                    ("dispatch", times(&calls.dispatch)),
                    ("service", times(&calls.service)),
                    ("return", times(&calls.back)),
                ]),
            });
        }
        // What has been told needs no memory any more.
        for ((state, of), stays) in self.stays {
            let kinds = [("self", &stays.total), ("net", &stays.net), ("interrupted", &stays.interrupted)];
            let others = [("runnable", &stays.runnable), ("blocked", &stays.blocked)];
            out.push(Latency {
                kind: Kind::Span,
                name: vocabulary.names.text(state).to_owned(),
                machine: machine(of),
                peer: None,
                times: stays.total.times(),
                parts: kinds.into_iter().chain(others).map(|(name, samples)| (name, times(samples))).collect(),
            });
        }
        for ((queue, sender, receiver), signals) in self.signals {
            let context = vocabulary.link_name(queue);
            out.push(Latency {
                kind: Kind::Signal,
                name: context.strip_prefix("signal:").unwrap_or(context).to_owned(),
                machine: machine(receiver),
                peer: machine(sender),
                times: signals.times.times(),
                parts: Parts::from([
                    ("submits", Part::Count(signals.submits)),
                    ("merged", Part::Count(signals.merged)),
                    ("self_sent", Part::Count(signals.self_sent)),
                ]),
            });
        }
        for (of, samples) in self.activities {
            let (name, parts) = (place(vocabulary, of), Parts::default());
            out.push(Latency { kind: Kind::Activity, machine: Some(name.clone()), name, peer: None, times: samples.times(), parts });
        }
        Latency::sort(&mut out);
        out
    }
}

/// The oldest goes where there are too many.
fn push<T>(queue: &mut VecDeque<T>, new: T) {
    if queue.len() == MOST_IN_FLIGHT {
        queue.pop_front();
    }
    queue.push_back(new);
}
