//! Places at which work is done, in the worlds where something does several pieces of it at once.
//!
//! A lock has one place, and so has a server that takes one request after the other. In a world
//! where it has N of them, whoever comes takes the place that was free for the shortest time, or
//! waits for the first one to become free. With places for everybody nobody waits.
//!
//! The order in which work is placed is that of the trace. It is told when each piece ended in
//! every world before the next one begins, so all places but those in use are known.

use super::lanes::Layout;

/// When each place is free, in one lane. None: there is always one.
#[derive(Clone, Debug)]
struct Places(Option<Vec<f64>>);

impl Places {
    /// Takes a place for work that comes then; returns when it begins. `turn`: when it would in the
    /// trace's order, for work whose place was never taken.
    fn take(&mut self, came: f64, turn: f64) -> f64 {
        let Some(free) = &mut self.0 else { return came };
        let latest = |a: &(usize, f64), b: &(usize, f64)| a.1.total_cmp(&b.1);
        let there = free.iter().copied().enumerate().filter(|place| place.1 <= came).max_by(latest);
        let place = there.or_else(|| free.iter().copied().enumerate().min_by(latest));
        place.map_or(turn, |(at, free_at)| {
            free.swap_remove(at);
            free_at.max(came)
        })
    }

    fn give(&mut self, v: f64) {
        if let Some(free) = &mut self.0 {
            free.push(v);
        }
    }
}

/// The places of one lock or server in one lane.
#[derive(Debug)]
struct InLane {
    lane: usize,
    places: Places,
    /// When the work before came, and when it was done.
    came: f64,
    done: f64,
    /// How long those waited that came before others in front of them: so much depends on the
    /// order.
    hangs: f64,
}

/// The places of one lock or server, in the lanes of the scenarios that change how many there are.
#[derive(Debug, Default)]
pub struct AtOnce(Vec<InLane>);

impl AtOnce {
    /// `asked`: as [`super::scale::Scale::at_once`] returns it.
    pub fn new(layout: Layout, asked: &[(usize, usize, Option<u64>)]) -> AtOnce {
        let places = |count: Option<u64>| Places(count.map(|count| vec![f64::MIN; count as usize]));
        let of = |lane, count| InLane { lane, places: places(count), came: f64::MIN, done: f64::MIN, hangs: 0.0 };
        AtOnce(asked.iter().flat_map(|&(scenario, _, count)| layout.of(scenario).map(|lane| of(lane, count))).collect())
    }

    pub fn is_of(&self, lane: usize) -> bool {
        self.0.iter().any(|of| of.lane == lane)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Work comes at `came` and begins in its turn at `turn`, in each lane; returns the lanes and
    /// when it begins there. What it takes to begin behind the one before, it takes where it waits,
    /// too.
    pub fn begins(&mut self, came: impl Fn(usize) -> f64, turn: impl Fn(usize) -> f64) -> Vec<(usize, f64)> {
        let begins = |of: &mut InLane| {
            let (came, turn) = (came(of.lane), turn(of.lane));
            let late = (turn - came.max(of.done)).max(0.0);
            let free = of.places.take(came, turn);
            let begin = if free > came || came >= of.done { free + late } else { free };
            if came < of.came {
                of.hangs += begin - came;
            }
            of.came = of.came.max(came);
            (of.lane, begin)
        };
        self.0.iter_mut().map(begins).collect()
    }

    /// It is done.
    pub fn ends(&mut self, v: &[f64]) {
        for of in &mut self.0 {
            of.places.give(v[of.lane]);
            of.done = v[of.lane];
        }
    }

    /// How much depends on the order in which work came, by lane.
    pub fn hangs(&self) -> impl Iterator<Item = (usize, f64)> + '_ {
        self.0.iter().map(|of| (of.lane, of.hangs))
    }
}
