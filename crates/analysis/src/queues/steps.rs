//! Queues as probes report them.

use super::{BatchAnswer, Batches, Counted, QueueAnswer};
use crate::stats::histogram::since;
use crate::stats::series::SeriesBins;
use crate::stats::value_log::LogFile;
use crate::step_pass::{Observer, Scene};
use longpole_model::actors::ActorId;
use longpole_model::hash::IdMap;
use longpole_model::interaction::QueueId;
use longpole_model::step::{Op, Step, SOON_NS};
use longpole_model::system::activity::{Outcome, State};
use longpole_model::tokens::{Order, Shape, Unit};
use longpole_trace::event::Loss;
use std::collections::VecDeque;
use std::io;

/// Largest number of portions of a queue whose residence is followed.
const MAX_PORTIONS: usize = 1 << 16;

/// Largest number of queues whose depths over time are kept.
const MAX_SERIES: usize = 1024;

/// A queue's statistics with its depth over time; `None` if that was not kept.
#[derive(Clone, Debug)]
pub struct QueueSeries {
    pub id: QueueId,
    pub queue: QueueAnswer,
    pub depths: Option<SeriesBins>,
}

/// The statistics of all queues that probes report; it sees each step in the order of time.
#[derive(Debug, Default)]
pub struct Queues {
    queues: Vec<ProbedQueue>,
    batches: Batches,
    /// Number of submits by (sender, receiver).
    signals: IdMap<(u32, u32), u64>,
    keeps_series: bool,
    /// File of the logs of depths.
    log_file: LogFile,
}

#[derive(Debug, Default)]
struct ProbedQueue {
    counted: Counted<ActorId>,
    /// Portions in the queue: time of the put, and number of units left.
    portions: VecDeque<(i64, u64)>,
    /// Portions that were got before their put was reported, which may follow directly.
    early: VecDeque<(i64, u64)>,
    first_ns: Option<i64>,
    /// The producer of the newest token.
    last_producer: Option<ActorId>,
    /// Times of the first and the last get.
    got_ns: Option<(i64, i64)>,
    /// Time at which a consumer found the queue empty for the first time since the last put.
    emptied_ns: Option<i64>,
}

impl ProbedQueue {
    /// Returns the number of units of a put that were got before it.
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

