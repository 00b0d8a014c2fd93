//! Places of work, in the worlds where a lock or server does several pieces of work at once.
//!
//! A lock has one place, and so has a server that takes one request after the other. In a world
//! where it has N places, an arriving machine takes the place that became free last before its
//! arrival, or waits for the first one to become free. With unlimited places, no machine waits.
//!
//! Example: a server with 1 ms per request gets three requests at 0 ms. With two places, they end
//! at 1, 1 and 2 ms.
//!
//! Work is placed in the order of the trace. Each piece's end is known in every world before the
//! next piece begins, so all places except those in use are known.

use crate::what_if::worlds::time_vector::Layout;

/// A change that lets a lock or server do several pieces of work at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacesChange {
    pub scenario: usize,
    /// Index of the change in its scenario.
    pub index: usize,
    /// Number of pieces of work; `None`: any number.
    pub count: Option<u64>,
}

/// Times at which the places become free, in one lane; `None`: any number of places.
#[derive(Clone, Debug)]
struct Places(Option<Vec<f64>>);

impl Places {
    /// Takes a place for work that comes at `came`. Returns when the work begins. `turn` is the
    /// start in the order of the trace, used if all places are taken.
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
    /// Latest arrival of the work up to now, and the end of the last work.
    came: f64,
    done: f64,
    /// Waiting time of work that came before the work in front of it. This much depends on the
    /// order.
    order_dependent: f64,
}

/// The places of one lock or server, in the lanes of the scenarios that change their number.
#[derive(Debug, Default)]
pub struct PlacesOfWorlds(Vec<InLane>);

impl PlacesOfWorlds {
    pub fn new(layout: Layout, changes: &[PlacesChange]) -> PlacesOfWorlds {
        let places = |count: Option<u64>| Places(count.map(|count| vec![f64::MIN; count as usize]));
        let of = |lane, count| InLane { lane, places: places(count), came: f64::MIN, done: f64::MIN, order_dependent: 0.0 };
        PlacesOfWorlds(changes.iter().flat_map(|change| layout.of(change.scenario).map(|lane| of(lane, change.count))).collect())
    }

    pub fn is_of(&self, lane: usize) -> bool {
        self.0.iter().any(|of| of.lane == lane)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Work comes at `came` and begins in the order of the trace at `turn`, in each lane. Returns
    /// the lanes with the start there. The time that the work needs to begin after the one before
    /// is also added if it waits for a place.
    pub fn begin(&mut self, came: impl Fn(usize) -> f64, turn: impl Fn(usize) -> f64) -> Vec<(usize, f64)> {
        let begins = |of: &mut InLane| {
            let (came, turn) = (came(of.lane), turn(of.lane));
            let late = (turn - came.max(of.done)).max(0.0);
            let free = of.places.take(came, turn);
            let begin = if free > came || came >= of.done { free + late } else { free };
            if came < of.came {
                of.order_dependent += begin - came;
            }
            of.came = of.came.max(came);
            (of.lane, begin)
        };
        self.0.iter_mut().map(begins).collect()
    }

    /// Frees the place of the last work.
    pub fn end(&mut self, v: &[f64]) {
        for of in &mut self.0 {
            of.places.give(v[of.lane]);
            of.done = v[of.lane];
        }
    }

    /// Returns how much depends on the order in which work came, by lane.
    pub fn order_dependent(&self) -> impl Iterator<Item = (usize, f64)> + '_ {
        self.0.iter().map(|of| (of.lane, of.order_dependent))
    }
}
