//! Queues: how deep, how often full and empty, in what portions they are emptied, how long a token stays. The depth itself is followed in
//! [`crate::depth`].

use crate::depth::Depth;
use crate::histogram::Histogram;
use crate::latency::since;
use crate::session::{Observer, Scene};
use longpole_model::activity::Outcome;
use longpole_model::actors::ActorId;
use longpole_model::hash::IdMap;
use longpole_model::interaction::QueueId;
use longpole_model::step::{Op, Step, SOON_NS};
use longpole_model::tokens::{Order, Shape, Unit};
use longpole_trace::event::Loss;
use serde::Serialize;
use std::collections::VecDeque;

/// Portions in a queue beyond this are not followed to their end.
const MOST_PORTIONS: usize = 1 << 16;

#[derive(Clone, Debug, Serialize)]
pub struct QueueAnswer {
    pub name: String,
    pub capacity: Option<u64>,
    pub unit: &'static str,
    pub puts: u64,
    pub gets: u64,
    pub put_units: u64,
    pub get_units: u64,
    /// Of the time from the queue's first event to the end.
    pub full_share: Option<f64>,
    pub empty_share: Option<f64>,
    pub depth: DepthAnswer,
    /// Of the same time: between a loss and the next event that tells the depth. Depths and shares of that time are estimates.
    pub uncertain_share: Option<f64>,
    pub batch: BatchAnswer,
    pub residence_ns: crate::histogram::Times,
    pub signals_per_item: Option<f64>,
    pub items_per_s: Option<f64>,
    pub bytes_per_s: Option<f64>,
    pub wait_full_ns: u64,
    pub wait_empty_ns: u64,
    pub producers: Vec<String>,
    pub consumers: Vec<String>,
    /// Events lost by those who use it.
    pub lost: u64,
}

#[derive(Clone, Debug, Serialize)]
pub struct DepthAnswer {
    pub mean: Option<f64>,
    pub p50: Option<u64>,
    pub p99: Option<u64>,
    pub max: Option<u64>,
}

#[derive(Clone, Debug, Serialize)]
pub struct BatchAnswer {
    pub count: u64,
    pub mean: Option<f64>,
    pub p50: Option<u64>,
    pub p99: Option<u64>,
    pub max: Option<u64>,
}

impl DepthAnswer {
    pub(crate) fn of(depth: &Histogram) -> DepthAnswer {
        DepthAnswer { mean: depth.mean(), p50: depth.quantile(0.5), p99: depth.quantile(0.99), max: depth.max() }
    }
}

impl BatchAnswer {
    pub(crate) fn of(batch: &Histogram) -> BatchAnswer {
        BatchAnswer { count: batch.count(), mean: batch.mean(), p50: batch.quantile(0.5), p99: batch.quantile(0.99), max: batch.max() }
    }
}

#[derive(Debug, Default)]
pub struct Queues {
    queues: Vec<State>,
    /// Per thread: what it took of which queue since its last wait.
    taken: Vec<Vec<(QueueId, u64)>>,
    /// (sender, receiver) to submits.
    signals: IdMap<(u32, u32), u64>,
}

#[derive(Debug, Default)]
struct State {
    depth: Depth,
    puts: u64,
    gets: u64,
    put_units: u64,
    get_units: u64,
    producers: Vec<ActorId>,
    consumers: Vec<ActorId>,
    inside: VecDeque<(i64, u64)>,
    /// What was got when it was not there, and its put may follow at once.
    early: VecDeque<(i64, u64)>,
    residence: Histogram,
    batch: Histogram,
    first_ns: Option<i64>,
    /// Who put the newest token.
    last_producer: Option<ActorId>,
    /// First and last get.
    got_ns: Option<(i64, i64)>,
    /// When somebody found it empty for the first time since the last put.
    emptied_ns: Option<i64>,
}

impl State {
    /// Units of a put that were got before it.
    fn got_early(&mut self, t_ns: i64, count: u64) -> u64 {
        self.forget_early(t_ns);
        let mut left = count;
        while let Some((_, units)) = self.early.front_mut().filter(|_| left > 0) {
            let taken = left.min(*units);
            *units -= taken;
            left -= taken;
            if *units == 0 {
                self.early.pop_front();
            }
        }
        count - left
    }