    /// Forgets early gets that are too old for a put that comes now.
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
                let state = self.queue_mut(queue, step.t_ns);
                state.counted.depth.anchor(count, step.t_ns, capacity);
            }
            Op::WaitEmpty { queue } => {
                let capacity = scene.capacity(queue);
                let state = self.queue_mut(queue, step.t_ns);
                state.emptied_ns.get_or_insert(step.t_ns);
                // Without a capacity nothing else corrects the depth, and the only consumer knows
                // what is left.
                if capacity.is_none() && state.counted.consumers.iter().all(|&consumer| consumer == step.actor) {
                    state.counted.depth.anchor_exactly(0, step.t_ns, None);
                } else {
                    state.counted.depth.anchor(0, step.t_ns, capacity);
                }
                self.end_batch(step.actor);
            }
            Op::WaitFull { queue } => {
                let capacity = scene.capacity(queue);
                let state = self.queue_mut(queue, step.t_ns);
                if let Some(full) = capacity {
                    state.counted.depth.anchor(full, step.t_ns, capacity);
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

    fn loss(&mut self, scene: Scene<'_>, actor: Option<ActorId>, loss: &Loss) {
        let Some(actor) = actor else { return };
        self.batches.forget(actor.0);
        for (at, state) in self.queues.iter_mut().enumerate() {
            if state.counted.producers.contains(&actor) || state.counted.consumers.contains(&actor) {
                state.counted.depth.forget(loss.begin_ns, loss.end_ns, scene.capacity(QueueId(at as u32)));
                state.portions.clear();
                state.early.clear();
            }
        }
    }
}

impl Queues {
    fn queue_mut(&mut self, queue: QueueId, t_ns: i64) -> &mut ProbedQueue {
        let at = queue.0 as usize;
        if self.queues.len() <= at {
            self.queues.resize_with(at + 1, ProbedQueue::default);
        }
        let state = &mut self.queues[at];
        if state.first_ns.is_none() {
            state.first_ns = Some(t_ns);
            if self.keeps_series && at < MAX_SERIES {
                state.counted.depth.keep_series(t_ns, &self.log_file);
            }
        }
        state
    }

    fn put(&mut self, scene: Scene<'_>, step: &Step, queue: QueueId, count: u64) {
        let capacity = scene.capacity(queue);
        let state = self.queue_mut(queue, step.t_ns);
        state.last_producer = Some(step.actor);
        state.emptied_ns = None;
        state.counted.put(step.actor, count, step.t_ns, capacity);
        let early = state.got_early(step.t_ns, count);
        if early == count && count > 0 {
            return;
        }
        if state.portions.len() == MAX_PORTIONS {
            state.portions.pop_front();
        }
        state.portions.push_back((step.t_ns, count - early));
    }

    fn get(&mut self, scene: Scene<'_>, step: &Step, queue: QueueId, count: u64) {
        let Shape { capacity, order, unit, .. } = scene.vocabulary.shape(queue);
        let state = self.queue_mut(queue, step.t_ns);
        let (first_get, _) = *state.got_ns.get_or_insert((step.t_ns, step.t_ns));
        state.got_ns = Some((first_get, step.t_ns));
        state.counted.get(step.actor, count, step.t_ns, capacity);
        let mut left = count;
        while left > 0 {
            let portion = if order == Order::Lifo { state.portions.back_mut() } else { state.portions.front_mut() };
            let Some((put_ns, units)) = portion else { break };
            let taken = left.min(*units);
            // Bytes come in portions: a portion is one token, whatever its size.
            state.counted.residence.record_weighted(since(*put_ns, step.t_ns), if unit == Unit::Bytes { 1 } else { taken });
            *units -= taken;
            left -= taken;
            if *units == 0 {
                if order == Order::Lifo {
                    state.portions.pop_back();
                } else {
                    state.portions.pop_front();
                }
            }
        }
        if left > 0 && state.early.len() < MAX_PORTIONS {
            state.forget_early(step.t_ns);
            state.early.push_back((step.t_ns, left));
        }
        self.batches.take(step.actor.0, queue, if unit == Unit::Bytes { 1 } else { count });
    }

    fn end_batch(&mut self, actor: ActorId) {
        let queues = &mut self.queues;
        self.batches.end(actor.0, |queue, items| {
            if let Some(state) = queues.get_mut(queue.0 as usize) {
                state.counted.batch.record(items);
            }
        });
    }

    /// Number of portions that were put.
    pub fn puts(&self, queue: QueueId) -> u64 {
        self.queues.get(queue.0 as usize).map_or(0, |state| state.counted.puts)
    }

    /// Returns the threads that have put into the queue, in the order of their first put.
    pub fn producers(&self, queue: QueueId) -> &[ActorId] {
        self.queues.get(queue.0 as usize).map_or(&[], |state| &state.counted.producers)
    }

    /// Returns the threads that have taken from the queue, in the order of their first get.
    pub fn consumers(&self, queue: QueueId) -> &[ActorId] {
        self.queues.get(queue.0 as usize).map_or(&[], |state| &state.counted.consumers)
    }

    /// Returns the time in ns that the queue's last producer left to others: from its last step at
    /// `t_ns` to the last get, plus the time for the remaining tokens at the pace until then.
    pub fn backlog_ns(&self, queue: QueueId, producer: ActorId, t_ns: i64) -> u64 {
        let Some(state) = self.queues.get(queue.0 as usize).filter(|state| state.last_producer == Some(producer)) else { return 0 };
        // A queue that was found empty has been worked off.
        if let Some(emptied_ns) = state.emptied_ns {
            return since(t_ns, emptied_ns);
        }
        let Some((first, last)) = state.got_ns else { return 0 };
        // A depth reported by a probe is preferred to the counts, since not every get may have a
        // probe. After a loss the remaining number is unknown.
        let depth = state.counted.depth.now().map(|left| left.min(state.counted.put_units));
        let left = if state.counted.depth.uncertain_ns(last) == 0 {
            depth.unwrap_or(state.counted.put_units.saturating_sub(state.counted.get_units))
        } else {
            0
        };
        let taken = state.counted.get_units.max(state.counted.put_units - left).max(1);
        let rest = u128::from(since(first, last)) * u128::from(left) / u128::from(taken);
        // The estimate is limited to the length of the recording.
        let rest = u64::try_from(rest).unwrap_or(u64::MAX).min(since(first, last));
        since(t_ns, last).saturating_add(rest)
    }

    /// Returns the shares of time until `end_ns` in which the queue was nearly full and nearly
    /// empty: within an eighth of the capacity, since waiting threads are woken by portions.
    pub fn near(&self, queue: QueueId, capacity: Option<u64>, end_ns: i64) -> (Option<f64>, Option<f64>) {
        let Some(state) = self.queues.get(queue.0 as usize) else { return (None, None) };
        let depth = state.counted.depth.finish(end_ns, capacity);
        let margin = capacity.unwrap_or(0) / 8;
        let full = capacity.and_then(|capacity| depth.share_from(capacity - margin));
        (full, depth.share_from(margin + 1).map(|share| 1.0 - share))
    }

    /// Returns the shares of time until `end_ns` in which the queue was full and empty.
    pub fn fullness(&self, queue: QueueId, capacity: Option<u64>, end_ns: i64) -> (Option<f64>, Option<f64>) {
        let Some(state) = self.queues.get(queue.0 as usize) else { return (None, None) };
        let depth = state.counted.depth.finish(end_ns, capacity);
        (capacity.and_then(|capacity| depth.share_from(capacity)), depth.share_from(1).map(|share| 1.0 - share))
    }

    /// Keeps the depths over time from now on.
    pub fn keep_series(&mut self) {
        self.keeps_series = true;
    }

    /// Returns the queues whose depths over time were kept.
    pub fn with_depths(&self) -> impl Iterator<Item = QueueId> + '_ {
        let kept = self.queues.iter().zip(0..).filter(|(state, _)| state.counted.depth.keeps_series());
        kept.map(|(_, at)| QueueId(at))
    }

    /// Passes the time in ns and the depth of each change of a queue, if they were kept.
    ///
    /// # Errors
    ///
    /// If the file of the log cannot be read.
    pub fn each_change(&self, queue: QueueId, capacity: Option<u64>, visit: &mut dyn FnMut(i64, f64)) -> io::Result<()> {
        self.queues.get(queue.0 as usize).map_or(Ok(()), |state| state.counted.depth.each_change(capacity, visit))
    }

    /// Returns the statistics until `end_ns`, by name, with the depths over time if they were kept.
    /// `lost_of` returns a thread's lost events.
    pub fn answer(&self, scene: Scene<'_>, end_ns: i64, lost_of: &dyn Fn(ActorId) -> u64) -> Vec<QueueSeries> {
        let names = scene.names();
        let name_all = |actors: &[ActorId]| actors.iter().filter_map(|actor| names.get(actor.0 as usize).cloned()).collect();
        let mut out = Vec::new();
        for (at, state) in self.queues.iter().enumerate() {
            let Some(first_ns) = state.first_ns else { continue };
            let queue = QueueId(at as u32);
            let counted = &state.counted;
            let shape = scene.vocabulary.shape(queue);
            let waited = |wanted: State| -> u64 {
                let cells = scene.activity.cells().iter().zip(scene.activity.totals());
                cells.filter(|(cell, _)| cell.state == wanted).map(|(_, total)| total.ns).sum()
            };
            // The units taken since the last wait are a batch, too.
            let mut batch = counted.batch.clone();
            self.batches.open(queue).for_each(|items| batch.record(items));
            let between = |sender: u32, receiver: u32| {
                sender != receiver && counted.producers.contains(&ActorId(sender)) && counted.consumers.contains(&ActorId(receiver))
            };
            let signals = self.signals.iter().filter(|((sender, receiver), _)| between(*sender, *receiver));
            let signals: u64 = signals.map(|(_, submits)| *submits).sum();
            let items = counted.items(shape.unit);
            let users = counted.producers.iter().chain(counted.consumers.iter().filter(|user| !counted.producers.contains(user)));
            let answer = QueueAnswer {
                batch: BatchAnswer::of(&batch),
                signals_per_item: (items > 0 && signals > 0).then(|| signals as f64 / items as f64),
                wait_full_ns: waited(State::WaitFull(queue)),
                wait_empty_ns: waited(State::WaitEmpty(queue)),
                lost: users.map(|&actor| lost_of(actor)).fold(0, u64::saturating_add),
                ..counted.answer(scene.vocabulary.program_queue_name(queue), shape, (first_ns, end_ns), name_all)
            };
            out.push(QueueSeries { id: queue, queue: answer, depths: counted.depth.series(end_ns, shape.capacity) });
        }
        out.sort_by(|a, b| a.queue.name.cmp(&b.queue.name));
        out
    }
}
