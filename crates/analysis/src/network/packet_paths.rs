//! Packet paths: packets from the call that sends them to the call that reads them, through device
//! queues, drivers, interrupts and sockets.
//!
//! A packet is identified by the address of its buffer. If an address is reused, the latest packet
//! counts, and a length that does not fit shows that it is another packet. In a socket, a packet
//! has no address any more, because reading a small datagram triggers no tracepoint of its buffer.
//! There it is a token of a queue: socket events show when a packet arrived and when a call took
//! one, first in, first out. An empty queue (a call that finds nothing) and lost events reset the
//! queue, so that an error does not last.
//!
//! Only packets in flight are kept, up to a limit; packets beyond it are given up and counted.

mod sockets;
mod watching;

use crate::network::in_flight::{End, Leg, Origin, PacketInFlight, PacketPath, Stage, Wakeup};
use crate::network::packet_log::{LoggedPacket, PacketLog};
use crate::network::packet_loss::{Loss, LossKind, Losses, Segments};
use crate::stats::growing::entry;
use crate::stats::samples::Samples;
use longpole_model::hash::IdMap;
use longpole_model::linux::net::{Hop, PacketStep};
use longpole_model::linux::watch::{ThreadId, Waker};
use sockets::Socket;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// Largest number of packets in flight; beyond it the oldest ones are given up.
const MAX_IN_FLIGHT: usize = 1 << 16;
/// Time without an event, in nanoseconds, after which a packet outside of sockets has left the
/// traced part of the system.
const LONGEST_NS: i64 = 5_000_000_000;
/// Largest number of pairs of sender and reader that are distinguished.
const MAX_FLOWS: usize = 1024;
const MAX_SOCKETS: usize = 1 << 18;
const MAX_NAMES: usize = 1 << 12;
/// Size in bytes of the headers of link, network and UDP.
const HEADERS: u32 = 42;
/// Largest number of received packets whose socket may appear in an event of another CPU.
const MAX_UNDELIVERED: usize = 32;

/// The packet path to report in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The packet with this number.
    Number(u64),
    /// The packet with the longest time from the send call to the receive call.
    Slowest,
}

/// Sender and receiver of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowKey {
    pub sender: Option<ThreadId>,
    /// Destination: a socket, or otherwise the last device.
    pub socket: Option<u32>,
    pub device: Option<u32>,
}

/// Sums over the packets of one sender and receiver.
#[derive(Debug, Default)]
pub struct Flow {
    pub ends: [u64; End::ALL.len()],
    pub complete: u64,
    pub whole: Samples,
}

/// The packets that a CPU handles at the moment.
#[derive(Debug, Default)]
struct CpuState {
    /// Packet that the protocols process now, and the context in which they do.
    receiving: Option<(u64, Waker)>,
    transmitting: Option<u64>,
    /// Last packet that arrived at a device queue.
    queued: Option<u64>,
    /// Port of a socket without room, from an event just before the loss.
    refused: Option<u16>,
    /// Buffer from which the receive call copies.
    copied: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct ThreadState {
    wakeup: Option<Wakeup>,
}

/// Follows all packets during the pass.
#[derive(Debug, Default)]
pub struct PacketPaths {
    in_flight: IdMap<u64, PacketInFlight>,
    /// Addresses and ids of packets, the oldest first.
    order: VecDeque<(u64, u64)>,
    next_id: u64,
    socket_ids: IdMap<u64, u32>,
    pub sockets: Vec<Socket>,
    /// Threads, with the addresses of the sockets from which each reads.
    readers: BTreeSet<(ThreadId, u64)>,
    /// Packets that were given up in a socket, where their place is kept: socket and id.
    given_up_in_sockets: IdMap<u64, (u32, u64)>,
    /// Packets, by id, that the kernel split for their socket, and whose buffer now holds another
    /// packet.
    split: IdMap<u64, PacketInFlight>,
    /// Sockets at the start of the recording: protocol, port, process.
    pub dumped: Vec<(i64, u16, i32)>,
    cpus: Vec<CpuState>,
    threads: Vec<ThreadState>,
    undelivered: VecDeque<(u64, u64)>,
    pub devices: Vec<String>,
    pub labels: Vec<String>,
    /// Size of the segments into which each sender's packets are split.
    segment_sizes: HashMap<Option<ThreadId>, u32>,
    /// Queueing discipline of each device.
    pub disciplines: HashMap<u32, String>,
    /// For each device, whether packets that it sends are seen again.
    seen_again: Vec<bool>,
    wanted: Option<Wanted>,
    /// Time before which packets are not counted, because the requested command had not begun.
    pub since_ns: Option<i64>,
    /// True when packets are no longer counted, because the requested command has ended.
    pub is_over: bool,
    /// The path of the requested packet.
    pub found: Option<PacketPath>,
    pub legs: [Samples; Leg::ALL.len()],
    pub flows: BTreeMap<FlowKey, Flow>,
    /// Flows beyond the limit.
    pub other_flows: Flow,
    pub count: u64,
    pub ends: [u64; End::ALL.len()],
    pub complete: u64,
    /// Number of packets on the wire.
    pub segments: u64,
    pub given_up: u64,
    pub losses: Losses,
    /// All packets, if they are kept for a timeline.
    pub log: Option<Box<PacketLog>>,
}

/// Returns the index of a text, which is stored once.
fn intern(all: &mut Vec<String>, text: &str) -> Option<u32> {
    let found = all.iter().rposition(|known| known == text);
    let at = found.or_else(|| {
        (all.len() < MAX_NAMES).then(|| {
            all.push(text.to_owned());
            all.len() - 1
        })
    });
    at.map(|at| at as u32)
}

impl PacketPaths {
    pub fn new(wanted: Option<Wanted>) -> PacketPaths {
        PacketPaths { wanted, ..PacketPaths::default() }
    }

