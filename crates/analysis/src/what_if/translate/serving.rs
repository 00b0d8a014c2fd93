//! Servers in the trace: machines that take what several machines put, each item for itself.
//!
//! A machine that joins items of several machines waits for all of them and is no server; it puts
//! something after some gets and not after others.

use super::queue_uses::{Purpose, QueueUse, TokenOrigin};
use super::state::Translation;
use crate::what_if::operation::Operation;
use crate::what_if::replay::replayer::Replayer;
use crate::what_if::service::arrival_order::Waits;
use longpole_model::interaction::{MachineId, QueueId};
use longpole_model::tokens::{Origin, Taken};

impl Translation {
    /// Notes a put of the machine.
    pub fn note_put(&mut self, machine: MachineId) {
        self.machine(machine).takes.has_put = true;
    }

    /// Ends the work on the machine's last item. Called before it takes another one, or waits.
    pub fn end_service(&mut self, machine: MachineId) {
        if self.machine(machine).takes.is_shared {
            self.issue(machine, Operation::EndService);
        }
    }

    /// Returns true if items of this queue are work for the machine that takes them.
    pub fn takes_work_from(&self, queue: QueueId) -> bool {
        self.uses.get(queue).is_some_and(QueueUse::has_work)
    }

    /// Ends the work on the last item with all its waits. Called before the next get.
    pub fn free_place(&mut self, machine: MachineId) {
        if std::mem::take(&mut self.machine(machine).takes.has_open_work) {
            self.issue(machine, Operation::FreePlace);
        }
    }

    /// Begins the work on what the machine took.
    pub fn begin_service(&mut self, machine: MachineId, queue: QueueId, taken: &Taken<TokenOrigin>) {
        let Some(used) = self.uses.get_mut(queue) else { return };
        used.takes += 1;
        // An order is only followed if each get is of one unit, by one machine.
        let is_one = taken.units == 1 && taken.missing == 0 && used.taker.is_none_or(|taker| taker == machine);
        used.taker = Some(machine);
        if !is_one {
            forget_order(used, queue, &mut self.replay);
        }
        let Origin::From(from) = taken.cause else { return };
        if !used.has_work() {
            return;
        }
        // A machine that passes on what several put passes it on in the order of their arrival.
        let passes_on = self.machines.get(from.by.0 as usize).is_some_and(|traced| traced.takes.is_shared && !traced.takes.joins);
        used.is_shared |= passes_on;
        let before = *used.by.get_or_insert(from.by);
        used.is_shared |= before != from.by;
        let is_shared = used.is_shared;
        let several = self.queues.spent.iter().any(|spent| spent.by != from.by);
        let (number, room) = (used.takes, used.ordered_room);
        let waits = match (used.purpose, room) {
            (Some(Purpose::Calls), _) => Waits::Done,
            (_, Some(room)) => Waits::Room(room),
            _ => Waits::No,
        };
        let traced = self.machine(machine);
        let takes = &mut traced.takes;
        let put = std::mem::take(&mut takes.has_put);
        if takes.put_after_each.is_some_and(|puts| puts != put) || several {
            takes.joins = true;
        }
        // The machine's puts before its first get are not for any item.
        takes.put_after_each = takes.is_shared.then_some(put);
        takes.is_shared |= is_shared || takes.has_places;
        if (is_shared || takes.has_places) && !takes.joins && traced.stack.context.is_none() && !traced.is_shared_worker {
            self.machine(machine).takes.has_open_work = self.machine(machine).takes.has_places;
            self.issue(machine, Operation::BeginService { slot: from.slot, by: from.by, waits, put: room.map(|_| (queue, number - 1)) });
        }
    }

    /// Notes that the machine puts something and may have to ask for room. Returns the operation to
    /// issue once it has room.
    pub fn ask_for_room(&mut self, machine: MachineId, queue: QueueId, n: u64, early: bool) -> Option<Operation> {
        let used = self.uses.get_mut(queue)?;
        if n != 1 || early {
            forget_order(used, queue, &mut self.replay);
        }
        let put = used.puts;
        used.puts += 1;
        let has_order = used.is_shared && used.ordered_room.is_some();
        let (taker, taken) = (used.taker.filter(|_| has_order)?, used.takes);
        if self.machine(taker).takes.joins {
            return None;
        }
        self.issue(machine, Operation::AskForRoom { queue });
        Some(Operation::GetRoom { queue, taker, put, taken })
    }
}

/// Notes that the order of requests for room in the queue is unknown from here on.
fn forget_order(used: &mut QueueUse, queue: QueueId, replay: &mut Replayer) {
    if used.ordered_room.take().is_some() {
        replay.set_ordered_room(queue, None);
    }
}
