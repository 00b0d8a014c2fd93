//! Servers in a replay: a machine that several others need serves them in the order of their
//! arrival in each world, and gives room in its queue in the order in which it was asked for.
//!
//! Example: A and B send requests to one server, A first. In the world `B x0.5` B's request comes
//! first there, so B is served first and A waits for it.

use super::state::Replay;
use crate::what_if::service::arrival_order::Waits;
use crate::what_if::service::room_requests::RoomRequests;
use crate::what_if::service::server::{CurrentItem, Server};
use crate::what_if::worlds::paths::{Node, NodeKind};
use crate::what_if::worlds::time_vector::{self, is_long_ago, Layout, UNCHANGED};
use longpole_model::interaction::{MachineId, QueueId};

impl Replay {
    /// Notes when the machine asks for room in a queue.
    pub fn ask_for_room(&mut self, machine: MachineId, queue: QueueId) {
        let replayed = &self.machines[machine.0 as usize];
        self.service.requests.entry(queue).or_default().asking.insert(machine, replayed.v.clone());
    }

    /// Gives the machine room, in the order of the trace or earlier.
    pub fn get_room(&mut self, machine: MachineId, t: u64, queue: QueueId, taker: MachineId, (put, taken): (u64, u64)) {
        let (layout, most) = (self.layout, self.most_past);
        let Some(space) = self.service.ordered_room(queue) else { return };
        let Some(RoomRequests { asking, put: pending }) = self.service.requests.get_mut(&queue) else { return };
        let Some(mut asked) = asking.remove(&machine) else { return };
        let Some(mut server) = self.machines[taker.0 as usize].server.take() else { return };
        let replayed = &mut self.machines[machine.0 as usize];
        let client = server.clients.number(machine);
        let (mut moved, changed) = (false, self.service.capacities.get(&queue));
        for (at, order) in server.orders.iter_mut().enumerate() {
            let lane = layout.of_entry(at);
            let turn = replayed.v[lane];
            let room = changed.and_then(|changed| changed.units(at / 2)).unwrap_or(space);
            let later = |own: f64| pending.iter().filter(|put| put.1[lane] > own).count() as u64;
            let (came, v) = order.ask_for_room(client, asked[lane], turn, room, put.saturating_sub(taken), later);
            asked[lane] = came;
            if v != turn {
                if !std::mem::replace(&mut moved, true) {
                    replayed.past.jump(replayed.t, t, &replayed.v, replayed.node, most);
                    replayed.pause_cpu_work();
                }
                replayed.v[lane] = v;
            }
        }
        if moved {
            replayed.resume_cpu_work();
        }
        // A put that is as old as the capacity has been taken.
        while pending.front().is_some_and(|before| before.0.saturating_add(space) <= put) {
            pending.pop_front();
        }
        pending.push_back((put, asked));
        self.machines[taker.0 as usize].server = Some(server);
    }

    /// Ends the work on the machine's last item.
    pub fn end_service(&mut self, machine: MachineId, t: u64) {
        let (layout, most) = (self.layout, self.most_past);
        let replayed = &mut self.machines[machine.0 as usize];
        let Some(mut server) = replayed.server.take() else { return };
        if let Some(CurrentItem { client, waits, queue, moved, node }) = server.current.take() {
            let changed = queue.and_then(|queue| self.service.capacities.get(&queue));
            if moved {
                replayed.past.jump(replayed.t, t, &replayed.v, replayed.node, most);
                replayed.pause_cpu_work();
                self.scratch.bits.fill(0);
            }
            for (at, order) in server.orders.iter_mut().enumerate() {
                let lane = layout.of_entry(at);
                if server.places.is_of(lane) {
                    continue;
                }
                let v = order.end_service(client, replayed.v[lane], waits.with_capacity(changed.and_then(|changed| changed.units(at / 2))));
                if v != replayed.v[lane] {
                    replayed.v[lane] = v;
                    mark_kept(&mut self.scratch.bits, layout, lane);
                }
            }
            if moved {
                replayed.resume_cpu_work();
                let back = Node { before: replayed.node, other: node, ns: 0.0, key: 0, kind: NodeKind::Meet };
                replayed.node = self.paths.meet(back, &self.scratch.bits);
            }
        }
        replayed.server = Some(server);
    }

    /// Ends the work on the last item, with all its waits, in the worlds with several places.
    pub fn free_place(&mut self, machine: MachineId) {
        let replayed = &mut self.machines[machine.0 as usize];
        if let Some(server) = &mut replayed.server {
            server.places.end(&replayed.v);
        }
    }