    fn device(&mut self, name: &[u8]) -> Option<u32> {
        if name.is_empty() {
            return None;
        }
        intern(&mut self.devices, &String::from_utf8_lossy(name))
    }

    /// Begins a new packet in this buffer; the packet that was there before has vanished.
    fn begin(&mut self, hop: &Hop<'_>, packet: u64, origin: Origin, length: u32, stage: Stage) {
        match self.in_flight.remove(&packet) {
            Some(old) if old.stage == Stage::Ready && old.segments > 1 && self.split.len() < MAX_IN_FLIGHT => {
                self.split.insert(old.id, old);
            }
            Some(old) => self.end_unseen(old),
            None => {}
        }
        self.given_up_in_sockets.remove(&packet);
        self.next_id += 1;
        let id = self.next_id;
        let number = hop.covered.then(|| {
            self.count += 1;
            self.count
        });
        let begin_ns = match origin {
            Origin::Call { begin_ns, .. } => begin_ns,
            Origin::Kernel | Origin::Outside | Origin::Unknown => hop.t_ns,
        };
        let gap = origin == Origin::Unknown;
        let flight = PacketInFlight {
            id,
            number,
            begin_ns,
            origin,
            stage,
            t_ns: hop.t_ns,
            length,
            segments: 1,
            device: None,
            socket: None,
            gap,
            steps: Vec::new(),
        };
        self.in_flight.insert(packet, flight);
        self.order.push_back((packet, id));
        while let Some(&(packet, id)) = self.order.front() {
            let full = self.in_flight.len() > MAX_IN_FLIGHT;
            let Some(flight) = self.in_flight.get(&packet).filter(|flight| flight.id == id) else {
                self.order.pop_front();
                continue;
            };
            let old = hop.t_ns.saturating_sub(flight.t_ns) > LONGEST_NS;
            // A reader may sleep for a long time.
            let waits = flight.stage == Stage::Ready;
            let in_excess = self.order.len() > 2 * MAX_IN_FLIGHT;
            if !full && !(old && (!waits || in_excess)) {
                break;
            }
            self.order.pop_front();
            if let Some(flight) = self.in_flight.remove(&packet) {
                self.given_up += u64::from(waits || full && !old);
                if waits {
                    self.remember_in_socket(packet, &flight);
                }
                self.end_unseen(flight);
            }
        }
    }

    fn see(&mut self, hop: &Hop<'_>, packet: u64, what: &'static str) {
        if let Some((wanted, flight)) = self.wanted.zip(self.in_flight.get_mut(&packet)) {
            flight.see(wanted, hop, what);
        }
    }

