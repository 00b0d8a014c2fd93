//! The output of the measuring program as series: for each loop one value per round, so that loops
//! are compared within rounds.
//!
//! A round measures all loops one after the other. A disturbance of the host that lasts a whole
//! round therefore cancels out in ratios.

use super::statistics::Estimate;
use anyhow::{bail, Context};
use std::collections::BTreeMap;

/// The number of threads in which a loop ran: alone, or at the same time as its twin in a second
/// thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Threads {
    One,
    FirstOfTwo,
    SecondOfTwo,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub place: String,
    pub state: String,
    pub probe: String,
    pub threads: Threads,
}

impl Key {
    pub fn new(place: &str, state: &str, probe: &str, threads: Threads) -> Key {
        Key { place: place.to_owned(), state: state.to_owned(), probe: probe.to_owned(), threads }
    }

    fn bare(&self, probe: &str) -> Key {
        Key::new(&self.place, "bare", probe, self.threads)
    }
}

#[derive(Debug, Default)]
struct Series {
    ns: BTreeMap<u32, f64>,
    bytes: Option<u64>,
}

/// Costs of events that happen once, such as the first probe of a thread or the first hit of a call
/// site.
#[derive(Debug, Default)]
pub struct Rare {
    pub first: Vec<f64>,
    pub next: Vec<f64>,
    pub faults: Vec<f64>,
}

/// Differences of time stamps around nested pairs of probes, in ticks of the counter.
#[derive(Debug, Default)]
struct Nested {
    inner: Vec<f64>,
    outer: Vec<f64>,
}

#[derive(Debug, Default)]
pub struct Measurement {
    series: BTreeMap<Key, Series>,
    nested: BTreeMap<(String, String), Nested>,
    rare: BTreeMap<(String, String), Rare>,
    clock: Vec<f64>,
    pub frequency_hz: Option<f64>,
    pub lost: Option<u64>,
}

impl Measurement {
    pub fn parse(lines: &str) -> anyhow::Result<Measurement> {
        let mut measurement = Measurement::default();
        for (at, line) in lines.lines().enumerate() {
            measurement.line(line).with_context(|| format!("line {}: {line}", at + 1))?;
        }
        Ok(measurement)
    }

    fn line(&mut self, line: &str) -> anyhow::Result<()> {
        let fields: Vec<&str> = line.split('\t').collect();
        match fields[..] {
            ["batch", place, state, probe, round, threads, ns, bytes] => {
                let threads = match threads {
                    "1" => Threads::One,
                    "2a" => Threads::FirstOfTwo,
                    "2b" => Threads::SecondOfTwo,
                    other => bail!("unknown thread count {other:?}"),
                };
                let series = self.series.entry(Key::new(place, state, probe, threads)).or_default();
                series.ns.insert(round.parse()?, ns.parse()?);
                let bytes = bytes.parse()?;
                // If a sub-buffer begins within a batch, the batch includes a part of its header;
                // the minimum is free of it.
                series.bytes = Some(series.bytes.map_or(bytes, |least| least.min(bytes)));
            }
            ["nested", place, probe, inner, outer] => {
                let nested = self.nested.entry((place.to_owned(), probe.to_owned())).or_default();
                nested.inner.push(inner.parse()?);
                nested.outer.push(outer.parse()?);
            }
            ["thread", place, what, first, next, faults] => {
                self.rare(place, &format!("first probe of a thread, {what}"), first, next, faults)?
            }
            ["site", place, first, next, faults] => self.rare(place, "first hit of a call site", first, next, faults)?,
            ["clock", ns] => self.clock.push(ns.parse()?),
            ["frequency", hz] => self.frequency_hz = Some(hz.parse()?),
            ["lost", count] => self.lost = Some(count.parse()?),
            _ => bail!("expected tab-separated fields that begin with batch, nested, thread, site, clock, frequency or lost"),
        }
        Ok(())
    }

