//! Stages: the work of each thread per item that it handles. The rules of findings judge these
//! facts.
//!
//! An *item* of a stage is a token of its main input queue, or of its main output queue if it has
//! no input. A *batch* is the work of a stage between two returns to its wait. The cost of a signal
//! is the time from its submit to the stage's next probe. The cost of leaving and re-entering the
//! loop is the time from a submit to itself to the next token that the stage takes.
//!
//! Example: a worker that takes 8 items from `jobs` and then waits again has handled one batch of
//! 8.

pub mod consumer;
pub mod left_out;
pub(crate) mod pools;
pub mod step_block;

use crate::stats::histogram::Histogram;
use crate::step_pass::{Observer, Scene};
use longpole_model::actors::ActorId;
use longpole_model::hash::IdMap;
use longpole_model::interaction::QueueId;
use longpole_model::names::NameId;
use longpole_model::step::{Op, Step};
use longpole_model::system::activity::{Outcome, State, Total};
use longpole_trace::event::Loss;

/// If at most one in this number of items is within a batch, signals per item cannot be
/// distinguished from signals per batch.
const MIN_INNER_PART: u64 = 20;
/// An input with at least one item per this number of items of the largest input may be the main
/// one: of inputs with similar numbers of items, the number of gets decides.
const MIN_MAIN_PART: u64 = 2;

/// Collects the facts about stages during the pass.
#[derive(Debug, Default)]
pub struct Stages {
    stages: Vec<Stage>,
    depths: Vec<i64>,
}

/// The facts about one thread as a stage.
#[derive(Debug, Default)]
pub struct Stage {
    pub inputs: Vec<Input>,
    pub outputs: Vec<Output>,
    pub calls: IdMap<NameId, u64>,
    pub signals: Vec<Signal>,
    /// Index of each context's signal.
    signal_places: IdMap<NameId, usize>,
    /// Time from a submit to itself to the next token.
    pub reentry: Total,
    /// Cost of signals to others, by the state in which they were sent.
    pub signalling: IdMap<State, Total>,
    /// Number of signals to itself, by the state in which they were sent.
    pub resubmits: IdMap<State, u64>,
    /// Time right before a token was taken, and right before and after one was put. A thread
    /// without probes for its waits waits there.
    pub before_get_ns: u64,
    pub before_put_ns: u64,
    pub after_put_ns: u64,
    last: Last,
    resubmitted: bool,
    returning: bool,
}

/// An input queue of a stage.
#[derive(Debug, Default)]
pub struct Input {
    pub queue: Option<QueueId>,
    /// Number of items: units of the queue, or gets if the unit is bytes.
    pub items: u64,
    pub gets: u64,
    pub batches: u64,
    /// Batches at the end of which the stage signalled itself.
    pub resubmitted: Resubmitted,
    /// Number of items in batches with more than one item, without the last of each batch: signals
    /// between them are not signals per batch.
    pub inner_items: u64,
    current: u64,
    holds_more: bool,
}

/// Batches after which a stage signalled itself.
#[derive(Debug, Default)]
pub struct Resubmitted {
    pub batches: u64,
    pub sizes: Histogram,
    /// Number of batches that ended while the queue held more items.
    pub with_more: u64,
}

/// An output queue of a stage.
#[derive(Debug)]
pub struct Output {
    pub queue: QueueId,
    pub items: u64,
}

/// Signals of a stage to one context.
#[derive(Debug)]
pub struct Signal {
    pub context: NameId,
    pub submits: u64,
    pub self_sent: u64,
    pub cost: Total,
    /// Number of submits beyond the first of a batch, per input (in the same order).
    pub inner: Vec<u64>,
    current: u64,
}

/// The last step of a stage, whose cost the next step shows.
#[derive(Clone, Copy, Debug, Default)]
enum Last {
    #[default]
    Other,
    /// Index of the signal.
    Submit(usize),
    Put,
}

