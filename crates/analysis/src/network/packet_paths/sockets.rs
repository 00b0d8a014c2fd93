//! Packets in sockets, as a queue of tokens, because packets in a socket have no address that the
//! trace shows.
//!
//! A socket is identified by its address, which is reused as soon as the socket is gone. It counts
//! as another socket if its port or protocol differs, if its content is purged because it was
//! closed, or if the thread that read from it has ended.

use super::{FlowKey, PacketPaths, MAX_SOCKETS};
use crate::network::in_flight::{End, Leg, Origin, PacketInFlight, Stage, Wakeup};
use crate::stats::growing::entry;
use longpole_model::linux::net::Hop;
use longpole_model::linux::watch::{ThreadId, Waker};
use std::collections::VecDeque;

const TCP: i64 = 6;
const UDP: i64 = 17;
/// Flags `MSG_PEEK | MSG_ERRQUEUE`: with them, a call takes no packet.
const TAKES_NOTHING: i64 = 0x2 | 0x2000;
const EAGAIN: i64 = -11;
/// Sizes of the headers of IPv4 and IPv6 with that of UDP, in bytes.
const HEADERS: [i64; 2] = [28, 48];
/// Largest number of places of packets that were given up.
const MAX_PLACES: usize = 1 << 20;

#[derive(Debug)]
pub struct Socket {
    address: u64,
    pub protocol: Option<i64>,
    pub port: Option<u16>,
    /// First thread that read from the socket; `reader` is the last one.
    pub first: Option<ThreadId>,
    pub reader: Option<ThreadId>,
    queue: VecDeque<Token>,
}

impl Socket {
    /// Forgets the content of the socket, which is unknown from now on.
    pub(super) fn forget(&mut self) {
        self.queue.clear();
    }
}

/// A packet in a socket.
#[derive(Clone, Copy, Debug)]
struct Token {
    packet: u64,
    /// Id of the packet in flight.
    id: u64,
    length: u32,
    /// Number of remaining datagrams into which the kernel split the packet for the socket.
    left: u32,
    /// Time at which the last of those was taken.
    taken_ns: Option<i64>,
}

impl Token {
    /// Returns whether a call with this result may have taken the whole packet. A datagram is read
    /// whole or truncated; with other protocols, bytes continue without their packets.
    fn fits(&self, protocol: Option<i64>, result: i64) -> bool {
        let headers = i64::from(self.length) - result;
        match protocol {
            Some(UDP) => HEADERS.contains(&headers),
            _ => (0..=128).contains(&headers),
        }
    }

    /// Returns whether the packet is long enough for this result. A buffer that is too small
    /// truncates the datagram.
    fn holds(&self, result: i64) -> bool {
        i64::from(self.length) - HEADERS[0] >= result
    }
}

impl PacketPaths {
    pub(super) fn socket(&mut self, address: u64) -> Option<u32> {
        if let Some(&id) = self.socket_ids.get(&address) {
            return Some(id);
        }
        if self.sockets.len() >= MAX_SOCKETS {
            return None;
        }
        let id = self.sockets.len() as u32;
        self.sockets.push(Socket { address, protocol: None, port: None, first: None, reader: None, queue: VecDeque::new() });
        self.socket_ids.insert(address, id);
        Some(id)
    }

    /// Returns the socket at the address if it can have this protocol, otherwise a new one that has
    /// taken its place.
    fn socket_of(&mut self, address: u64, protocol: Option<i64>) -> Option<u32> {
        let id = self.socket(address)?;
        let known = self.sockets[id as usize].protocol;
        let other = known.zip(protocol).is_some_and(|(known, protocol)| known != protocol);
        let id = if other { self.renew(address)? } else { id };
        let known = &mut self.sockets[id as usize].protocol;
        *known = protocol.or(*known);
        Some(id)
    }

    /// Returns the same by port.
    pub(super) fn socket_of_port(&mut self, address: u64, port: Option<u16>) -> Option<u32> {
        let id = self.socket(address)?;
        let known = self.sockets[id as usize].port;
        let id = if known.zip(port).is_some_and(|(known, port)| known != port) { self.renew(address)? } else { id };
        let known = &mut self.sockets[id as usize].port;
        *known = port.or(*known);
        Some(id)
    }

    /// Registers another socket at the same address.
    fn renew(&mut self, address: u64) -> Option<u32> {
        self.socket_ids.remove(&address);
        self.socket(address)
    }