    fn leg(&mut self, leg: Leg, begin_ns: i64, end_ns: i64, counted: bool) {
        if counted {
            self.legs[leg as usize].record(end_ns.saturating_sub(begin_ns).max(0) as u64);
        }
    }

    fn step(&mut self, hop: &Hop<'_>) {
        match hop.step {
            PacketStep::Queue { packet, length, device } => self.queue(hop, packet, length, device),
            PacketStep::Enqueue { packet } => self.see(hop, packet, "enqueued"),
            PacketStep::Dequeue { packet } => self.see(hop, packet, "dequeued"),
            PacketStep::Discipline { device, name, root } => {
                if let Some(device) = self.device(device).filter(|_| root) {
                    self.disciplines.insert(device, String::from_utf8_lossy(name).into_owned());
                }
            }
            PacketStep::Transmit { packet, length, device, segments } => self.transmit(hop, packet, length, device, segments),
            PacketStep::Transmitted { packet, result } => {
                entry(&mut self.cpus, hop.cpu.0).transmitting = None;
                if let Some(flight) = self.in_flight.get_mut(&packet).filter(|flight| flight.stage == Stage::Transmitting) {
                    // Any result other than 0 and small codes means "busy": the packet returns to
                    // the queue.
                    flight.stage = if result & 0x10 == 0 { Stage::Sent } else { Stage::Queued };
                }
                self.see(hop, packet, if result == 0 { "transmitted" } else { "refused by the driver" });
            }
            PacketStep::Arrive { packet, length, device } => self.arrive(hop, packet, length, device),
            PacketStep::Receive { packet, length, device } => self.receive(hop, packet, length, device),
            PacketStep::Ready { socket, protocol } => self.ready(hop, socket, protocol),
            PacketStep::Take { socket, protocol, result, flags } => self.take(hop, socket, protocol, result, flags),
            PacketStep::Copy { packet } => self.copy(hop, packet),
            PacketStep::Drop { packet, location, socket, protocol, reason, label } => {
                if matches!(label, "QUEUE_PURGE" | "SOCKET_CLOSE") {
                    self.purged(packet);
                }
                let refused = entry(&mut self.cpus, hop.cpu.0).refused.take();
                let socket = socket.and_then(|socket| self.socket_of_port(socket, refused));
                let label = if label.is_empty() { None } else { intern(&mut self.labels, label) };
                self.drop_packet(
                    hop,
                    packet,
                    socket,
                    LossKind {
                        cpu: hop.cpu.0,
                        location,
                        reason,
                        label,
                        protocol,
                        device: None,
                        socket,
                        reader: None,
                        sender: None,
                        port: refused,
                        by_kernel: false,
                        outbound: None,
                    },
                );
            }
            PacketStep::Refuse { port } => entry(&mut self.cpus, hop.cpu.0).refused = Some(port),
            PacketStep::State { socket, protocol, port, .. } => self.state(socket, protocol, port),
            PacketStep::Window { .. } => {}
            PacketStep::Exit { thread } => self.reader_gone(thread),
            PacketStep::Socket { protocol, port, tid, .. } => {
                if self.dumped.len() < MAX_SOCKETS {
                    self.dumped.push((protocol, port, tid));
                }
            }
        }
    }

    fn origin(hop: &Hop<'_>) -> Origin {
        match (hop.by, hop.call) {
            (Waker::Thread(thread), Some((call, begin_ns))) => Origin::Call { thread, call, begin_ns },
            (Waker::Unknown, _) => Origin::Unknown,
            _ => Origin::Kernel,
        }
    }

    fn queue(&mut self, hop: &Hop<'_>, packet: u64, length: u32, device: &[u8]) {
        let device = self.device(device);
        let cpu = entry(&mut self.cpus, hop.cpu.0);
        let receiving = cpu.receiving.is_some_and(|(known, by)| known == packet && by == hop.by);
        // The packet is forwarded, or passed on by a device on top of another one.
        let continues = receiving || cpu.transmitting == Some(packet);
        if receiving {
            cpu.receiving = None;
        }
        cpu.queued = Some(packet);
        if continues && self.in_flight.contains_key(&packet) {
            self.see(hop, packet, "forwarded");
        } else {
            let origin = PacketPaths::origin(hop);
            self.begin(hop, packet, origin, length, Stage::Queued);
            if let Origin::Call { begin_ns, .. } = origin {
                self.leg(Leg::Send, begin_ns, hop.t_ns, hop.covered);
            }
        }
        if let Some(flight) = self.in_flight.get_mut(&packet) {
            (flight.stage, flight.t_ns, flight.length, flight.device) = (Stage::Queued, hop.t_ns, length, device.or(flight.device));
        }
        self.see(hop, packet, "device queue");
    }