impl Observer for Stages {
    fn step(&mut self, scene: Scene<'_>, step: &Step, outcome: &Outcome) {
        let at = step.actor.0 as usize;
        if self.stages.len() <= at {
            self.stages.resize_with(at + 1, Stage::default);
        }
        if self.depths.len() < scene.vocabulary.queue_count() {
            self.depths.resize(scene.vocabulary.queue_count(), 0);
        }
        let stage = &mut self.stages[at];
        match stage.last {
            Last::Submit(signal) if !outcome.state.is_idle() => stage.signalled(signal, outcome),
            Last::Put => stage.after_put_ns += outcome.spent_ns,
            _ if stage.returning && !outcome.state.is_idle() => stage.reentry.add(outcome.spent_ns),
            _ => {}
        }
        stage.last = Last::Other;
        match step.op {
            Op::Get { queue, count } => {
                let depth = &mut self.depths[queue.0 as usize];
                *depth = (*depth).saturating_sub_unsigned(count).max(0);
                let items = if scene.is_of_bytes(queue) { 1 } else { count };
                stage.before_get_ns += outcome.spent_ns;
                stage.get(queue, items);
            }
            Op::Put { queue, count } => {
                let capacity = scene.capacity(queue).unwrap_or(u64::MAX).min(i64::MAX as u64) as i64;
                let depth = &mut self.depths[queue.0 as usize];
                *depth = (*depth).saturating_add_unsigned(count).min(capacity);
                let items = if scene.is_of_bytes(queue) { 1 } else { count };
                stage.before_put_ns += outcome.spent_ns;
                stage.last = Last::Put;
                match stage.outputs.iter_mut().find(|output| output.queue == queue) {
                    Some(output) => output.items += items,
                    None => stage.outputs.push(Output { queue, items }),
                }
            }
            Op::Size { queue, count } => self.depths[queue.0 as usize] = count.min(i64::MAX as u64) as i64,
            Op::WaitEmpty { queue } => {
                self.depths[queue.0 as usize] = 0;
                stage.end_batch();
            }
            Op::Wait | Op::Receive { .. } => stage.end_batch(),
            Op::Call { name, .. } => *stage.calls.entry(name).or_default() += 1,
            Op::Submit { context, count } => {
                stage.submit(context, count.max(1), outcome);
                if outcome.self_sent {
                    let depths = &self.depths;
                    for input in &mut stage.inputs {
                        input.holds_more = input.queue.is_some_and(|queue| depths[queue.0 as usize] > 0);
                    }
                }
            }
            _ => {}
        }
    }

    fn loss(&mut self, _scene: Scene<'_>, actor: Option<ActorId>, _loss: &Loss) {
        if let Some(stage) = actor.and_then(|actor| self.stages.get_mut(actor.0 as usize)) {
            stage.inputs.iter_mut().for_each(|input| input.current = 0);
            stage.signals.iter_mut().for_each(|signal| signal.current = 0);
            (stage.last, stage.resubmitted, stage.returning) = (Last::Other, false, false);
        }
    }
}

impl Stages {
    pub fn of(&self, actor: ActorId) -> Option<&Stage> {
        self.stages.get(actor.0 as usize)
    }
}