    /// What was got too long ago to be of a put that comes now.
    fn forget_early(&mut self, t_ns: i64) {
        while self.early.front().is_some_and(|(got_ns, _)| t_ns.saturating_sub(*got_ns) > SOON_NS) {
            self.early.pop_front();
        }
    }
}

impl Observer for Queues {
    fn step(&mut self, scene: Scene<'_>, step: &Step, outcome: &Outcome) {
        match step.op {
            Op::Put { queue, count } => self.put(scene, step, queue, count),
            Op::Get { queue, count } => self.get(scene, step, queue, count),
            Op::Size { queue, count } => {
                let capacity = scene.capacity(queue);
                let state = self.state(queue, step.t_ns);
                state.depth.anchor(count, step.t_ns, capacity);
            }
            Op::WaitEmpty { queue } => {
                let capacity = scene.capacity(queue);
                let state = self.state(queue, step.t_ns);
                state.emptied_ns.get_or_insert(step.t_ns);
                // Without a capacity nothing else corrects a depth, and who alone takes knows what is left.
                if capacity.is_none() && state.consumers.iter().all(|&consumer| consumer == step.actor) {
                    state.depth.anchor_exactly(0, step.t_ns, None);
                } else {
                    state.depth.anchor(0, step.t_ns, capacity);
                }
                self.end_batch(step.actor);
            }
            Op::WaitFull { queue } => {
                let capacity = scene.capacity(queue);
                let state = self.state(queue, step.t_ns);
                if let Some(full) = capacity {
                    state.depth.anchor(full, step.t_ns, capacity);
                }
            }
            Op::Wait => self.end_batch(step.actor),
            Op::Receive { .. } => {
                self.end_batch(step.actor);
                if let Some(delivery) = outcome.delivery {
                    *self.signals.entry((delivery.sender.0, step.actor.0)).or_default() += delivery.merged;
                }
            }
            _ => {}
        }
    }

    fn loss(&mut self, scene: Scene<'_>, machine: Option<ActorId>, loss: &Loss) {
        let Some(machine) = machine else { return };
        if let Some(taken) = self.taken.get_mut(machine.0 as usize) {
            taken.clear();
        }
        for (at, state) in self.queues.iter_mut().enumerate() {
            if state.producers.contains(&machine) || state.consumers.contains(&machine) {
                state.depth.forget(loss.begin_ns, loss.end_ns, scene.capacity(QueueId(at as u32)));
                state.inside.clear();
                state.early.clear();
            }
        }
    }
}

impl Queues {
    fn state(&mut self, queue: QueueId, t_ns: i64) -> &mut State {
        let at = queue.0 as usize;
        if self.queues.len() <= at {
            self.queues.resize_with(at + 1, State::default);
        }
        let state = &mut self.queues[at];
        state.first_ns.get_or_insert(t_ns);
        state
    }

    fn put(&mut self, scene: Scene<'_>, step: &Step, queue: QueueId, count: u64) {
        let capacity = scene.capacity(queue);
        let state = self.state(queue, step.t_ns);
        state.puts += 1;
        state.last_producer = Some(step.actor);
        state.emptied_ns = None;
        state.put_units = state.put_units.saturating_add(count);
        if !state.producers.contains(&step.actor) {
            state.producers.push(step.actor);
        }
        state.depth.change(count.min(i64::MAX as u64) as i64, step.t_ns, capacity);
        let early = state.got_early(step.t_ns, count);
        if early == count && count > 0 {
            return;
        }
        if state.inside.len() == MOST_PORTIONS {
            state.inside.pop_front();
        }
        state.inside.push_back((step.t_ns, count - early));
    }