    fn transmit(&mut self, hop: &Hop<'_>, packet: u64, length: u32, device: &[u8], segments: u32) {
        let device = self.device(device);
        let cpu = entry(&mut self.cpus, hop.cpu.0);
        let queued = cpu.queued;
        cpu.transmitting = Some(packet);
        if self.in_flight.get(&packet).is_none_or(|flight| flight.stage != Stage::Queued) {
            // This is a segment of the packet that was just queued, split because the device cannot
            // do it, or a packet that was queued before the trace began.
            let whole = queued.and_then(|queued| self.in_flight.get(&queued).map(|flight| (queued, flight)));
            let whole =
                whole.filter(|(_, flight)| flight.device == device && matches!(flight.stage, Stage::Queued) && flight.length > length);
            let (origin, t_ns) = whole.map_or((Origin::Unknown, hop.t_ns), |(_, flight)| (flight.origin, flight.t_ns));
            if let Some((address, _)) = whole.filter(|(address, _)| *address != packet) {
                if let Some(flight) = self.in_flight.get_mut(&address) {
                    flight.segments = 0;
                }
            }
            self.begin(hop, packet, origin, length, Stage::Queued);
            if let Some(flight) = self.in_flight.get_mut(&packet) {
                (flight.t_ns, flight.device) = (t_ns, device);
            }
        }
        let Some(flight) = self.in_flight.get_mut(&packet) else { return };
        let (since, counted) = (flight.t_ns, flight.number.is_some());
        (flight.stage, flight.t_ns, flight.length, flight.device) = (Stage::Transmitting, hop.t_ns, length, device.or(flight.device));
        flight.segments = segments.max(1);
        if segments > 1 && self.segment_sizes.len() < MAX_FLOWS {
            let sender = flight.origin.thread();
            self.segment_sizes.insert(sender, length.saturating_sub(HEADERS).div_ceil(segments));
        }
        self.leg(Leg::Queue, since, hop.t_ns, counted);
        self.see(hop, packet, "transmission");
    }

    fn arrive(&mut self, hop: &Hop<'_>, packet: u64, length: Option<u32>, device: &[u8]) {
        let device = self.device(device);
        let fits = |flight: &PacketInFlight| {
            matches!(flight.stage, Stage::Transmitting | Stage::Sent) && length.is_none_or(|length| length <= flight.length)
        };
        if self.in_flight.get(&packet).is_none_or(|flight| !fits(flight)) {
            self.begin(hop, packet, Origin::Outside, length.unwrap_or(0), Stage::Arrived);
        }
        self.note_seen_again(packet);
        if let Some(flight) = self.in_flight.get_mut(&packet) {
            // The time of the transmission remains: the wire part ends at the protocols.
            (flight.stage, flight.device, flight.length) = (Stage::Arrived, device.or(flight.device), length.unwrap_or(flight.length));
        }
        self.see(hop, packet, "arrival");
    }

    /// Records that packets which the last device sent are seen again.
    fn note_seen_again(&mut self, packet: u64) {
        if let Some(flight) = self.in_flight.get(&packet).filter(|flight| matches!(flight.stage, Stage::Transmitting | Stage::Sent)) {
            if let Some(device) = flight.device {
                *entry(&mut self.seen_again, device) = true;
            }
        }
    }

