//! Queues: depth, times full and empty, batch sizes, and residence time of tokens. [`depth`] tracks
//! the depth.
//!
//! Probes report single steps of queues and may also report the depth ([`Queues`]); a machine log
//! reports each put and get ([`QueuesOfMachines`]). What is counted, and the answer, are the same.

pub(crate) mod depth;
mod depth_log;
mod interactions;
mod steps;

pub use interactions::QueuesOfMachines;
pub use steps::{QueueSeries, Queues};

use crate::queues::depth::Depth;
use crate::stats::histogram::since;
use crate::stats::histogram::{Histogram, Times};
use longpole_model::interaction::QueueId;
use longpole_model::tokens::{Shape, Unit};
use serde::Serialize;

/// The statistics of one queue. `full_share` is `None` without a capacity.
#[derive(Clone, Debug, Serialize)]
pub struct QueueAnswer {
    pub name: String,
    pub capacity: Option<u64>,
    pub unit: &'static str,
    pub puts: u64,
    pub gets: u64,
    pub put_units: u64,
    pub get_units: u64,
    /// Share of the time from the queue's first event to the end.
    pub full_share: Option<f64>,
    pub empty_share: Option<f64>,
    pub depth: DepthAnswer,
    /// Share of the same time in which the depth is an estimate: between a loss of events and the
    /// next event that shows the depth.
    pub uncertain_share: Option<f64>,
    pub batch: BatchAnswer,
    pub residence_ns: Times,
    pub signals_per_item: Option<f64>,
    pub items_per_s: Option<f64>,
    pub bytes_per_s: Option<f64>,
    pub wait_full_ns: u64,
    pub wait_empty_ns: u64,
    pub producers: Vec<String>,
    pub consumers: Vec<String>,
    /// Events lost by the threads that use the queue.
    pub lost: u64,
}

/// Statistics of the depth in units, weighted by time.
#[derive(Clone, Debug, Serialize)]
pub struct DepthAnswer {
    pub mean: Option<f64>,
    pub p50: Option<u64>,
    pub p99: Option<u64>,
    pub max: Option<u64>,
}

/// Statistics of the units that a consumer takes between two waits.
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

/// Counts of a queue. `W` identifies its users.
#[derive(Debug)]
struct Counted<W> {
    depth: Depth,
    puts: u64,
    gets: u64,
    put_units: u64,
    get_units: u64,
    producers: Vec<W>,
    consumers: Vec<W>,
    residence: Histogram,
    batch: Histogram,
}

impl<W> Default for Counted<W> {
    fn default() -> Counted<W> {
        Counted {
            depth: Depth::default(),
            puts: 0,
            gets: 0,
            put_units: 0,
            get_units: 0,
            producers: Vec::new(),
            consumers: Vec::new(),
            residence: Histogram::default(),
            batch: Histogram::default(),
        }
    }
}

impl<W: Copy + PartialEq> Counted<W> {
    /// `capacity` bounds the depth, if the depth is not known exactly.
    fn put(&mut self, by: W, units: u64, t_ns: i64, capacity: Option<u64>) {
        self.puts += 1;
        self.put_units = self.put_units.saturating_add(units);
        if !self.producers.contains(&by) {
            self.producers.push(by);
        }
        self.depth.change(units.min(i64::MAX as u64) as i64, t_ns, capacity);
    }

    fn get(&mut self, by: W, units: u64, t_ns: i64, capacity: Option<u64>) {
        self.gets += 1;
        self.get_units = self.get_units.saturating_add(units);
        if !self.consumers.contains(&by) {
            self.consumers.push(by);
        }
        self.depth.change(-(units.min(i64::MAX as u64) as i64), t_ns, capacity);
    }

    /// Number of items: units, or portions if a unit is a byte.
    fn items(&self, unit: Unit) -> u64 {
        match unit {
            Unit::Bytes => self.puts.max(self.gets),
            Unit::Items => self.put_units.max(self.get_units),
        }
    }

    /// Returns the answer for the time from the queue's first event to the end.
    fn answer(&self, name: &str, shape: Shape, (first_ns, end_ns): (i64, i64), names: impl Fn(&[W]) -> Vec<String>) -> QueueAnswer {
        let Shape { capacity, unit, .. } = shape;
        let depth = self.depth.finish(end_ns, capacity);
        let seconds = since(first_ns, end_ns) as f64 / 1e9;
        let rate = |count: u64| (seconds > 0.0).then(|| count as f64 / seconds);
        QueueAnswer {
            name: name.to_owned(),
            capacity,
            unit: if unit == Unit::Bytes { "bytes" } else { "items" },
            puts: self.puts,
            gets: self.gets,
            put_units: self.put_units,
            get_units: self.get_units,
            full_share: capacity.and_then(|capacity| depth.share_from(capacity)),
            empty_share: depth.share_from(1).map(|share| 1.0 - share),
            depth: DepthAnswer::of(&depth),
            uncertain_share: (seconds > 0.0).then(|| (self.depth.uncertain_ns(end_ns) as f64 / 1e9 / seconds).min(1.0)),
            batch: BatchAnswer::of(&self.batch),
            residence_ns: self.residence.times(),
            signals_per_item: None,
            items_per_s: rate(self.items(unit)),
            bytes_per_s: if unit == Unit::Bytes { rate(self.put_units.max(self.get_units)) } else { None },
            wait_full_ns: 0,
            wait_empty_ns: 0,
            producers: names(&self.producers),
            consumers: names(&self.consumers),
            lost: 0,
        }
    }
}

/// Batches: the units that each machine has taken from each queue since its last wait. Machines are
/// identified by numbers.
#[derive(Debug, Default)]
struct Batches(Vec<Vec<(QueueId, u64)>>);

impl Batches {
    fn take(&mut self, who: u32, queue: QueueId, items: u64) {
        let at = who as usize;
        if self.0.len() <= at {
            self.0.resize_with(at + 1, Vec::new);
        }
        match self.0[at].iter_mut().find(|(known, _)| *known == queue) {
            Some((_, taken)) => *taken = taken.saturating_add(items),
            None => self.0[at].push((queue, items)),
        }
    }

    /// Ends the machine's batches, because it waits.
    fn end(&mut self, who: u32, mut batch: impl FnMut(QueueId, u64)) {
        let Some(taken) = self.0.get_mut(who as usize) else { return };
        for (queue, items) in taken.iter_mut().filter(|(_, items)| *items > 0) {
            batch(*queue, std::mem::take(items));
        }
    }

    fn forget(&mut self, who: u32) {
        if let Some(taken) = self.0.get_mut(who as usize) {
            taken.clear();
        }
    }

    /// Batches of a queue that have not ended.
    fn open(&self, queue: QueueId) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().flatten().filter(move |(of, items)| *of == queue && *items > 0).map(|(_, items)| *items)
    }
}
