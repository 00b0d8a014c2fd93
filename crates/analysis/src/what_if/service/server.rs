//! The order in which a server serves several machines, in each world.
//!
//! A server takes items that several machines put, each item for itself. In a world it serves them
//! in the order of their arrival there ([`ArrivalOrder`]): a machine that comes earlier than in the
//! trace is served before those that come later in that world, and gets room in a bounded queue
//! before them. What the server passes on reaches the receivers in that order, too.
//!
//! This applies only if the trace shows such an order. It does not apply if the server took an item
//! before another one that came earlier (priorities, several queues), for a last-in, first-out
//! queue, or if gets are not independent. A server that joins items of several machines waits for
//! all of them; it is recognized by putting something after some gets and not after others.
//!
//! The interval of a prediction includes the effect of the assumed order: the time that machines
//! waited when they came out of the trace's order, and the time that others waited for them.

use super::arrival_order::{ArrivalOrder, Clients, Waits};
use super::places::PlacesOfWorlds;
use crate::what_if::worlds::time_vector::Layout;
use longpole_model::interaction::QueueId;

/// A machine that serves several others, in the worlds of the scenarios.
#[derive(Debug)]
pub struct Server {
    /// Two orders for each scenario, in the order of [`Layout::of`].
    pub orders: Vec<ArrivalOrder>,
    pub clients: Clients,
    /// Arrival of the last item in the unchanged world.
    pub came: f64,
    /// The server took a later item before an earlier one: it has an order of its own.
    pub has_own_order: bool,
    pub current: Option<CurrentItem>,
    /// Places at which the server serves several machines at once, in some scenarios.
    pub places: PlacesOfWorlds,
}

/// The item that a server works on.
#[derive(Clone, Copy, Debug)]
pub struct CurrentItem {
    pub client: usize,
    pub waits: Waits,
    pub queue: Option<QueueId>,
    /// The server is at another position of the order in some world; and the end of its path
    /// before that.
    pub moved: bool,
    pub node: u64,
}

impl Server {
    pub fn new(layout: Layout, places: PlacesOfWorlds) -> Server {
        let orders = vec![ArrivalOrder::default(); 2 * layout.scenarios];
        Server { orders, clients: Clients::default(), came: 0.0, has_own_order: false, current: None, places }
    }
}
