//! The depth of a queue over time.
//!
//! The depth is puts minus gets, weighted by time. If a recording began with tokens in the queue,
//! the depth is known only up to an offset. It is then stored relative to the start, and the offset
//! comes from a `size` probe, from a wait (a queue on which a thread waits is empty, or full), or
//! from the lowest depth seen, which cannot have been below zero.
//!
//! Probes on both sides of a queue are not atomic with it, so the depth may be wrong for a moment
//! by the tokens that threads are just handling. It is corrected only if it is wrong by more than
//! that, and after a loss. From the start of a loss until one of the above shows the depth again,
//! the depth is uncertain: it is estimated within the queue's bounds, and the time is counted.

use crate::queues::depth_log::DepthLog;
use crate::stats::histogram::since;
use crate::stats::histogram::Histogram;
use crate::stats::series::{Series, SeriesBins};
use crate::stats::value_log::LogFile;
use longpole_model::hash::IdMap;
use std::io;

const MAX_DEPTHS: usize = 4096;
/// Share of time below which a negative depth is a race between probes and not an unknown start.
const RACE_SHARE: f64 = 0.01;

/// Depth over time, relative to an offset that may be learned later.
#[derive(Debug, Default)]
pub(crate) struct Depth {
    relative: i64,
    lowest: i64,
    highest: i64,
    offset: Option<i64>,
    first_ns: Option<i64>,
    since_ns: Option<i64>,
    /// Time per relative depth since the offset was last uncertain; depths are rounded down to
    /// multiples of `1 << shift`.
    times: IdMap<u64, u64>,
    shift: u32,
    finished: Histogram,
    /// Start of the current uncertain time; and end of the uncertain time that has been counted.
    uncertain_since_ns: Option<i64>,
    uncertain_until_ns: Option<i64>,
    uncertain_ns: u64,
    /// Depth over time, in bins and exactly, if it is kept.
    series: Option<Box<Series>>,
    log: Option<Box<DepthLog>>,
}

impl Depth {
    /// Keeps the depth over time from `t_ns` on, with each change in a log.
    pub fn keep_series(&mut self, t_ns: i64, file: &LogFile) {
        self.series.get_or_insert_with(|| Box::new(Series::new(t_ns)));
        self.log.get_or_insert_with(|| Box::new(DepthLog::new(file.clone())));
    }

    pub fn keeps_series(&self) -> bool {
        self.series.is_some()
    }

    /// Passes the time in ns and the depth of each change; nothing if they were not kept.
    ///
    /// # Errors
    ///
    /// If the file of the log cannot be read.
    pub fn each_change(&self, capacity: Option<u64>, visit: &mut dyn FnMut(i64, f64)) -> io::Result<()> {
        let Some(log) = &self.log else { return Ok(()) };
        log.each(self.offset(&self.sorted_times()), capacity, visit)
    }

    /// Returns the depth over time until `end_ns`; `None` if it was not kept.
    pub fn series(&self, end_ns: i64, capacity: Option<u64>) -> Option<SeriesBins> {
        let mut series = (**self.series.as_ref()?).clone();
        series.settle(self.offset(&self.sorted_times()), capacity);
        Some(series.bins(end_ns))
    }

    /// Adds `by` units at `t_ns`; removes units if `by` is negative.
    pub fn change(&mut self, by: i64, t_ns: i64, capacity: Option<u64>) {
        self.advance(t_ns);
        self.relative = self.relative.saturating_add(by);
        if let Some(series) = &mut self.series {
            series.record(t_ns, self.relative);
        }
        self.log_depth(t_ns);
        self.lowest = self.lowest.min(self.relative);
        self.highest = self.highest.max(self.relative);
        // Wrong by more than a race explains: tokens were put or taken without events.
        let spread = (self.highest as i128 - self.lowest as i128).min(i64::MAX as i128) as i64;
        if let (None, Some(capacity)) = (self.offset, capacity.filter(|&capacity| spread > capacity as i64 + tolerance(Some(capacity)))) {
            self.set_offset(if by < 0 { (capacity as i64).saturating_sub(self.highest) } else { -self.lowest }, t_ns);
        }
        if let Some(offset) = self.offset {
            let depth = self.relative.saturating_add(offset);
            let tolerance = tolerance(capacity);
            if depth < -tolerance {
                self.add_times_to_finished(capacity);
                self.set_offset(-self.relative, t_ns);
                self.log_depth(t_ns);
            } else if let Some(capacity) = capacity.filter(|&capacity| depth > capacity as i64 + tolerance) {
                self.add_times_to_finished(Some(capacity));
                self.set_offset(capacity as i64 - self.relative, t_ns);
                self.log_depth(t_ns);
            }
        }
    }

    /// Sets the depth that a probe reports; the probe races with those of the queue's other users.
    pub fn anchor(&mut self, depth: u64, t_ns: i64, capacity: Option<u64>) {
        self.anchor_within(depth, t_ns, capacity, tolerance(capacity));
    }