    /// Handles the end of a reader. Another thread with the same socket continues to read, so its
    /// content remains.
    pub(super) fn reader_gone(&mut self, thread: ThreadId) {
        while let Some(&(_, address)) = self.readers.range((thread, 0)..=(thread, u64::MAX)).next() {
            self.readers.remove(&(thread, address));
            let Some(&id) = self.socket_ids.get(&address) else { continue };
            let old = &mut self.sockets[id as usize];
            // For a stream, events of its own show a new socket.
            if old.reader != Some(thread) || old.protocol == Some(TCP) {
                continue;
            }
            let (protocol, queue) = (old.protocol, std::mem::take(&mut old.queue));
            let Some(new) = self.renew(address) else { continue };
            for token in &queue {
                if let Some(flight) = self.in_flight.get_mut(&token.packet).filter(|flight| flight.id == token.id) {
                    flight.socket = Some(new);
                }
                if let Some(kept) = self.given_up_in_sockets.get_mut(&token.packet).filter(|(_, id)| *id == token.id) {
                    kept.0 = new;
                }
            }
            let new = &mut self.sockets[new as usize];
            (new.protocol, new.queue) = (protocol, queue);
        }
    }

    /// Handles the purge of a closed socket's content.
    pub(super) fn purged(&mut self, packet: u64) {
        let held = self.in_flight.get(&packet).filter(|flight| flight.stage == Stage::Ready).and_then(|flight| flight.socket);
        let Some(id) = held.or(self.given_up_in_sockets.get(&packet).map(|(socket, _)| *socket)) else { return };
        let address = self.sockets[id as usize].address;
        if self.socket_ids.get(&address) == Some(&id) {
            self.socket_ids.remove(&address);
        }
    }

    /// Gives up a packet that waits in a socket. Its place is kept, so that the packets after it
    /// are not mistaken for it.
    pub(super) fn remember_in_socket(&mut self, packet: u64, flight: &PacketInFlight) {
        if let Some(id) = flight.socket.filter(|_| self.given_up_in_sockets.len() < MAX_PLACES) {
            self.given_up_in_sockets.insert(packet, (id, flight.id));
        }
    }

    /// Returns the number of its datagrams that were not taken.
    pub(super) fn left(&self, flight: &PacketInFlight) -> u32 {
        let queue = flight.socket.and_then(|id| self.sockets.get(id as usize)).map(|socket| &socket.queue);
        let token = queue.and_then(|queue| queue.iter().find(|token| token.id == flight.id));
        token.map_or(1, |token| token.left)
    }

    /// Handles the loss of one of the datagrams into which a packet was split.
    pub(super) fn refused_piece(&mut self, socket: Option<u32>, id: u64) {
        let queue = socket.and_then(|socket| self.sockets.get_mut(socket as usize)).map(|socket| &mut socket.queue);
        if let Some(token) = queue.and_then(|queue| queue.iter_mut().rfind(|token| token.id == id)) {
            token.left = token.left.saturating_sub(1).max(1);
        }
    }

    /// Returns whether the token is still in the socket, as far as events show.
    fn is_held(&self, token: &Token) -> bool {
        self.split.contains_key(&token.id)
            || self.in_flight.get(&token.packet).is_some_and(|flight| flight.id == token.id)
            || self.given_up_in_sockets.get(&token.packet).is_some_and(|(_, id)| *id == token.id)
    }

    /// Records the port of a socket.
    pub(super) fn state(&mut self, socket: u64, protocol: Option<i64>, port: u16) {
        if self.socket_of(socket, protocol).is_some() {
            if let Some(id) = self.socket_of_port(socket, Some(port).filter(|&port| port != 0)) {
                let known = &mut self.sockets[id as usize].protocol;
                *known = protocol.or(*known);
            }
        }
    }

    pub(super) fn ready(&mut self, hop: &Hop<'_>, socket: u64, protocol: Option<i64>) {
        let receiving = entry(&mut self.cpus, hop.cpu.0).receiving.filter(|(_, by)| *by == hop.by).map(|(packet, _)| packet);
        let Some(receiving) = receiving else { return };
        let received = |flight: Option<&PacketInFlight>| flight.is_some_and(|flight| flight.stage == Stage::Received);
        let packet = if received(self.in_flight.get(&receiving)) {
            receiving
        } else {
            // One CPU may queue into a socket the packets that several CPUs have received.
            let near = |flight: &PacketInFlight| flight.stage == Stage::Received && hop.t_ns.saturating_sub(flight.t_ns) < 1_000_000;
            let mut others = self.cpus.iter().filter_map(|cpu| cpu.receiving.map(|(packet, _)| packet));
            let other = others.find(|packet| *packet != receiving && self.in_flight.get(packet).is_some_and(near));
            let late = self.undelivered.iter().position(|(packet, id)| self.in_flight.get(packet).is_some_and(|f| f.id == *id && near(f)));
            match late.and_then(|at| self.undelivered.remove(at)).map(|(packet, _)| packet).or(other) {
                Some(packet) if protocol == Some(UDP) => packet,
                _ => return,
            }
        };
        let Some(id) = self.socket_of(socket, protocol) else { return };
        let Some(flight) = self.in_flight.get_mut(&packet) else { return };
        let (since, counted) = (flight.t_ns, flight.number.is_some());
        (flight.stage, flight.t_ns, flight.socket) = (Stage::Ready, hop.t_ns, Some(id));
        let token = Token { packet, id: flight.id, length: flight.length, left: flight.segments.max(1), taken_ns: None };
        self.leg(Leg::Protocols, since, hop.t_ns, counted);
        self.see(hop, packet, "socket queue");
        if protocol == Some(TCP) {
            if let Some(flight) = self.in_flight.remove(&packet) {
                self.finish_packet(flight, End::Stream, hop.t_ns, (None, None));
            }
        } else {
            self.sockets[id as usize].queue.push_back(token);
        }
    }