    fn rare(&mut self, place: &str, what: &str, first: &str, next: &str, faults: &str) -> anyhow::Result<()> {
        let rare = self.rare.entry((what.to_owned(), place.to_owned())).or_default();
        rare.first.push(first.parse()?);
        rare.next.push(next.parse()?);
        rare.faults.push(faults.parse()?);
        Ok(())
    }

    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.series.keys()
    }

    /// Returns the bytes that an event takes in the trace.
    pub fn bytes(&self, key: &Key) -> Option<u64> {
        self.series.get(key)?.bytes.filter(|&bytes| bytes > 0)
    }

    /// Returns the cost of one pass of the loop body in ns, without the loop itself.
    pub fn cost(&self, key: &Key) -> Option<Estimate> {
        Estimate::of(self.net(key)?.into_values().collect())
    }

    /// Returns the ratio of the loop's cost to that of another loop, formed within rounds, both
    /// without the loops themselves.
    pub fn ratio(&self, key: &Key, to: &Key) -> Option<Estimate> {
        let to = self.net(to)?;
        let ratios = self.net(key)?.into_iter().filter_map(|(round, ns)| Some(ns / to.get(&round)?)).collect();
        Estimate::of(ratios)
    }

    /// Returns the ratio of the loop's cost to the lower limit: reading the time-stamp counter and
    /// storing 32 bytes, in the same place and with the same number of threads.
    pub fn to_limit(&self, key: &Key) -> Option<Estimate> {
        self.ratio(key, &key.bare("counter+store"))
    }

    fn net(&self, key: &Key) -> Option<BTreeMap<u32, f64>> {
        let empty = &self.series.get(&key.bare("empty"))?.ns;
        let series = &self.series.get(key)?.ns;
        Some(series.iter().filter_map(|(round, ns)| Some((*round, ns - empty.get(round)?))).collect())
    }

    /// Returns, for each place and probe, two times in ns: the time that an empty pair of probes
    /// seems to take (the effective cost of two probes), and the time that it adds to the pair
    /// around it (their total cost).
    pub fn pairs(&self) -> Vec<(&str, &str, Estimate, Estimate)> {
        let Some(hz) = self.frequency_hz.filter(|&hz| hz > 0.0) else { return Vec::new() };
        let ns = |ticks: f64| ticks * 1e9 / hz;
        let mut rows = Vec::new();
        for ((place, probe), nested) in &self.nested {
            let effective = Estimate::of(nested.inner.iter().map(|&inner| ns(inner)).collect());
            let total = Estimate::of(nested.outer.iter().zip(&nested.inner).map(|(outer, inner)| ns(outer - inner)).collect());
            if let (Some(effective), Some(total)) = (effective, total) {
                rows.push((place.as_str(), probe.as_str(), effective, total));
            }
        }
        rows
    }

    /// Returns, for each kind and place: the cost of the first event and of the next one in ns,
    /// without the cost of the clock, and the number of page faults.
    pub fn rare_events(&self) -> Vec<(&str, &str, Estimate, Estimate, Estimate)> {
        let clock = Estimate::of(self.clock.clone()).map_or(0.0, |clock| clock.median);
        let mut rows = Vec::new();
        for ((what, place), rare) in &self.rare {
            let net = |values: &[f64]| Estimate::of(values.iter().map(|value| (value - clock).max(0.0)).collect());
            if let (Some(first), Some(next), Some(faults)) = (net(&rare.first), net(&rare.next), Estimate::of(rare.faults.clone())) {
                rows.push((what.as_str(), place.as_str(), first, next, faults));
            }
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measurement() -> Measurement {
        let mut lines = String::new();
        // A disturbance that doubles everything in every third round must not change a ratio.
        for round in 0..15 {
            let slow = if round % 3 == 0 { 2.0 } else { 1.0 };
            for (state, probe, ns, bytes) in [("bare", "empty", 0.5, 0), ("bare", "counter+store", 10.5, 0), ("on", "mark", 12.5, 16)] {
                lines += &format!("batch\texecutable\t{state}\t{probe}\t{round}\t1\t{}\t{bytes}\n", ns * slow);
            }
        }
        Measurement::parse(&lines).unwrap()
    }

    #[test]
    fn a_disturbance_of_whole_rounds_does_not_change_a_ratio() {
        let ratio = measurement().to_limit(&Key::new("executable", "on", "mark", Threads::One)).unwrap();
        for value in [ratio.median, ratio.low, ratio.high] {
            assert!((value - 1.2).abs() < 1e-9, "{ratio:?}");
        }
    }

    #[test]
    fn the_cost_of_a_probe_excludes_the_loop_around_it() {
        let cost = measurement().cost(&Key::new("executable", "on", "mark", Threads::One)).unwrap();
        assert_eq!((cost.median, cost.low), (12.0, 12.0));
    }

    #[test]
    fn an_invalid_line_is_reported_with_its_number() {
        let error = Measurement::parse("lost\t0\nsomething else\n").unwrap_err();
        assert_eq!(
            format!("{error:#}"),
            "line 2: something else: expected tab-separated fields that begin with batch, nested, thread, site, clock, frequency or lost"
        );
    }
}