    /// Sets the exact depth, reported by the only consumer: while no other thread takes, it alone
    /// can find the queue empty for long.
    pub fn anchor_exactly(&mut self, depth: u64, t_ns: i64, capacity: Option<u64>) {
        self.anchor_within(depth, t_ns, capacity, 0);
    }

    /// Returns the current depth, if it is known.
    pub fn now(&self) -> Option<u64> {
        self.offset.map(|offset| self.relative.saturating_add(offset).max(0) as u64)
    }

    fn anchor_within(&mut self, depth: u64, t_ns: i64, capacity: Option<u64>, tolerance: i64) {
        self.advance(t_ns);
        let depth = depth.min(i64::MAX as u64) as i64;
        let offset = depth.saturating_sub(self.relative);
        match self.offset {
            // Most recordings see a queue from its creation. Then it was empty at the start, and
            // the difference is a race.
            None if offset.abs() <= tolerance && self.uncertain_since_ns.is_none() => self.set_offset(0, t_ns),
            None => self.set_offset(offset, t_ns),
            Some(known) if known.abs_diff(offset) > tolerance as u64 => {
                self.add_times_to_finished(capacity);
                self.set_offset(offset, t_ns);
                self.log_depth(t_ns);
            }
            Some(_) => {}
        }
        if self.log.as_ref().is_some_and(|log| log.is_empty()) {
            self.log_depth(t_ns);
        }
    }

    fn log_depth(&mut self, t_ns: i64) {
        if let Some(log) = &mut self.log {
            log.record(t_ns, self.relative);
        }
    }

    /// Notes that events of a user are missing between the two moments. From the first one on, the
    /// depth is uncertain until something shows it again.
    pub fn forget(&mut self, begin_ns: i64, end_ns: i64, capacity: Option<u64>) {
        self.advance(end_ns);
        self.add_times_to_finished(capacity);
        self.offset = None;
        (self.relative, self.lowest, self.highest) = (0, 0, 0);
        let begin_ns = self.uncertain_until_ns.map_or(begin_ns, |until| begin_ns.max(until)).max(self.first_ns.unwrap_or(end_ns));
        self.uncertain_since_ns.get_or_insert(begin_ns);
    }

    /// Returns the time until `end_ns` whose depth is an estimate, in ns.
    pub fn uncertain_ns(&self, end_ns: i64) -> u64 {
        self.uncertain_ns + self.uncertain_since_ns.map_or(0, |since_ns| since(since_ns, end_ns))
    }

    fn set_offset(&mut self, offset: i64, t_ns: i64) {
        self.offset = Some(offset);
        if let Some(since_ns) = self.uncertain_since_ns.take() {
            self.uncertain_ns += since(since_ns, t_ns);
            self.uncertain_until_ns = Some(t_ns);
        }
    }

    fn advance(&mut self, t_ns: i64) {
        let Some(since_ns) = self.since_ns else {
            (self.since_ns, self.first_ns) = (Some(t_ns), Some(t_ns));
            return;
        };
        let ns = since(since_ns, t_ns);
        self.since_ns = Some(since_ns.max(t_ns));
        if ns == 0 {
            return;
        }
        *self.times.entry((self.relative >> self.shift) as u64).or_default() += ns;
        while self.times.len() > MAX_DEPTHS {
            self.shift += 1;
            let mut coarser = IdMap::default();
            for (&depth, &ns) in &self.times {
                *coarser.entry((depth as i64 >> 1) as u64).or_default() += ns;
            }
            self.times = coarser;
        }
    }

    fn add_times_to_finished(&mut self, capacity: Option<u64>) {
        if self.series.is_some() {
            let offset = self.offset(&self.sorted_times());
            self.series.iter_mut().for_each(|series| series.settle(offset, capacity));
            self.log.iter_mut().for_each(|log| log.settle(offset, capacity));
        }
        let mut finished = std::mem::take(&mut self.finished);
        self.add_to(&mut finished, capacity);
        self.finished = finished;
        self.times.clear();
        self.shift = 0;
        (self.lowest, self.highest) = (self.relative, self.relative);
    }

    /// Returns the relative depths with their times, the lowest first.
    fn sorted_times(&self) -> Vec<(i64, u64)> {
        let mut times: Vec<(i64, u64)> = self.times.iter().map(|(&depth, &ns)| ((depth as i64) << self.shift, ns)).collect();
        times.sort_unstable();
        times
    }

    /// Returns the known offset, or else the one by which hardly any depth is below zero.
    fn offset(&self, times: &[(i64, u64)]) -> i64 {
        self.offset.unwrap_or_else(|| {
            let total: u64 = times.iter().map(|(_, ns)| ns).sum();
            let mut seen = 0;
            let lowest = times.iter().find(|(_, ns)| {
                seen += ns;
                seen as f64 > RACE_SHARE * total as f64
            });
            lowest.map_or(0, |(depth, _)| (-depth).max(0))
        })
    }