    pub(super) fn copy(&mut self, hop: &Hop<'_>, packet: u64) {
        if self.in_flight.get(&packet).is_some_and(|flight| flight.stage == Stage::Ready) {
            self.see(hop, packet, "copied");
            entry(&mut self.cpus, hop.cpu.0).copied = Some(packet);
        }
    }

    pub(super) fn take(&mut self, hop: &Hop<'_>, socket: u64, protocol: Option<i64>, result: i64, flags: i64) {
        let thread = match hop.by {
            Waker::Thread(thread) => Some(thread),
            Waker::Unknown => None,
            Waker::Context { .. } | Waker::UntracedInterrupt => return,
        };
        let copied = entry(&mut self.cpus, hop.cpu.0).copied.take();
        let Some(id) = self.socket_of(socket, protocol) else { return };
        let known = &mut self.sockets[id as usize];
        if let Some(thread) = thread.filter(|thread| known.reader != Some(*thread)) {
            (known.first, known.reader) = (known.first.or(Some(thread)), Some(thread));
            if self.readers.len() < MAX_SOCKETS {
                self.readers.insert((thread, socket));
            }
        }
        if flags & TAKES_NOTHING != 0 {
            return;
        }
        if result == EAGAIN {
            // The socket is empty.
            for token in std::mem::take(&mut known.queue) {
                self.given_up_in_sockets.remove(&token.packet);
                let Some(flight) = self.remove_if(token.packet, token.id) else { continue };
                match token.taken_ns {
                    // The first of its datagrams may have been taken before any event showed that
                    // they were there.
                    Some(t_ns) => self.finish_packet(flight, End::Read, t_ns, (thread, None)),
                    None => self.end_unseen(flight),
                }
            }
            return;
        }
        if result < 0 {
            return;
        }
        while self.sockets[id as usize].queue.front().is_some_and(|token| !self.is_held(token)) {
            self.sockets[id as usize].queue.pop_front();
        }
        let Socket { queue, protocol, .. } = &self.sockets[id as usize];
        let protocol = *protocol;
        let first = |fits: &dyn Fn(&Token) -> bool| queue.iter().position(|token| fits(token) && self.is_held(token));
        let at = match copied.and_then(|copied| first(&|token| token.packet == copied)) {
            // Datagrams are taken in the order of their queue.
            None if protocol == Some(UDP) => match queue.front() {
                Some(head) if head.holds(result) => Some(0),
                Some(_) => first(&|token| token.fits(protocol, result)).or_else(|| first(&|token| token.holds(result))).or(Some(0)),
                None => None,
            },
            None => first(&|token| token.fits(protocol, result)).or(if queue.is_empty() { None } else { Some(0) }),
            copied => copied,
        };
        let Some(at) = at else { return };
        if let Some(token) = self.sockets[id as usize].queue.get_mut(at).filter(|token| protocol == Some(UDP) && token.left > 1) {
            // A socket may also take it whole.
            if !token.fits(protocol, result) {
                token.left -= 1;
                token.taken_ns = Some(hop.t_ns);
                return;
            }
        }
        for skipped in 0..=at {
            let Some(Token { packet, id: flight_id, .. }) = self.sockets[id as usize].queue.pop_front() else { return };
            if self.given_up_in_sockets.get(&packet).is_some_and(|(_, id)| *id == flight_id) {
                self.given_up_in_sockets.remove(&packet);
                continue;
            }
            let Some(mut flight) = self.remove_if(packet, flight_id) else { continue };
            if skipped < at {
                self.end_unseen(flight);
                continue;
            }
            if let Some(wanted) = self.wanted {
                flight.see(wanted, hop, "receive call");
            }
            let woken = |wakeup: &Wakeup| wakeup.wake_ns >= flight.t_ns && wakeup.start_ns <= hop.t_ns;
            let wakeup = thread.and_then(|thread| entry(&mut self.threads, thread.0).wakeup).filter(woken);
            let counted = flight.number.is_some();
            self.leg(Leg::Socket, flight.t_ns, hop.t_ns, counted);
            if let Some(wakeup) = wakeup {
                self.leg(Leg::Wakeup, wakeup.wake_ns, wakeup.start_ns, counted);
            }
            if matches!(flight.origin, Origin::Call { .. }) {
                self.leg(Leg::Whole, flight.begin_ns, hop.t_ns, counted);
            }
            self.finish_packet(flight, End::Read, hop.t_ns, (thread, wakeup));
        }
    }

    /// Returns the socket to which nearly all packets of this sender went.
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
