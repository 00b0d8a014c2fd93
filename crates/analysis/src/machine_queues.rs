//! The queues of a machine log, by what its machines say they put and took: as [`crate::queues`] tells them of probes.
//!
//! Depths are exact here, since every put and get stands in the log. The queues of replies are left out: each belongs to one call, of which
//! [`crate::machine_latency`] tells.

use crate::depth::Depth;
use crate::histogram::Histogram;
use crate::machine_latency::place;
use crate::queues::{BatchAnswer, DepthAnswer, QueueAnswer};
use longpole_model::interaction::{Deed, Interaction, MachineId, QueueId, Vocabulary, Wants};
use longpole_model::kinds::QueueKind;
use longpole_model::tokens::{Amount, Queues, Shape, Unit};
use std::collections::BTreeSet;

/// Tokens in flight of which it is known when they were put.
const MOST_TOKENS: usize = 1 << 20;

#[derive(Debug, Default)]
struct State {
    shape: Shape,
    level: u64,
    /// Of the part that was asked for; none before the first use in it.
    first: Option<u64>,
    depth: Depth,
    puts: u64,
    gets: u64,
    put_units: u64,
    get_units: u64,
    producers: BTreeSet<MachineId>,
    consumers: BTreeSet<MachineId>,
    residence: Histogram,
    batch: Histogram,
    wait_full_ns: u64,
    wait_empty_ns: u64,
}

#[derive(Debug, Default)]
struct Machine {
    /// Since when it is blocked, and for what, where that was said.
    blocked: Option<(u64, Option<(QueueId, Wants)>)>,
    /// What it took since its last block.
    taken: Vec<(QueueId, u64)>,
}

#[derive(Debug)]
pub struct MachineQueues {
    states: Vec<Option<State>>,
    machines: Vec<Machine>,
    tokens: Queues<u64>,
    begin: u64,
    now: u64,
}

impl Default for MachineQueues {
    fn default() -> MachineQueues {
        MachineQueues { states: Vec::new(), machines: Vec::new(), tokens: Queues::new(MOST_TOKENS), begin: 0, now: 0 }
    }
}

impl MachineQueues {
    /// What is before decides how deep queues are, and is not told.
    pub fn begin_at(&mut self, t: u64) {
        self.begin = t;
    }

    pub fn until(&mut self, t: u64) {
        self.now = self.now.max(t);
    }

    pub fn interaction(&mut self, interaction: &Interaction) {
        if !matches!(interaction.deed, Deed::Declare { .. }) {
            self.now = self.now.max(interaction.t);
        }
        match interaction.deed {
            Deed::Declare { queue, shape } => {
                // Space is not followed: a put beyond the capacity is one like any other.
                self.tokens.declare(queue, Shape { capacity: None, ..shape });
                *self.slot(queue) = Some(State { shape, level: shape.initial, ..State::default() });
            }
            Deed::Block { machine, on, wants, .. } => {
                self.end_batch(machine);
                let now = self.now;
                self.machine(machine).blocked.get_or_insert((now, on.zip(wants)));
            }
            Deed::Put { machine, queue, n, .. } => self.put(machine, queue, n, interaction),
            Deed::Get { machine, queue, amount, .. } => self.get(machine, queue, amount, interaction),
            Deed::Peek { machine, queue, .. } => self.unblock(machine, Some((queue, Wants::Tokens))),
            Deed::Reserve { machine, queue, .. } => self.unblock(machine, Some((queue, Wants::Space))),
            Deed::State { machine, .. } | Deed::Wake { machine, .. } => self.unblock(machine, None),
            Deed::Stop { machine } | Deed::Pop { machine } => {
                self.end_batch(machine);
                *self.machine(machine) = Machine::default();
            }
            Deed::Now | Deed::Class { .. } | Deed::Here { .. } | Deed::Fork { .. } | Deed::Push { .. } | Deed::End { .. } => {}
        }
    }

    fn slot(&mut self, queue: QueueId) -> &mut Option<State> {
        let at = queue.0 as usize;
        if self.states.len() <= at {
            self.states.resize_with(at + 1, || None);
        }
        &mut self.states[at]
    }

    fn machine(&mut self, machine: MachineId) -> &mut Machine {
        let at = machine.0 as usize;
        if self.machines.len() <= at {
            self.machines.resize_with(at + 1, Machine::default);
        }
        &mut self.machines[at]
    }

    /// The queue, if what happens to it now was asked for.
    fn used(&mut self, queue: QueueId) -> Option<&mut State> {
        let (now, begin) = (self.now, self.begin);
        let state = self.slot(queue).get_or_insert_default();
        if now < begin {
            return None;
        }
        if state.first.is_none() {
            state.first = Some(now);
            state.depth.anchor_exactly(state.level, now as i64, None);
        }
        Some(state)
    }

