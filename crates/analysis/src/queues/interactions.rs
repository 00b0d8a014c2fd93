//! Queues from the puts and gets of a machine log.
//!
//! Depths are exact here, since every put and get is reported. Queues of replies are left out: each
//! belongs to one call, which [`crate::latency`] covers.

use super::{Batches, Counted, QueueAnswer};
use crate::stats::text::machine_place;
use longpole_model::interaction::{Effect, Interaction, MachineId, QueueId, Vocabulary, Wants};
use longpole_model::kinds::QueueKind;
use longpole_model::tokens::{Amount, Queues, Shape, Unit};

/// Largest number of tokens in flight whose put time is remembered.
const MAX_TOKENS: usize = 1 << 20;

#[derive(Debug, Default)]
struct QueueState {
    shape: Shape,
    level: u64,
    /// Time of the first use within the range; `None` before it.
    first: Option<u64>,
    counted: Counted<MachineId>,
    wait_full_ns: u64,
    wait_empty_ns: u64,
}

/// The statistics of all queues of a machine log; it sees each interaction in the order of time.
#[derive(Debug)]
pub struct QueuesOfMachines {
    states: Vec<Option<QueueState>>,
    /// Start of each machine's block, and what it waits for if the log states it.
    blocked: Vec<Option<(u64, Option<(QueueId, Wants)>)>>,
    batches: Batches,
    tokens: Queues<u64>,
    begin: u64,
    now: u64,
}

impl Default for QueuesOfMachines {
    fn default() -> QueuesOfMachines {
        QueuesOfMachines {
            states: Vec::new(),
            blocked: Vec::new(),
            batches: Batches::default(),
            tokens: Queues::new(MAX_TOKENS),
            begin: 0,
            now: 0,
        }
    }
}

impl QueuesOfMachines {
    /// Sets the start of the range to `t` ns. Earlier interactions determine the depth but are not
    /// counted.
    pub fn begin_at(&mut self, t: u64) {
        self.begin = t;
    }

    pub fn until(&mut self, t: u64) {
        self.now = self.now.max(t);
    }

    pub fn interaction(&mut self, interaction: &Interaction) {
        if !matches!(interaction.effect, Effect::Declare { .. }) {
            self.now = self.now.max(interaction.t);
        }
        match interaction.effect {
            Effect::Declare { queue, shape } => {
                // Space is not tracked: a put beyond the capacity is counted like any other.
                self.tokens.declare(queue, Shape { capacity: None, ..shape });
                *self.slot(queue) = Some(QueueState { shape, level: shape.initial, ..QueueState::default() });
            }
            Effect::Block { machine, on, wants, .. } => {
                self.end_batch(machine);
                let now = self.now;
                self.blocked(machine).get_or_insert((now, on.zip(wants)));
            }
            Effect::Put { machine, queue, n, .. } => self.put(machine, queue, n, interaction),
            Effect::Get { machine, queue, amount, .. } => self.get(machine, queue, amount, interaction),
            Effect::Peek { machine, queue, .. } => self.unblock(machine, Some((queue, Wants::Tokens))),
            Effect::Reserve { machine, queue, .. } => self.unblock(machine, Some((queue, Wants::Space))),
            Effect::State { machine, .. } | Effect::Wake { machine, .. } => self.unblock(machine, None),
            Effect::Stop { machine } | Effect::Pop { machine } => {
                self.end_batch(machine);
                *self.blocked(machine) = None;
            }
            Effect::Now | Effect::Class { .. } | Effect::Here { .. } | Effect::Remember { .. } => {}
            Effect::Fork { .. } | Effect::Push { .. } | Effect::End { .. } => {}
        }
    }

    fn slot(&mut self, queue: QueueId) -> &mut Option<QueueState> {
        let at = queue.0 as usize;
        if self.states.len() <= at {
            self.states.resize_with(at + 1, || None);
        }
        &mut self.states[at]
    }

    fn blocked(&mut self, machine: MachineId) -> &mut Option<(u64, Option<(QueueId, Wants)>)> {
        let at = machine.0 as usize;
        if self.blocked.len() <= at {
            self.blocked.resize(at + 1, None);
        }
        &mut self.blocked[at]
    }

