//! Queues: how deep, how often full and empty, in what portions they are emptied, how long a token stays.
//!
//! Depth is puts minus gets, weighted by time. Where a recording began with tokens already inside, the depth is known only up to an
//! offset: it is kept relative, and the offset comes from a `size` probe, from a wait (a queue somebody waits on is empty,
//! or full), or from the lowest depth seen, which cannot have been below zero. Probes on both sides of a queue are not atomic
//! with it, so a depth may be off by the tokens in somebody's hands for a moment; the depth is corrected only where it is off by
//! more than that, and after a loss.

use crate::histogram::Histogram;
use crate::latency::since;
use crate::session::{Observer, Scene};
use longpole_model::activity::Outcome;
use longpole_model::hash::IdMap;
use longpole_model::step::{MachineId, Op, QueueId, Step};
use longpole_model::system::Queue;
use longpole_trace::event::Loss;
use serde::Serialize;
use std::collections::VecDeque;

/// Portions in a queue beyond this are not followed to their end.
const MOST_PORTIONS: usize = 1 << 16;
const MOST_DEPTHS: usize = 4096;
/// The share of time below which a negative depth is a race between probes and not an unknown beginning.
const RACE_SHARE: f64 = 0.01;

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
    producers: Vec<MachineId>,
    consumers: Vec<MachineId>,
    inside: VecDeque<(i64, u64)>,
    residence: Histogram,
    batch: Histogram,
    first_ns: Option<i64>,
}

impl Observer for Queues {
    fn step(&mut self, scene: Scene<'_>, step: &Step, outcome: &Outcome) {
        match step.op {
            Op::Put { queue, count } => self.put(scene, step, queue, count),
            Op::Get { queue, count } => self.get(scene, step, queue, count),
            Op::Size { queue, count } => {
                let described = &scene.system.queues[queue.0 as usize];
                let state = self.state(queue, step.t_ns);
                state.depth.anchor(count, step.t_ns, described.capacity);
            }
            Op::WaitEmpty { queue } => {
                let described = &scene.system.queues[queue.0 as usize];
                self.state(queue, step.t_ns).depth.anchor(0, step.t_ns, described.capacity);
                self.end_batch(step.machine);
            }
            Op::WaitFull { queue } => {
                let described = &scene.system.queues[queue.0 as usize];
                let state = self.state(queue, step.t_ns);
                if let Some(capacity) = described.capacity {
                    state.depth.anchor(capacity, step.t_ns, described.capacity);
                }
            }
            Op::Wait => self.end_batch(step.machine),
            Op::Receive { .. } => {
                self.end_batch(step.machine);
                if let Some(delivery) = outcome.delivery {
                    *self.signals.entry((delivery.sender.0, step.machine.0)).or_default() += delivery.merged;
                }
            }
            _ => {}
        }
    }

