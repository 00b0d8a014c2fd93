//! The order in which servers, locks, rooms of queues and CPUs serve, in worlds in which machines
//! arrive in another order than in the trace.
//!
//! As long as nothing changes, each of them serves in the order of the trace. In a world where a
//! machine arrives earlier than in the trace, it is served before those that arrive later there
//! ([`arrival_order`]). Some scenarios change how much is served at once ([`places`]), or how many
//! items a queue has room for ([`changed_capacity`]).
//!
//! These parts compute times only; they know nothing of operations or of the trace.

pub mod arrival_order;
pub mod changed_capacity;
pub mod lock;
pub mod one_cpu;
pub mod places;
pub mod room_requests;
pub mod server;

use super::worlds::time_vector::Layout;
use changed_capacity::ChangedCapacity;
use lock::Lock;
use longpole_model::hash::IdMap;
use longpole_model::interaction::{MachineId, QueueId};
use places::{PlacesChange, PlacesOfWorlds};
use room_requests::RoomRequests;
use server::Server;

/// The locks and queues of all worlds, and the limits of memory of their orders.
#[derive(Debug)]
pub struct Service {
    pub locks: IdMap<QueueId, Lock>,
    /// Queues to which some world gives another capacity.
    pub capacities: IdMap<QueueId, ChangedCapacity>,
    pub requests: IdMap<QueueId, RoomRequests>,
    /// Capacity of each queue, if the queue is bounded and each put and get up to now was of a
    /// single unit, so that the order of requests for room is known.
    ordered_rooms: Vec<Option<u64>>,
    /// Machines that do several pieces of work at once in some scenarios.
    places: IdMap<MachineId, Vec<PlacesChange>>,
    /// The changes of machines that serve, which are therefore made.
    pub made: Vec<PlacesChange>,
    orders: usize,
    /// Largest number of gets that each order remembers.
    pub most_remembered: usize,
    most_bytes: usize,
}

impl Service {
    /// `most_bytes` is the limit of memory of all orders.
    pub fn new(most_bytes: usize) -> Service {
        Service {
            locks: IdMap::default(),
            capacities: IdMap::default(),
            requests: IdMap::default(),
            ordered_rooms: Vec::new(),
            places: IdMap::default(),
            made: Vec::new(),
            orders: 0,
            most_remembered: arrival_order::MAX_REMEMBERED,
            most_bytes,
        }
    }

    /// Adds a lock that has these changes.
    pub fn add_lock(&mut self, queue: QueueId, layout: Layout, changes: &[PlacesChange]) {
        self.more_orders(layout);
        self.made.extend(changes);
        self.locks.insert(queue, Lock::new(layout, PlacesOfWorlds::new(layout, changes)));
    }

    /// Gives a machine several places of work in some scenarios.
    pub fn set_places(&mut self, machine: MachineId, changes: Vec<PlacesChange>) {
        self.places.insert(machine, changes);
    }

    /// Makes the server of a machine that serves for the first time.
    pub fn new_server(&mut self, machine: MachineId, layout: Layout) -> Box<Server> {
        self.more_orders(layout);
        let changes = self.places.get(&machine).map_or(&[][..], Vec::as_slice);
        self.made.extend(changes);
        Box::new(Server::new(layout, PlacesOfWorlds::new(layout, changes)))
    }

    /// Accounts for the orders of one more server or lock, and adapts the length of all orders.
    fn more_orders(&mut self, layout: Layout) {
        self.orders += 2 * layout.scenarios;
        self.most_remembered = arrival_order::most(self.orders, self.most_bytes);
    }

    /// Capacity of a queue whose requests for room have a known order.
    #[inline]
    pub fn ordered_room(&self, queue: QueueId) -> Option<u64> {
        self.ordered_rooms.get(queue.0 as usize).copied().flatten()
    }

    pub fn set_ordered_room(&mut self, queue: QueueId, capacity: Option<u64>) {
        let at = queue.0 as usize;
        if at >= self.ordered_rooms.len() {
            self.ordered_rooms.resize(at + 1, None);
        }
        self.ordered_rooms[at] = capacity;
    }
}
