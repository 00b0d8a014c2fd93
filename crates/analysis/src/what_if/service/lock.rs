//! Locks: queues with one unit that is there from the start. In a world where a machine comes
//! earlier than in the trace, it gets the lock before those that come later there.

use super::arrival_order::{ArrivalOrder, Clients, Waits};
use super::places::PlacesOfWorlds;
use crate::what_if::worlds::time_vector::{Layout, UNCHANGED};
use longpole_model::interaction::MachineId;

/// A lock in the worlds of the scenarios.
#[derive(Debug)]
pub struct Lock {
    /// Two orders for each scenario, in the order of [`Layout::of`].
    pub orders: Vec<ArrivalOrder>,
    clients: Clients,
    /// The machine that had the lock last, and when it came, in the unchanged world.
    pub by: Option<MachineId>,
    came: f64,
    /// A machine got the lock before another one that came earlier: the lock has an order of its
    /// own.
    has_own_order: bool,
    /// Places at which several machines may have the lock at once, in some scenarios.
    pub places: PlacesOfWorlds,
}

impl Lock {
    pub fn new(layout: Layout, places: PlacesOfWorlds) -> Lock {
        Lock {
            places,
            orders: vec![ArrivalOrder::default(); 2 * layout.scenarios],
            clients: Clients::default(),
            by: None,
            came: 0.0,
            has_own_order: false,
        }
    }

    /// Gives the lock to a machine that was ready at `own`. `v` is the time in the order of the
    /// trace, and becomes the time at which the machine has the lock. `sooner` is called for the
    /// lanes in which that is earlier.
    pub fn take(&mut self, machine: MachineId, layout: Layout, own: &[f64], v: &mut [f64], most: usize, mut sooner: impl FnMut(usize)) {
        let client = self.clients.number(machine);
        self.by = Some(machine);
        self.has_own_order |= own[UNCHANGED] < self.came;
        self.came = own[UNCHANGED];
        for (lane, begin) in self.places.begin(|lane| own[lane], |lane| v[lane]) {
            if begin < v[lane] {
                sooner(lane);
            }
            v[lane] = begin;
        }
        if self.has_own_order {
            return;
        }
        for (at, order) in self.orders.iter_mut().enumerate() {
            let lane = layout.of_entry(at);
            if self.places.is_of(lane) {
                continue;
            }
            let begin = order.take(client, own[lane], own[lane], v[lane], Waits::Done, most);
            if begin < v[lane] {
                sooner(lane);
            }
            v[lane] = begin;
        }
    }

    /// Returns the lock at `v`, which becomes the time from which others have it in the order of
    /// the trace.
    pub fn release(&mut self, machine: MachineId, layout: Layout, v: &mut [f64]) {
        self.places.end(v);
        if self.has_own_order {
            return;
        }
        let client = self.clients.number(machine);
        for (at, order) in self.orders.iter_mut().enumerate() {
            let lane = layout.of_entry(at);
            if self.places.is_of(lane) {
                continue;
            }
            v[lane] = order.end_service(client, v[lane], Waits::Done);
        }
    }
}