    fn loss(&mut self, _scene: Scene<'_>, machine: Option<MachineId>, loss: &Loss) {
        let Some(machine) = machine else { return };
        if let Some(taken) = self.taken.get_mut(machine.0 as usize) {
            taken.clear();
        }
        for state in &mut self.queues {
            if state.producers.contains(&machine) || state.consumers.contains(&machine) {
                state.depth.forget(loss.end_ns);
                state.inside.clear();
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
        let capacity = scene.system.queues[queue.0 as usize].capacity;
        let state = self.state(queue, step.t_ns);
        state.puts += 1;
        state.put_units = state.put_units.saturating_add(count);
        if !state.producers.contains(&step.machine) {
            state.producers.push(step.machine);
        }
        state.depth.change(count.min(i64::MAX as u64) as i64, step.t_ns, capacity);
        if state.inside.len() == MOST_PORTIONS {
            state.inside.pop_front();
        }
        state.inside.push_back((step.t_ns, count));
    }

    fn get(&mut self, scene: Scene<'_>, step: &Step, queue: QueueId, count: u64) {
        let described: &Queue = &scene.system.queues[queue.0 as usize];
        let state = self.state(queue, step.t_ns);
        state.gets += 1;
        state.get_units = state.get_units.saturating_add(count);
        if !state.consumers.contains(&step.machine) {
            state.consumers.push(step.machine);
        }
        state.depth.change(-(count.min(i64::MAX as u64) as i64), step.t_ns, described.capacity);
        let mut left = count;
        while left > 0 {
            let portion = if described.lifo { state.inside.back_mut() } else { state.inside.front_mut() };
            let Some((put_ns, units)) = portion else { break };
            let taken = left.min(*units);
            // Bytes come in portions: a portion is one token, whatever its size.
            state.residence.record_weighted(since(*put_ns, step.t_ns), if described.bytes { 1 } else { taken });
            *units -= taken;
            left -= taken;
            if *units == 0 {
                if described.lifo {
                    state.inside.pop_back();
                } else {
                    state.inside.pop_front();
                }
            }
        }
        let at = step.machine.0 as usize;
        if self.taken.len() <= at {
            self.taken.resize_with(at + 1, Vec::new);
        }
        let items = if described.bytes { 1 } else { count };
        match self.taken[at].iter_mut().find(|(known, _)| *known == queue) {
            Some((_, taken)) => *taken = taken.saturating_add(items),
            None => self.taken[at].push((queue, items)),
        }
    }

    fn end_batch(&mut self, machine: MachineId) {
        let Some(taken) = self.taken.get_mut(machine.0 as usize) else { return };
        for (queue, items) in taken.iter_mut().filter(|(_, items)| *items > 0) {
            if let Some(state) = self.queues.get_mut(queue.0 as usize) {
                state.batch.record(*items);
            }
            *items = 0;
        }
    }

    pub fn producers(&self, queue: QueueId) -> &[MachineId] {
        self.queues.get(queue.0 as usize).map_or(&[], |state| &state.producers)
    }

    pub fn consumers(&self, queue: QueueId) -> &[MachineId] {
        self.queues.get(queue.0 as usize).map_or(&[], |state| &state.consumers)
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

    pub fn answer(&self, scene: Scene<'_>, end_ns: i64, lost_of: &dyn Fn(MachineId) -> u64) -> Vec<QueueAnswer> {
        use longpole_model::activity::State as S;
        let names = scene.system.machine_names();
        let name_all = |machines: &[MachineId]| -> Vec<String> {
            machines.iter().filter_map(|machine| names.get(machine.0 as usize).cloned()).collect()
        };
        let mut out = Vec::new();
        for (at, state) in self.queues.iter().enumerate() {
            let Some(first_ns) = state.first_ns else { continue };
            let queue = QueueId(at as u32);
            let described = &scene.system.queues[at];
            let depth = state.depth.finish(end_ns, described.capacity);
            let waited = |wanted: S| -> u64 {
                let cells = scene.activity.cells().iter().zip(scene.activity.totals());
                cells.filter(|(cell, _)| cell.state == wanted).map(|(_, total)| total.ns).sum()
            };
            let signals: u64 = self
                .signals
                .iter()
                .filter(|((sender, receiver), _)| {
                    sender != receiver
                        && state.producers.contains(&MachineId(*sender))
                        && state.consumers.contains(&MachineId(*receiver))
                })
                .map(|(_, submits)| *submits)
                .sum();
            let units = state.put_units.max(state.get_units);
            let items = if described.bytes { state.puts.max(state.gets) } else { units };
            let seconds = since(first_ns, end_ns) as f64 / 1e9;
            let rate = |count: u64| (seconds > 0.0).then(|| count as f64 / seconds);
            let users = state.producers.iter().chain(state.consumers.iter().filter(|user| !state.producers.contains(user)));
            let lost = users.map(|&machine| lost_of(machine)).sum();
            out.push(QueueAnswer {
                name: scene.system.queue_name(queue).to_owned(),
                capacity: described.capacity,
                unit: if described.bytes { "bytes" } else { "items" },
                puts: state.puts,
                gets: state.gets,
                put_units: state.put_units,
                get_units: state.get_units,
                full_share: described.capacity.and_then(|capacity| depth.share_from(capacity)),
                empty_share: depth.share_from(1).map(|share| 1.0 - share),
                depth: DepthAnswer {
                    mean: depth.mean(),
                    p50: depth.quantile(0.5),
                    p99: depth.quantile(0.99),
                    max: depth.max(),
                },
                batch: BatchAnswer {
                    count: state.batch.count(),
                    mean: state.batch.mean(),
                    p50: state.batch.quantile(0.5),
                    p99: state.batch.quantile(0.99),
                    max: state.batch.max(),
                },
                residence_ns: state.residence.times(),
                signals_per_item: (items > 0 && signals > 0).then(|| signals as f64 / items as f64),
                items_per_s: rate(items),
                bytes_per_s: described.bytes.then(|| rate(units)).flatten(),
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

/// Depth over time, relative to an offset that may be learned later.
#[derive(Debug, Default)]
struct Depth {
    relative: i64,
    lowest: i64,
    highest: i64,
    offset: Option<i64>,
    since_ns: Option<i64>,
    /// Time per relative depth since the offset was last in doubt; depths are rounded down to multiples of `1 << shift`.
    times: IdMap<u64, u64>,
    shift: u32,
    settled: Histogram,
}

impl Depth {
    fn change(&mut self, by: i64, t_ns: i64, capacity: Option<u64>) {
        self.pass(t_ns);
        self.relative = self.relative.saturating_add(by);
        self.lowest = self.lowest.min(self.relative);
        self.highest = self.highest.max(self.relative);
        // Off by more than a race explains: tokens went in or out unseen.
        let spread = (self.highest as i128 - self.lowest as i128).min(i64::MAX as i128) as i64;
        if let (None, Some(capacity)) = (self.offset, capacity.filter(|&capacity| spread > capacity as i64 + tolerance(Some(capacity)))) {
            self.offset = Some(if by < 0 { (capacity as i64).saturating_sub(self.highest) } else { -self.lowest });
        }
        if let Some(offset) = self.offset {
            let depth = self.relative.saturating_add(offset);
            let tolerance = tolerance(capacity);
            if depth < -tolerance {
                self.settle(capacity);
                self.offset = Some(-self.relative);
            } else if let Some(capacity) = capacity.filter(|&capacity| depth > capacity as i64 + tolerance) {
                self.settle(Some(capacity));
                self.offset = Some(capacity as i64 - self.relative);
            }
        }
    }

    fn anchor(&mut self, depth: u64, t_ns: i64, capacity: Option<u64>) {
        self.pass(t_ns);
        let depth = depth.min(i64::MAX as u64) as i64;
        let offset = depth.saturating_sub(self.relative);
        match self.offset {
            // Most recordings see a queue from its birth: then the start was empty, and the difference is a race.
            None if offset.abs() <= tolerance(capacity) => self.offset = Some(0),
            None => self.offset = Some(offset),
            Some(known) if (known - offset).abs() > tolerance(capacity) => {
                self.settle(capacity);
                self.offset = Some(offset);
            }
            Some(_) => {}
        }
    }

    fn forget(&mut self, t_ns: i64) {
        self.pass(t_ns);
        self.settle(None);
        self.offset = None;
        (self.relative, self.lowest, self.highest) = (0, 0, 0);
    }

    fn pass(&mut self, t_ns: i64) {
        let Some(since_ns) = self.since_ns else {
            self.since_ns = Some(t_ns);
            return;
        };
        let ns = since(since_ns, t_ns);
        self.since_ns = Some(since_ns.max(t_ns));
        if ns == 0 {
            return;
        }
        *self.times.entry((self.relative >> self.shift) as u64).or_default() += ns;
        while self.times.len() > MOST_DEPTHS {
            self.shift += 1;
            let mut coarser = IdMap::default();
            for (&depth, &ns) in &self.times {
                *coarser.entry((depth as i64 >> 1) as u64).or_default() += ns;
            }
            self.times = coarser;
        }
    }

    fn settle(&mut self, capacity: Option<u64>) {
        let mut settled = std::mem::take(&mut self.settled);
        self.add_to(&mut settled, capacity);
        self.settled = settled;
        self.times.clear();
        self.shift = 0;
        (self.lowest, self.highest) = (self.relative, self.relative);
    }

    fn add_to(&self, out: &mut Histogram, capacity: Option<u64>) {
        let mut times: Vec<(i64, u64)> =
            self.times.iter().map(|(&depth, &ns)| ((depth as i64) << self.shift, ns)).collect();
        times.sort_unstable();
        let offset = self.offset.unwrap_or_else(|| {
            let total: u64 = times.iter().map(|(_, ns)| ns).sum();
            let mut seen = 0;
            let lowest = times.iter().find(|(_, ns)| {
                seen += ns;
                seen as f64 > RACE_SHARE * total as f64
            });
            lowest.map_or(0, |(depth, _)| (-depth).max(0))
        });
        for (relative, ns) in times {
            let depth = relative.saturating_add(offset).max(0) as u64;
            out.record_weighted(capacity.map_or(depth, |capacity| depth.min(capacity)), ns);
        }
    }

    fn finish(&self, end_ns: i64, capacity: Option<u64>) -> Histogram {
        let mut last =
            Depth { times: self.times.clone(), relative: self.relative, offset: self.offset, since_ns: self.since_ns, shift: self.shift, ..Depth::default() };
        last.pass(end_ns);
        let mut out = self.settled.clone();
        last.add_to(&mut out, capacity);
        out
    }
}

fn tolerance(capacity: Option<u64>) -> i64 {
    capacity.map_or(64, |capacity| (capacity / 8).clamp(1, 64) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depth(changes: &[(i64, i64)], end: i64, capacity: Option<u64>) -> Histogram {
        let mut depth = Depth::default();
        for &(t, by) in changes {
            depth.change(by, t, capacity);
        }
        depth.finish(end, capacity)
    }

    #[test]
    fn depth_is_weighted_by_time() {
        let found = depth(&[(0, 1), (10, 1), (40, -2)], 100, Some(2));
        assert_eq!(found.mean(), Some((10.0 + 60.0) / 100.0));
        assert_eq!(found.share_from(2), Some(0.3));
        assert_eq!(found.share_from(1), Some(0.4));
    }

    #[test]
    fn an_unknown_beginning_is_raised_so_that_no_depth_is_negative() {
        let found = depth(&[(0, -1), (50, -4), (100, 1)], 150, None);
        assert_eq!((found.max(), found.min()), (Some(4), Some(0)));
    }

    #[test]
    fn a_size_tells_the_beginning() {
        let mut depth = Depth::default();
        depth.change(-1, 0, Some(100));
        depth.change(-1, 10, Some(100));
        depth.anchor(98, 20, Some(100));
        assert_eq!(depth.finish(30, Some(100)).min(), Some(98));
    }

    #[test]
    fn a_depth_never_exceeds_the_capacity_for_long() {
        let mut depth = Depth::default();
        depth.anchor(0, 0, Some(8));
        for t in 0..100 {
            depth.change(1, t, Some(8));
        }
        depth.change(-8, 200, Some(8));
        let found = depth.finish(300, Some(8));
        assert_eq!(found.max(), Some(8));
        assert!(found.share_from(1).unwrap() < 0.7);
    }

    #[test]
    fn many_different_depths_stay_bounded() {
        let mut depth = Depth::default();
        for t in 0..100_000 {
            depth.change(1000, t, None);
        }
        assert!(depth.times.len() <= MOST_DEPTHS);
        let mean = depth.finish(100_000, None).mean().unwrap();
        assert!((mean / 50_000_000.0 - 1.0).abs() < 0.01, "{mean}");
    }
}