    fn put(&mut self, machine: MachineId, queue: QueueId, n: u64, interaction: &Interaction) {
        self.unblock(machine, Some((queue, Wants::Space)));
        let Deed::Put { flow, .. } = interaction.deed else { return };
        self.tokens.put(queue, n, flow, self.now);
        self.tokens.copied.clear();
        self.tokens.spent.clear();
        let now = self.now;
        if let Some(state) = self.used(queue) {
            state.puts += 1;
            state.put_units = state.put_units.saturating_add(n);
            state.producers.insert(machine);
            state.depth.change(n.min(i64::MAX as u64) as i64, now as i64, None);
        }
        if let Some(state) = self.slot(queue) {
            state.level = state.level.saturating_add(n);
        }
    }

    fn get(&mut self, machine: MachineId, queue: QueueId, amount: Amount, interaction: &Interaction) {
        self.unblock(machine, Some((queue, Wants::Tokens)));
        let Deed::Get { flow, .. } = interaction.deed else { return };
        let units = self.tokens.get(queue, amount, flow).units;
        self.tokens.copied.clear();
        let spent = std::mem::take(&mut self.tokens.spent);
        let now = self.now;
        if let Some(state) = self.used(queue) {
            state.gets += 1;
            state.get_units = state.get_units.saturating_add(units);
            state.consumers.insert(machine);
            state.depth.change(-(units.min(i64::MAX as u64) as i64), now as i64, None);
            spent.iter().for_each(|&put| state.residence.record(now.saturating_sub(put)));
            let items = if state.shape.unit == Unit::Bytes { 1 } else { units };
            let taken = &mut self.machine(machine).taken;
            match taken.iter_mut().find(|(known, _)| *known == queue) {
                Some((_, sum)) => *sum = sum.saturating_add(items),
                None => taken.push((queue, items)),
            }
        }
        self.tokens.spent = spent;
        self.tokens.spent.clear();
        if let Some(state) = self.slot(queue) {
            state.level = state.level.saturating_sub(units);
        }
    }

    /// The machine goes on: because of this, if it says why.
    fn unblock(&mut self, machine: MachineId, why: Option<(QueueId, Wants)>) {
        let Some((since, said)) = self.machine(machine).blocked.take() else { return };
        let waited = self.now.saturating_sub(since.max(self.begin));
        let Some((queue, wants)) = said.or(why) else { return };
        if let Some(state) = self.slot(queue) {
            match wants {
                Wants::Tokens => state.wait_empty_ns += waited,
                Wants::Space => state.wait_full_ns += waited,
            }
        }
    }

    fn end_batch(&mut self, machine: MachineId) {
        for (queue, items) in std::mem::take(&mut self.machine(machine).taken) {
            if let Some(state) = self.slot(queue).as_mut().filter(|_| items > 0) {
                state.batch.record(items);
            }
        }
    }

    pub fn answer(mut self, vocabulary: &Vocabulary) -> Vec<QueueAnswer> {
        (0..self.machines.len() as u32).for_each(|machine| self.end_batch(MachineId(machine)));
        let now = self.now;
        let names = |machines: &BTreeSet<MachineId>| machines.iter().map(|&machine| place(vocabulary, machine)).collect();
        let mut out = Vec::new();
        for (at, state) in self.states.iter().enumerate() {
            let queue = QueueId(at as u32);
            let Some((state, first)) = state.as_ref().and_then(|state| Some((state, state.first?))) else { continue };
            if vocabulary.queue_kind(queue) == QueueKind::Replies {
                continue;
            }
            let Shape { capacity, unit, .. } = state.shape;
            let depth = state.depth.finish(now as i64, capacity);
            let units = state.put_units.max(state.get_units);
            let items = if unit == Unit::Bytes { state.puts.max(state.gets) } else { units };
            let seconds = now.saturating_sub(first) as f64 / 1e9;
            let rate = |count: u64| (seconds > 0.0).then(|| count as f64 / seconds);
            let batch = &state.batch;
            out.push(QueueAnswer {
                name: vocabulary.link_name(queue).to_owned(),
                capacity,
                unit: if unit == Unit::Bytes { "bytes" } else { "items" },
                puts: state.puts,
                gets: state.gets,
                put_units: state.put_units,
                get_units: state.get_units,
                full_share: capacity.and_then(|capacity| depth.share_from(capacity)),
                empty_share: depth.share_from(1).map(|share| 1.0 - share),
                depth: DepthAnswer::of(&depth),
                uncertain_share: (seconds > 0.0).then_some(0.0),
                batch: BatchAnswer::of(batch),
                residence_ns: state.residence.times(),
                signals_per_item: None,
                items_per_s: rate(items),
                bytes_per_s: if unit == Unit::Bytes { rate(units) } else { None },
                wait_full_ns: state.wait_full_ns,
                wait_empty_ns: state.wait_empty_ns,
                producers: names(&state.producers),
                consumers: names(&state.consumers),
                lost: 0,
            });
        }
        out.sort_by(|a, b| a.name.cmp(&b.name));
        out
    }
}
