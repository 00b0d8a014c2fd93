//! Packets in sockets: a queue of tokens, since what a socket holds has no address that the trace shows.

use super::{place, FlowKey, Journeys, Socket, MOST_SOCKETS};
use crate::flight::{End, Flight, Leg, Origin, Stage, Wakeup};
use longpole_model::linux_net::Hop;
use longpole_model::linux_watch::{ThreadId, Waker};
use std::collections::VecDeque;

const TCP: i64 = 6;
const UDP: i64 = 17;
/// `MSG_PEEK | MSG_ERRQUEUE`: the call takes nothing.
const TAKES_NOTHING: i64 = 0x2 | 0x2000;
const EAGAIN: i64 = -11;

impl Journeys {
    pub(super) fn socket(&mut self, address: u64) -> Option<u32> {
        if let Some(&id) = self.socket_ids.get(&address) {
            return Some(id);
        }
        if self.sockets.len() >= MOST_SOCKETS {
            return None;
        }
        let id = self.sockets.len() as u32;
        self.sockets.push(Socket { protocol: None, port: None, reader: None, queue: VecDeque::new() });
        self.socket_ids.insert(address, id);
        Some(id)
    }

    /// The port of a socket.
    pub(super) fn state(&mut self, socket: u64, protocol: Option<i64>, port: u16) {
        if let Some(id) = self.socket(socket) {
            let known = &mut self.sockets[id as usize];
            if port != 0 && known.port.is_some_and(|known| known != port) {
                // Another socket at the same address.
                self.socket_ids.remove(&socket);
                let Some(id) = self.socket(socket) else { return };
                (self.sockets[id as usize].port, self.sockets[id as usize].protocol) = (Some(port), protocol);
            } else {
                (known.port, known.protocol) = (Some(port).filter(|&port| port != 0).or(known.port), protocol.or(known.protocol));
            }
        }
    }

    pub(super) fn ready(&mut self, hop: &Hop<'_>, socket: u64, protocol: Option<i64>) {
        let receiving = place(&mut self.cpus, hop.cpu.0).receiving.filter(|(_, by)| *by == hop.by).map(|(packet, _)| packet);
        let Some(receiving) = receiving else { return };
        let received = |flight: Option<&Flight>| flight.is_some_and(|flight| flight.stage == Stage::Received);
        let packet = if received(self.flights.get(&receiving)) {
            receiving
        } else {
            // One CPU puts into a socket's queue what several have brought.
            let near = |flight: &Flight| flight.stage == Stage::Received && hop.t_ns.saturating_sub(flight.t_ns) < 1_000_000;
            let mut others = self.cpus.iter().filter_map(|cpu| cpu.receiving.map(|(packet, _)| packet));
            let other = others.find(|packet| *packet != receiving && self.flights.get(packet).is_some_and(near));
            let late = self.undelivered.iter().position(|(packet, id)| self.flights.get(packet).is_some_and(|f| f.id == *id && near(f)));
            match late.and_then(|at| self.undelivered.remove(at)).map(|(packet, _)| packet).or(other) {
                Some(packet) if protocol == Some(UDP) => packet,
                _ => return,
            }
        };
        let Some(id) = self.socket(socket) else { return };
        self.sockets[id as usize].protocol = protocol.or(self.sockets[id as usize].protocol);
        let Some(flight) = self.flights.get_mut(&packet) else { return };
        let (since, counted) = (flight.t_ns, flight.number.is_some());
        (flight.stage, flight.t_ns, flight.socket) = (Stage::Ready, hop.t_ns, Some(id));
        let flight_id = flight.id;
        self.leg(Leg::Protocols, since, hop.t_ns, counted);
        self.see(hop, packet, "socket queue");
        if protocol == Some(TCP) {
            if let Some(flight) = self.flights.remove(&packet) {
                self.finish_flight(flight, End::Stream, hop.t_ns, (None, None));
            }
        } else {
            self.sockets[id as usize].queue.push_back((packet, flight_id));
        }
    }