    fn add_to(&self, out: &mut Histogram, capacity: Option<u64>) {
        let times = self.sorted_times();
        let offset = self.offset(&times);
        for (relative, ns) in times {
            let depth = relative.saturating_add(offset).max(0) as u64;
            out.record_weighted(capacity.map_or(depth, |capacity| depth.min(capacity)), ns);
        }
    }

    /// Returns the depths until `end_ns`, weighted by their time in ns.
    pub fn finish(&self, end_ns: i64, capacity: Option<u64>) -> Histogram {
        let mut last = Depth {
            times: self.times.clone(),
            relative: self.relative,
            offset: self.offset,
            since_ns: self.since_ns,
            shift: self.shift,
            ..Depth::default()
        };
        last.advance(end_ns);
        let mut out = self.finished.clone();
        last.add_to(&mut out, capacity);
        out
    }
}

/// Largest number of units by which a depth may be wrong because of a race: those that threads have
/// taken or put at once and whose probes are still to come.
const MAX_RACE: u64 = 64;
/// In a small queue a race is limited to this part of the capacity; otherwise the depth of such a
/// queue would never be corrected.
const RACE_PART: u64 = 8;

fn tolerance(capacity: Option<u64>) -> i64 {
    capacity.map_or(MAX_RACE, |capacity| (capacity / RACE_PART).clamp(1, MAX_RACE)) as i64
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
    fn an_unknown_start_is_raised_so_that_no_depth_is_negative() {
        let found = depth(&[(0, -1), (50, -4), (100, 1)], 150, None);
        assert_eq!((found.max(), found.min()), (Some(4), Some(0)));
    }

    #[test]
    fn the_depths_over_time_are_those_of_the_statistics() {
        let mut depth = Depth::default();
        depth.keep_series(0, &LogFile::default());
        // A start of 3 tokens becomes known by the anchor; after the loss, 5 is known again.
        for (t, by) in [(1_000, -1), (2_000, -2), (5_000, 4)] {
            depth.change(by, t, Some(10));
        }
        depth.anchor(4, 6_000, Some(10));
        depth.forget(7_000, 8_000, Some(10));
        depth.change(1, 9_000, Some(10));
        depth.anchor(5, 10_000, Some(10));
        let bins = depth.series(20_000, Some(10)).unwrap().bins;
        let statistics = depth.finish(20_000, Some(10));
        assert_eq!(bins.iter().map(|bin| bin[1]).max(), statistics.max().map(|max| max as i64));
        // 1,024 ns in a bin: the depth is 2, 0, 4 and at last 5.
        assert_eq!((bins[0], bins[3], bins[5], bins[19]), ([2, 2], [0, 0], [4, 4], [5, 5]));
        let mut changes = Vec::new();
        depth.each_change(Some(10), &mut |t, value| changes.push((t, value))).unwrap();
        assert_eq!(changes, [(1_000, 2.0), (2_000, 0.0), (5_000, 4.0), (9_000, 5.0)]);
    }

    #[test]
    fn a_size_probe_determines_the_start() {
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
    fn lost_gets_keep_the_depth_within_capacity_and_uncertain_until_it_is_reported() {
        let capacity = Some(1000);
        let mut depth = Depth::default();
        depth.anchor(0, 0, capacity);
        // The 40 puts exceed the capacity by no more than a race explains; the gets between 1,000
        // and 2,000 are lost.
        depth.change(990, 10, capacity);
        depth.change(40, 1_500, capacity);
        depth.forget(1_000, 2_000, capacity);
        depth.change(500, 2_500, capacity);
        depth.change(-10, 2_600, capacity);
        assert_eq!(depth.uncertain_ns(2_600), 1_600);
        depth.anchor(490, 3_000, capacity);
        let found = depth.finish(4_000, capacity);
        assert_eq!((found.max(), found.min()), (Some(1000), Some(0)));
        assert_eq!(depth.uncertain_ns(4_000), 2_000);
        // The time is not counted twice if a second user has lost events as well.
        depth.forget(2_500, 3_500, capacity);
        depth.anchor(490, 3_600, capacity);
        assert_eq!(depth.uncertain_ns(4_000), 2_600);
    }

    #[test]
    fn lost_puts_never_make_the_depth_negative() {
        let mut depth = Depth::default();
        depth.anchor(0, 0, Some(8));
        depth.forget(0, 10, Some(8));
        depth.change(-3, 20, Some(8));
        depth.change(1, 30, Some(8));
        let found = depth.finish(40, Some(8));
        assert_eq!((found.max(), found.min()), (Some(3), Some(0)));
        assert_eq!(depth.uncertain_ns(40), 40);
    }

    #[test]
    fn memory_stays_bounded_with_many_different_depths() {
        let mut depth = Depth::default();
        for t in 0..100_000 {
            depth.change(1000, t, None);
        }
        assert!(depth.times.len() <= MAX_DEPTHS);
        let mean = depth.finish(100_000, None).mean().unwrap();
        assert!((mean / 50_000_000.0 - 1.0).abs() < 0.01, "{mean}");
    }
}