impl Stage {
    /// Returns the counts of several stages that do the same, without their times.
    pub fn sum<'a>(stages: impl Iterator<Item = &'a Stage>) -> Stage {
        let mut sum = Stage::default();
        for stage in stages {
            let mut places = Vec::new();
            for input in &stage.inputs {
                let place = sum.input(input.queue);
                places.push(place);
                let known = &mut sum.inputs[place];
                known.items = known.items.saturating_add(input.items);
                known.gets += input.gets;
                known.batches += input.batches;
                known.inner_items += input.inner_items;
                known.resubmitted.batches += input.resubmitted.batches;
                known.resubmitted.with_more += input.resubmitted.with_more;
                input.resubmitted.sizes.buckets().for_each(|(size, count)| known.resubmitted.sizes.record_weighted(size, count));
            }
            for output in &stage.outputs {
                match sum.outputs.iter_mut().find(|known| known.queue == output.queue) {
                    Some(known) => known.items = known.items.saturating_add(output.items),
                    None => sum.outputs.push(Output { ..*output }),
                }
            }
            for (&call, &count) in &stage.calls {
                *sum.calls.entry(call).or_default() += count;
            }
            for signal in &stage.signals {
                let place = sum.signal(signal.context);
                let known = &mut sum.signals[place];
                known.submits += signal.submits;
                known.self_sent += signal.self_sent;
                for (&place, &inner) in places.iter().zip(&signal.inner) {
                    if known.inner.len() <= place {
                        known.inner.resize(place + 1, 0);
                    }
                    known.inner[place] += inner;
                }
            }
        }
        sum
    }

    /// Returns the main input: of the inputs with most items, the one with the most gets.
    pub fn main_input(&self) -> Option<usize> {
        let most = self.inputs.iter().map(|input| input.items).max()?;
        (0..self.inputs.len()).filter(|&at| self.inputs[at].items >= most / MIN_MAIN_PART).max_by_key(|&at| self.inputs[at].gets)
    }

    pub fn items(&self) -> u64 {
        match self.main_input() {
            Some(at) => self.inputs[at].items,
            None => self.outputs.iter().map(|output| output.items).max().unwrap_or(0),
        }
    }

    fn get(&mut self, queue: QueueId, items: u64) {
        self.returning = false;
        let at = self.input(Some(queue));
        let input = &mut self.inputs[at];
        input.items = input.items.saturating_add(items);
        input.gets += 1;
        input.current = input.current.saturating_add(items);
    }

    fn input(&mut self, queue: Option<QueueId>) -> usize {
        self.inputs.iter().position(|input| input.queue == queue).unwrap_or_else(|| {
            self.inputs.push(Input { queue, ..Input::default() });
            self.inputs.len() - 1
        })
    }

    fn signal(&mut self, context: NameId) -> usize {
        let at = *self.signal_places.entry(context).or_insert(self.signals.len());
        if at == self.signals.len() {
            self.signals.push(Signal { context, submits: 0, self_sent: 0, cost: Total::default(), inner: Vec::new(), current: 0 });
        }
        at
    }

    fn signalled(&mut self, signal: usize, outcome: &Outcome) {
        self.signals[signal].cost.add(outcome.spent_ns);
        self.signalling.entry(outcome.state).or_default().add(outcome.spent_ns);
    }

    /// Returns how often the most frequent signal is sent between the items of one batch, per such
    /// item. Returns `None` if there are too few items within batches to distinguish signals per
    /// item from signals per batch.
    pub fn inner_signals_per_item(&self) -> Option<f64> {
        let main = self.main_input()?;
        let items = self.inputs[main].inner_items;
        let most = self.signals.iter().filter_map(|signal| signal.inner.get(main)).max().copied().unwrap_or(0);
        (items > self.items() / MIN_INNER_PART).then(|| most as f64 / items as f64)
    }

    fn submit(&mut self, context: NameId, count: u64, outcome: &Outcome) {
        let at = self.signal(context);
        let signal = &mut self.signals[at];
        signal.submits += count;
        if outcome.self_sent {
            signal.self_sent += count;
            *self.resubmits.entry(outcome.state).or_default() += 1;
            self.resubmitted = true;
            self.returning = true;
        } else {
            signal.current += count;
            self.last = Last::Submit(at);
        }
    }

    fn end_batch(&mut self) {
        for (at, input) in self.inputs.iter_mut().enumerate() {
            let items = std::mem::take(&mut input.current);
            if items == 0 {
                continue;
            }
            input.batches += 1;
            if items > 1 {
                input.inner_items += items - 1;
                for signal in self.signals.iter_mut().filter(|signal| signal.current > 1) {
                    if signal.inner.len() <= at {
                        signal.inner.resize(at + 1, 0);
                    }
                    signal.inner[at] += signal.current - 1;
                }
            }
            if self.resubmitted {
                let ended = &mut input.resubmitted;
                ended.batches += 1;
                ended.sizes.record(items);
                ended.with_more += u64::from(input.holds_more);
            }
        }
        self.resubmitted = false;
        self.signals.iter_mut().for_each(|signal| signal.current = 0);
    }
}