    fn get(&mut self, scene: Scene<'_>, step: &Step, queue: QueueId, count: u64) {
        let Shape { capacity, order, unit, .. } = scene.vocabulary.shape(queue);
        let state = self.state(queue, step.t_ns);
        state.gets += 1;
        state.get_units = state.get_units.saturating_add(count);
        let (first_get, _) = *state.got_ns.get_or_insert((step.t_ns, step.t_ns));
        state.got_ns = Some((first_get, step.t_ns));
        if !state.consumers.contains(&step.actor) {
            state.consumers.push(step.actor);
        }
        state.depth.change(-(count.min(i64::MAX as u64) as i64), step.t_ns, capacity);
        let mut left = count;
        while left > 0 {
            let portion = if order == Order::Lifo { state.inside.back_mut() } else { state.inside.front_mut() };
            let Some((put_ns, units)) = portion else { break };
            let taken = left.min(*units);
            // Bytes come in portions: a portion is one token, whatever its size.
            state.residence.record_weighted(since(*put_ns, step.t_ns), if unit == Unit::Bytes { 1 } else { taken });
            *units -= taken;
            left -= taken;
            if *units == 0 {
                if order == Order::Lifo {
                    state.inside.pop_back();
                } else {
                    state.inside.pop_front();
                }
            }
        }
        if left > 0 && state.early.len() < MOST_PORTIONS {
            state.forget_early(step.t_ns);
            state.early.push_back((step.t_ns, left));
        }
        let at = step.actor.0 as usize;
        if self.taken.len() <= at {
            self.taken.resize_with(at + 1, Vec::new);
        }
        let items = if unit == Unit::Bytes { 1 } else { count };
        match self.taken[at].iter_mut().find(|(known, _)| *known == queue) {
            Some((_, taken)) => *taken = taken.saturating_add(items),
            None => self.taken[at].push((queue, items)),
        }
    }

    fn end_batch(&mut self, machine: ActorId) {
        let Some(taken) = self.taken.get_mut(machine.0 as usize) else { return };
        for (queue, items) in taken.iter_mut().filter(|(_, items)| *items > 0) {
            if let Some(state) = self.queues.get_mut(queue.0 as usize) {
                state.batch.record(*items);
            }
            *items = 0;
        }
    }

    /// Portions that were put.
    pub fn puts(&self, queue: QueueId) -> u64 {
        self.queues.get(queue.0 as usize).map_or(0, |state| state.puts)
    }

    pub fn producers(&self, queue: QueueId) -> &[ActorId] {
        self.queues.get(queue.0 as usize).map_or(&[], |state| &state.producers)
    }

    pub fn consumers(&self, queue: QueueId) -> &[ActorId] {
        self.queues.get(queue.0 as usize).map_or(&[], |state| &state.consumers)
    }

    /// How long after its last step at `t_ns` the tokens of the queue's last producer were still being taken, and what is left would take at
    /// the pace until then.
    pub fn worked_off_after(&self, queue: QueueId, producer: ActorId, t_ns: i64) -> u64 {
        let Some(state) = self.queues.get(queue.0 as usize).filter(|state| state.last_producer == Some(producer)) else { return 0 };
        // Where somebody found it empty, it was worked off.
        if let Some(emptied_ns) = state.emptied_ns {
            return since(t_ns, emptied_ns);
        }
        let Some((first, last)) = state.got_ns else { return 0 };
        // What a probe told of the depth goes before what was counted: not everybody has a probe at each get. After a loss nobody knows what
        // is left.
        let told = state.depth.now().map(|left| left.min(state.put_units));
        let left = if state.depth.doubt_ns(last) == 0 { told.unwrap_or(state.put_units.saturating_sub(state.get_units)) } else { 0 };
        let taken = state.get_units.max(state.put_units - left).max(1);
        let rest = u128::from(since(first, last)) * u128::from(left) / u128::from(taken);
        // Beyond its own length a recording foretells nothing.
        let rest = u64::try_from(rest).unwrap_or(u64::MAX).min(since(first, last));
        since(t_ns, last).saturating_add(rest)
    }

    /// Shares of time nearly full and nearly empty up to `end_ns`: within an eighth of the capacity, since whoever waits is woken by portions.
    pub fn near(&self, queue: QueueId, capacity: Option<u64>, end_ns: i64) -> (Option<f64>, Option<f64>) {
        let Some(state) = self.queues.get(queue.0 as usize) else { return (None, None) };
        let depth = state.depth.finish(end_ns, capacity);
        let margin = capacity.unwrap_or(0) / 8;
        let full = capacity.and_then(|capacity| depth.share_from(capacity - margin));
        (full, depth.share_from(margin + 1).map(|share| 1.0 - share))
    }