    /// Returns the queue if the current time is within the range.
    fn in_range(&mut self, queue: QueueId) -> Option<&mut QueueState> {
        let (now, begin) = (self.now, self.begin);
        let state = self.slot(queue).get_or_insert_default();
        if now < begin {
            return None;
        }
        if state.first.is_none() {
            state.first = Some(now);
            state.counted.depth.anchor_exactly(state.level, now as i64, None);
        }
        Some(state)
    }

    fn put(&mut self, machine: MachineId, queue: QueueId, n: u64, interaction: &Interaction) {
        self.unblock(machine, Some((queue, Wants::Space)));
        let Effect::Put { flow, .. } = interaction.effect else { return };
        self.tokens.put(queue, n, flow, self.now);
        self.tokens.copied.clear();
        self.tokens.spent.clear();
        let now = self.now;
        if let Some(state) = self.in_range(queue) {
            state.counted.put(machine, n, now as i64, None);
        }
        if let Some(state) = self.slot(queue) {
            state.level = state.level.saturating_add(n);
        }
    }

    fn get(&mut self, machine: MachineId, queue: QueueId, amount: Amount, interaction: &Interaction) {
        self.unblock(machine, Some((queue, Wants::Tokens)));
        let Effect::Get { flow, .. } = interaction.effect else { return };
        let units = self.tokens.get(queue, amount, flow).units;
        self.tokens.copied.clear();
        let spent = std::mem::take(&mut self.tokens.spent);
        let now = self.now;
        if let Some(state) = self.in_range(queue) {
            state.counted.get(machine, units, now as i64, None);
            spent.iter().for_each(|&put| state.counted.residence.record(now.saturating_sub(put)));
            let items = if state.shape.unit == Unit::Bytes { 1 } else { units };
            self.batches.take(machine.0, queue, items);
        }
        self.tokens.spent = spent;
        self.tokens.spent.clear();
        if let Some(state) = self.slot(queue) {
            state.level = state.level.saturating_sub(units);
        }
    }

    /// Ends the machine's block. The wait belongs to the stated reason, or else to `why`.
    fn unblock(&mut self, machine: MachineId, why: Option<(QueueId, Wants)>) {
        let Some((since, stated)) = self.blocked(machine).take() else { return };
        let waited = self.now.saturating_sub(since.max(self.begin));
        let Some((queue, wants)) = stated.or(why) else { return };
        if let Some(state) = self.slot(queue) {
            match wants {
                Wants::Tokens => state.wait_empty_ns += waited,
                Wants::Space => state.wait_full_ns += waited,
            }
        }
    }

    fn end_batch(&mut self, machine: MachineId) {
        let states = &mut self.states;
        self.batches.end(machine.0, |queue, items| {
            if let Some(state) = states.get_mut(queue.0 as usize).and_then(Option::as_mut) {
                state.counted.batch.record(items);
            }
        });
    }

    pub fn answer(mut self, vocabulary: &Vocabulary) -> Vec<QueueAnswer> {
        vocabulary.machines().for_each(|machine| self.end_batch(machine));
        let names = |machines: &[MachineId]| {
            let mut machines = machines.to_vec();
            machines.sort_unstable();
            machines.into_iter().map(|machine| machine_place(vocabulary, machine)).collect()
        };
        let mut out = Vec::new();
        for (at, state) in self.states.iter().enumerate() {
            let queue = QueueId(at as u32);
            let Some((state, first)) = state.as_ref().and_then(|state| Some((state, state.first?))) else { continue };
            if vocabulary.queue_kind(queue) == QueueKind::Replies {
                continue;
            }
            let times = (first as i64, self.now as i64);
            out.push(QueueAnswer {
                wait_full_ns: state.wait_full_ns,
                wait_empty_ns: state.wait_empty_ns,
                ..state.counted.answer(vocabulary.link_name(queue), state.shape, times, names)
            });
        }
        out.sort_by(|a, b| a.name.cmp(&b.name));
        out
    }
}