    /// Begins the work on what came in that slot.
    pub fn begin_service(&mut self, machine: MachineId, t: u64, (slot, by): (u32, MachineId), waits: Waits, put: Option<(QueueId, u64)>) {
        let asked = put.and_then(|(queue, number)| self.service.requests.get_mut(&queue)?.taken(number));
        let server = self.machines[machine.0 as usize].server.take();
        let mut server = server.unwrap_or_else(|| self.service.new_server(machine, self.layout));
        let came = self.slots.lanes(slot);
        server.has_own_order |= came[UNCHANGED] < server.came;
        server.came = came[UNCHANGED];
        let (client, node) = (server.clients.number(by), self.machines[machine.0 as usize].node);
        let queue = put.map(|put| put.0);
        let moved_place = self.take_place(machine, t, &mut server, slot);
        let moved = self.take_position(machine, t, &mut server, (slot, asked.as_deref()), (client, waits, queue), moved_place);
        let replayed = &mut self.machines[machine.0 as usize];
        if moved {
            replayed.resume_cpu_work();
            let before = Node { before: node, other: self.slots.node(slot), ns: 0.0, key: 0, kind: NodeKind::Meet };
            replayed.node = self.paths.meet(before, &self.scratch.bits);
        }
        server.current = Some(CurrentItem { client, waits, queue, moved, node });
        replayed.server = Some(server);
    }

    /// Begins the work at a free place, in the worlds in which the server has several. Returns true
    /// if there are any; the machine's work on its CPU then pauses.
    fn take_place(&mut self, machine: MachineId, t: u64, server: &mut Server, slot: u32) -> bool {
        if server.places.is_empty() {
            return false;
        }
        let (layout, came) = (self.layout, self.slots.lanes(slot));
        let replayed = &mut self.machines[machine.0 as usize];
        replayed.past.jump(replayed.t, t, &replayed.v, replayed.node, self.most_past);
        replayed.pause_cpu_work();
        self.scratch.bits.fill(0);
        let v = &replayed.v;
        let comes = |lane: usize| if is_long_ago(came[lane]) { v[lane] } else { came[lane] };
        let began = server.places.begin(comes, |lane| v[lane]);
        for (lane, begin) in began {
            if begin < replayed.v[lane] {
                mark_kept(&mut self.scratch.bits, layout, lane);
            }
            replayed.v[lane] = begin;
        }
        true
    }

    /// Begins the work at the client's position in the order of arrival. `asked` are the times at
    /// which the client asked for room. Returns true if `moved`, or if the position is another one
    /// than in the trace; the machine's work on its CPU then pauses.
    fn take_position(
        &mut self,
        machine: MachineId,
        t: u64,
        server: &mut Server,
        (slot, asked): (u32, Option<&[f64]>),
        (client, waits, queue): (usize, Waits, Option<QueueId>),
        mut moved: bool,
    ) -> bool {
        let (layout, came, reorders) = (self.layout, self.slots.lanes(slot), !server.has_own_order);
        let replayed = &mut self.machines[machine.0 as usize];
        let changed = queue.and_then(|queue| self.service.capacities.get(&queue));
        for (at, order) in server.orders.iter_mut().enumerate() {
            let lane = layout.of_entry(at);
            if server.places.is_of(lane) {
                continue;
            }
            let turn = replayed.v[lane];
            // What delays no receiver has no position in the order.
            let came = if is_long_ago(came[lane]) { turn } else { came[lane] };
            let asked = asked.map_or(came, |asked| asked[lane]);
            let waits = waits.with_capacity(changed.and_then(|changed| changed.units(at / 2)));
            let begin = if reorders { order.take(client, asked, came, turn, waits, self.service.most_remembered) } else { turn };
            if begin != turn || !order.is_last() {
                if !std::mem::replace(&mut moved, true) {
                    replayed.past.jump(replayed.t, t, &replayed.v, replayed.node, self.most_past);
                    replayed.pause_cpu_work();
                    self.scratch.bits.fill(0);
                }
                replayed.v[lane] = begin;
                if begin < turn {
                    mark_kept(&mut self.scratch.bits, layout, lane);
                }
            }
        }
        moved
    }
}

/// Notes that the other path was taken in this world, if its path is recorded.
fn mark_kept(bits: &mut [u64], layout: Layout, lane: usize) {
    if layout.kept().contains(&lane) {
        time_vector::set_bit(bits, lane);
    }
}