    /// Shares of time full and empty up to `end_ns`.
    pub fn fullness(&self, queue: QueueId, capacity: Option<u64>, end_ns: i64) -> (Option<f64>, Option<f64>) {
        let Some(state) = self.queues.get(queue.0 as usize) else { return (None, None) };
        let depth = state.depth.finish(end_ns, capacity);
        (capacity.and_then(|capacity| depth.share_from(capacity)), depth.share_from(1).map(|share| 1.0 - share))
    }

    pub fn answer(&self, scene: Scene<'_>, end_ns: i64, lost_of: &dyn Fn(ActorId) -> u64) -> Vec<QueueAnswer> {
        use longpole_model::activity::State as S;
        let names = scene.names();
        let name_all = |machines: &[ActorId]| -> Vec<String> {
            machines.iter().filter_map(|machine| names.get(machine.0 as usize).cloned()).collect()
        };
        let mut out = Vec::new();
        for (at, state) in self.queues.iter().enumerate() {
            let Some(first_ns) = state.first_ns else { continue };
            let queue = QueueId(at as u32);
            let Shape { capacity, unit, .. } = scene.vocabulary.shape(queue);
            let depth = state.depth.finish(end_ns, capacity);
            let waited = |wanted: S| -> u64 {
                let cells = scene.activity.cells().iter().zip(scene.activity.totals());
                cells.filter(|(cell, _)| cell.state == wanted).map(|(_, total)| total.ns).sum()
            };
            // What was taken since the last wait is a batch, too.
            let mut batch = state.batch.clone();
            for (_, items) in self.taken.iter().flatten().filter(|(of, items)| *of == queue && *items > 0) {
                batch.record(*items);
            }
            let signals: u64 = self
                .signals
                .iter()
                .filter(|((sender, receiver), _)| {
                    sender != receiver && state.producers.contains(&ActorId(*sender)) && state.consumers.contains(&ActorId(*receiver))
                })
                .map(|(_, submits)| *submits)
                .sum();
            let units = state.put_units.max(state.get_units);
            let items = if unit == Unit::Bytes { state.puts.max(state.gets) } else { units };
            let seconds = since(first_ns, end_ns) as f64 / 1e9;
            let rate = |count: u64| (seconds > 0.0).then(|| count as f64 / seconds);
            let users = state.producers.iter().chain(state.consumers.iter().filter(|user| !state.producers.contains(user)));
            let lost = users.map(|&machine| lost_of(machine)).fold(0, u64::saturating_add);
            out.push(QueueAnswer {
                name: scene.vocabulary.program_queue_name(queue).to_owned(),
                capacity: capacity,
                unit: if unit == Unit::Bytes { "bytes" } else { "items" },
                puts: state.puts,
                gets: state.gets,
                put_units: state.put_units,
                get_units: state.get_units,
                full_share: capacity.and_then(|capacity| depth.share_from(capacity)),
                empty_share: depth.share_from(1).map(|share| 1.0 - share),
                depth: DepthAnswer::of(&depth),
                uncertain_share: (seconds > 0.0).then(|| (state.depth.doubt_ns(end_ns) as f64 / 1e9 / seconds).min(1.0)),
                batch: BatchAnswer::of(&batch),
                residence_ns: state.residence.times(),
                signals_per_item: (items > 0 && signals > 0).then(|| signals as f64 / items as f64),
                items_per_s: rate(items),
                bytes_per_s: if unit == Unit::Bytes { rate(units) } else { None },
                wait_full_ns: waited(S::WaitFull(queue)),
                wait_empty_ns: waited(S::WaitEmpty(queue)),
                producers: name_all(&state.producers),
                consumers: name_all(&state.consumers),
                lost,
            });
        }
        out.sort_by(|a, b| a.name.cmp(&b.name));
        out
    }
}