    fn receive(&mut self, hop: &Hop<'_>, packet: u64, length: u32, device: &[u8]) {
        let device = self.device(device);
        let cpu = entry(&mut self.cpus, hop.cpu.0);
        let again = cpu.receiving.is_some_and(|(known, by)| known == packet && by == hop.by);
        let before = cpu.receiving.replace((packet, hop.by));
        if let Some((before, _)) = before.filter(|(before, _)| *before != packet) {
            self.not_delivered(before);
        }
        let fits = |flight: &PacketInFlight| match flight.stage {
            Stage::Transmitting | Stage::Sent | Stage::Arrived => length <= flight.length || flight.length == 0,
            Stage::Received => again,
            Stage::Queued | Stage::Ready => false,
        };
        if self.in_flight.get(&packet).is_none_or(|flight| !fits(flight)) {
            self.begin(hop, packet, Origin::Outside, length, Stage::Arrived);
        }
        self.note_seen_again(packet);
        let Some(flight) = self.in_flight.get_mut(&packet) else { return };
        let (since, counted, stage) = (flight.t_ns, flight.number.is_some(), flight.stage);
        let from_here = flight.origin != Origin::Outside;
        (flight.stage, flight.t_ns, flight.length, flight.device) = (Stage::Received, hop.t_ns, length, device.or(flight.device));
        if stage != Stage::Received && from_here {
            self.leg(Leg::Wire, since, hop.t_ns, counted);
        }
        self.see(hop, packet, "reception");
    }

    /// Remembers a packet for which no socket event has occurred yet.
    fn not_delivered(&mut self, packet: u64) {
        if let Some(flight) = self.in_flight.get(&packet).filter(|flight| flight.stage == Stage::Received) {
            if self.undelivered.len() == MAX_UNDELIVERED {
                self.undelivered.pop_front();
            }
            self.undelivered.push_back((packet, flight.id));
        }
    }

    fn remove_if(&mut self, packet: u64, id: u64) -> Option<PacketInFlight> {
        if let Some(cut) = self.split.remove(&id) {
            return Some(cut);
        }
        self.in_flight.get(&packet).filter(|flight| flight.id == id)?;
        self.in_flight.remove(&packet)
    }

    /// Returns the number of segments. A buffer that is not split yet counts as many segments as
    /// other buffers of its sender with that size.
    fn segments_of(&self, flight: &PacketInFlight) -> Segments {
        let (payload, size) =
            (flight.length.saturating_sub(HEADERS), self.segment_sizes.get(&flight.origin.thread()).copied().unwrap_or(0));
        if flight.stage == Stage::Queued && flight.segments == 1 && size > 0 && payload > size {
            return Segments { count: payload.div_ceil(size), estimated: true };
        }
        match flight.stage {
            // The socket has already taken some of them.
            Stage::Ready => Segments { count: self.left(flight), estimated: false },
            _ => Segments { count: flight.segments.max(1), estimated: false },
        }
    }

    fn drop_packet(&mut self, hop: &Hop<'_>, packet: u64, socket: Option<u32>, kind: LossKind) {
        self.see(hop, packet, "lost");
        let cpu = entry(&mut self.cpus, hop.cpu.0);
        if cpu.receiving.is_some_and(|(known, _)| known == packet) {
            cpu.receiving = None;
        }
        let flight = self.in_flight.remove(&packet);
        self.given_up_in_sockets.remove(&packet);
        // A buffer outside of networks (netlink, sockets within one host) has no protocol.
        if flight.is_none() && kind.protocol.is_none_or(|protocol| protocol == 0) {
            return;
        }
        let sender = flight.as_ref().and_then(|flight| flight.origin.thread());
        if hop.covered {
            let device = flight.as_ref().and_then(|flight| flight.device);
            let socket = socket.or(flight.as_ref().and_then(|flight| flight.socket));
            // The current values are used: later, another socket may be at its address.
            let known = socket.and_then(|socket| self.sockets.get(socket as usize));
            let reader = known.and_then(|socket| socket.reader);
            let port = kind.port.or(known.and_then(|socket| socket.port));
            let by_kernel = flight.as_ref().is_some_and(|flight| flight.origin == Origin::Kernel);
            let outbound = flight.as_ref().map(|flight| matches!(flight.stage, Stage::Queued | Stage::Transmitting));
            let kind = LossKind { device, socket, reader, sender, port, by_kernel, outbound, ..kind };
            let segments = flight.as_ref().map_or(Segments::ONE, |flight| self.segments_of(flight));
            self.losses.add(Loss { t_ns: hop.t_ns, length: flight.as_ref().map(|flight| flight.length), segments, kind });
        }
        if let Some((receiving, _)) = entry(&mut self.cpus, hop.cpu.0).receiving.filter(|_| flight.is_none()) {
            // This is one of the segments into which the kernel split a received packet.
            if let Some(whole) = self.in_flight.get_mut(&receiving).filter(|flight| flight.segments > 1) {
                whole.segments -= 1;
                let (socket, id) = (whole.socket, whole.id);
                self.refused_piece(socket, id);
            }
        }
        if let Some(mut flight) = flight {
            flight.socket = flight.socket.or(socket);
            self.finish_packet(flight, End::Lost, hop.t_ns, (None, None));
        }
    }

