//! Orders: what the translation of the trace tells the replay to do, in the order of the trace.
//!
//! An order needs no result, so the replay may obey it later, in another thread
//! ([`super::replayer`]).

use super::cpus::{CpusInUse, Host};
use super::state::Replay;
use crate::what_if::operation::Operation;
use crate::what_if::worlds::paths;
use crate::what_if::worlds::time_vector::Row;
use longpole_model::interaction::{MachineId, QueueId};

/// The kinds of orders.
#[derive(Debug)]
pub enum Order {
    /// Runs the machine's operation, which lasts until `t` in the trace.
    Run {
        machine: MachineId,
        t: u64,
        operation: Operation,
    },
    HoldSlot(u32),
    ReleaseSlot(u32),
    /// Holds, or releases, the slots of a CPU that was left.
    HoldCpu([u32; 4]),
    ReleaseCpu([u32; 4]),
    /// Makes room for this number of machines.
    MakeMachines(usize),
    /// Adds the factors of the next key.
    AddFactors(Row),
    /// A CPU of the host is in use from now on, after its new owner has waited for this time; or it
    /// is in use no longer.
    UseCpu {
        host: Host,
        now: u64,
        awaited: Option<u64>,
    },
    /// The queue is bounded, with this capacity, and the order of requests for its room is known;
    /// `None` if not.
    SetOrderedRoom {
        queue: QueueId,
        capacity: Option<u64>,
    },
    /// The operations of an interaction are complete. `tip` is the machine whose path counts, as
    /// far as is known.
    EndInteraction {
        tip: Option<MachineId>,
    },
}

impl Replay {
    /// Obeys an order. Factors are taken out of it.
    pub fn obey(&mut self, order: &mut Order) {
        match order {
            Order::Run { machine, t, operation } => self.run(*machine, *t, operation),
            Order::HoldSlot(slot) => self.slots.hold(*slot),
            Order::ReleaseSlot(slot) => self.slots.release(*slot),
            Order::HoldCpu(slots) => slots.iter().for_each(|&slot| self.slots.hold(slot)),
            Order::ReleaseCpu(slots) => slots.iter().for_each(|&slot| self.slots.release(slot)),
            Order::MakeMachines(machines) => self.make_machines(*machines),
            Order::AddFactors(row) => self.factors.push(row.take()),
            Order::UseCpu { host, now, awaited } => {
                let used = self.cpus.used.of(*host, CpusInUse::default);
                match *awaited {
                    Some(awaited) => used.take(*now, awaited),
                    None => used.leave(*now),
                }
            }
            Order::SetOrderedRoom { queue, capacity } => self.service.set_ordered_room(*queue, *capacity),
            Order::EndInteraction { tip } => self.forget_paths(*tip),
        }
    }

    /// Forgets the older part of the paths if there are too many nodes, as seen from the machine
    /// whose end counts.
    fn forget_paths(&mut self, tip: Option<MachineId>) {
        if self.paths.is_due() {
            let tip = self.end.as_ref().map(|end| end.machine).or(tip);
            let tip = tip.map_or(paths::NONE, |machine| self.machine(machine).node);
            self.paths.forget(tip, &self.factors);
        }
    }

    /// Gives the room of `n` units in a queue whose capacity some world changes; the slot has the
    /// time of the get that frees it.
    pub fn give_room(&mut self, queue: QueueId, n: u64, slot: u32) {
        let Some(capacity) = self.service.capacities.get_mut(&queue) else { return };
        self.slots.hold(slot);
        let (waiting, old) = capacity.give(n, slot);
        if let Some(old) = old {
            self.slots.release(old);
        }
        self.wake_held(waiting);
    }
}