    pub(super) fn copy(&mut self, hop: &Hop<'_>, packet: u64) {
        if self.flights.get(&packet).is_some_and(|flight| flight.stage == Stage::Ready) {
            self.see(hop, packet, "copied");
            place(&mut self.cpus, hop.cpu.0).copied = Some(packet);
        }
    }

    pub(super) fn take(&mut self, hop: &Hop<'_>, socket: u64, protocol: Option<i64>, result: i64, flags: i64) {
        let thread = match hop.by {
            Waker::Thread(thread) => Some(thread),
            Waker::Unknown => None,
            Waker::Context { .. } | Waker::Idle => return,
        };
        let copied = place(&mut self.cpus, hop.cpu.0).copied.take();
        let Some(id) = self.socket(socket) else { return };
        let known = &mut self.sockets[id as usize];
        known.protocol = protocol.or(known.protocol);
        known.reader = thread.or(known.reader);
        if flags & TAKES_NOTHING != 0 {
            return;
        }
        if result == EAGAIN {
            // It is empty.
            for (packet, id) in std::mem::take(&mut known.queue) {
                if let Some(flight) = self.remove_if(packet, id) {
                    self.vanished(flight);
                }
            }
            return;
        }
        if result < 0 {
            return;
        }
        let flights = &self.flights;
        known.queue.retain(|(packet, id)| flights.get(packet).is_some_and(|flight| flight.id == *id));
        let known = &self.sockets[id as usize];
        let fits = |(packet, _): &(u64, u64)| {
            let length = self.flights.get(packet).map_or(0, |flight| i64::from(flight.length));
            match known.protocol {
                Some(UDP) => length - result == 28 || length - result == 48,
                _ => (0..=128).contains(&(length - result)),
            }
        };
        let at = match copied.and_then(|copied| known.queue.iter().position(|(packet, _)| *packet == copied)) {
            Some(at) => Some(at),
            // A buffer that is too small cuts what it takes.
            None => known.queue.iter().position(fits).or(if known.queue.is_empty() { None } else { Some(0) }),
        };
        let Some(at) = at else { return };
        for skipped in 0..=at {
            let Some((packet, flight_id)) = self.sockets[id as usize].queue.pop_front() else { return };
            if skipped == at {
                self.see(hop, packet, "receive call");
            }
            let Some(flight) = self.remove_if(packet, flight_id) else { continue };
            if skipped < at {
                self.vanished(flight);
                continue;
            }
            let woken = |wakeup: &Wakeup| wakeup.wake_ns >= flight.t_ns && wakeup.start_ns <= hop.t_ns;
            let wakeup = thread.and_then(|thread| place(&mut self.threads, thread.0).wakeup).filter(woken);
            let counted = flight.number.is_some();
            self.leg(Leg::Socket, flight.t_ns, hop.t_ns, counted);
            if let Some(wakeup) = wakeup {
                self.leg(Leg::Wakeup, wakeup.wake_ns, wakeup.start_ns, counted);
            }
            if matches!(flight.origin, Origin::Call { .. }) {
                self.leg(Leg::Whole, flight.begin_ns, hop.t_ns, counted);
            }
            self.finish_flight(flight, End::Read, hop.t_ns, (thread, wakeup));
        }
    }

    /// The socket to which nearly all went that this thread sent.
    pub fn destination(&self, sender: ThreadId) -> Option<u32> {
        let from = FlowKey { sender: Some(sender), socket: None, device: None };
        let to = FlowKey { sender: Some(sender), socket: Some(u32::MAX), device: None };
        let of = self.flows.range(from..=to).filter_map(|(key, flow)| Some((key.socket?, flow.ends.iter().sum::<u64>())));
        let (mut sum, mut best) = (0, (0, None));
        for (socket, packets) in of {
            sum += packets;
            best = best.max((packets, Some(socket)));
        }
        best.1.filter(|_| best.0 as f64 >= 0.9 * sum as f64)
    }
}