    /// Ends the path of a packet for which no event shows the end.
    fn end_unseen(&mut self, flight: PacketInFlight) {
        let loops = flight.device.is_some_and(|device| self.seen_again.get(device as usize).copied().unwrap_or(false));
        let end = match flight.stage {
            Stage::Queued if flight.segments == 0 => End::Split,
            Stage::Sent | Stage::Transmitting if !loops => End::Left,
            Stage::Received => End::Kernel,
            Stage::Queued | Stage::Transmitting | Stage::Sent | Stage::Arrived | Stage::Ready => End::Unknown,
        };
        let t_ns = flight.t_ns;
        self.finish_packet(flight, end, t_ns, (None, None));
    }

    fn finish_packet(&mut self, flight: PacketInFlight, end: End, t_ns: i64, (reader, wakeup): (Option<ThreadId>, Option<Wakeup>)) {
        let Some(number) = flight.number else { return };
        let complete = !flight.gap && end.is_known();
        self.ends[end as usize] += 1;
        self.complete += u64::from(complete);
        self.segments += u64::from(flight.segments.max(1));
        let key = FlowKey {
            sender: flight.origin.thread(),
            socket: flight.socket,
            device: if flight.socket.is_none() { flight.device } else { None },
        };
        if let Some(log) = &mut self.log {
            log.record(key, LoggedPacket { number, begin_ns: flight.begin_ns, end_ns: t_ns, end });
        }
        let room = self.flows.len() < MAX_FLOWS || self.flows.contains_key(&key);
        let flow = if room { self.flows.entry(key).or_default() } else { &mut self.other_flows };
        flow.ends[end as usize] += 1;
        flow.complete += u64::from(complete);
        let ns = t_ns.saturating_sub(flight.begin_ns).max(0) as u64;
        if end == End::Read {
            flow.whole.record(ns);
        }
        let wanted = match self.wanted {
            None => false,
            Some(Wanted::Number(wanted)) => wanted == number,
            Some(Wanted::Slowest) => {
                end == End::Read && self.found.as_ref().is_none_or(|slowest| slowest.end_ns.saturating_sub(slowest.begin_ns) < ns as i64)
            }
        };
        if wanted {
            let PacketInFlight { begin_ns, origin, length, steps, .. } = flight;
            self.found = Some(PacketPath { number, begin_ns, end_ns: t_ns, origin, end, complete, length, reader, wakeup, steps });
        }
    }

    /// Ends all paths. Must be called once, after the last event.
    pub fn finish(&mut self) {
        let cut = std::mem::take(&mut self.split).into_values();
        let in_flight: Vec<PacketInFlight> = std::mem::take(&mut self.in_flight).into_values().chain(cut).collect();
        for flight in in_flight {
            let waits = match flight.stage {
                Stage::Queued => flight.segments > 0,
                Stage::Arrived | Stage::Ready => true,
                Stage::Transmitting | Stage::Sent | Stage::Received => false,
            };
            if waits {
                let t_ns = flight.t_ns;
                self.finish_packet(flight, End::Waiting, t_ns, (None, None));
            } else {
                self.end_unseen(flight);
            }
        }
    }

    /// Handles lost events: packets in flight may have moved on unseen.
    fn forget(&mut self) {
        for flight in self.in_flight.values_mut() {
            flight.gap = true;
        }
        for cut in std::mem::take(&mut self.split).into_values() {
            self.end_unseen(cut);
        }
        self.sockets.iter_mut().for_each(Socket::forget);
        self.given_up_in_sockets.clear();
        self.undelivered.clear();
        self.cpus.clear();
    }
}
