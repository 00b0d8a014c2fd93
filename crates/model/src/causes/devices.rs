//! Requests to block devices, and packets between the two ends of a network device.
//!
//! Both are tokens in a queue: the issuer or sender puts the token, the completion handler or
//! receiver gets it, and the link between the two is the time in flight.

use super::{Composer, Slots};
use crate::hash::IdMap;
use crate::interaction::{Cause, Effect, MachineId, QueueId};
use crate::kinds::{LinkKind, OUTSIDE};
use crate::linux::net::{Hop, PacketStep};
use crate::linux::watch::{ContextId, CpuId, RequestStep, Waker};
use crate::names::NameId;
use crate::tokens::dense::Dense;
use crate::tokens::Amount;
use longpole_trace::event::Catalogue;
use std::collections::{HashMap, VecDeque};

/// Maximum number of requests, and of packets, in flight. Beyond it the oldest packets are given
/// up, and all requests, because the ends of most of them were not seen.
const MAX_UNDER_WAY: usize = 1 << 14;
/// Maximum number of packets in a device's queue that may be segmented.
const MAX_SEGMENTABLE: usize = 1 << 10;
/// Length in bytes of the headers of a segment: Ethernet, IPv4, TCP with timestamps. Other headers
/// have nearly the same length.
const HEADERS: u32 = 66;
/// Sector of a request to flush the device's cache, which has no data and is not inserted. The
/// kernel makes one flush at a time, for all who ask for one meanwhile.
const FLUSH: i64 = 0;
/// Sector that the completion of a flush has. Those of the requests that asked for it, if they have
/// no data themselves, follow with the sector [`FLUSH`].
const FLUSHED: i64 = -1;
/// Key of the flush that follows the one that is under way.
const NEXT_FLUSH: i64 = -2;
/// Length in bytes from which a packet may be segmented; `PIECES` is the maximum number of
/// segments.
const SEGMENTED_BYTES: u32 = 1600;
const PIECES: u64 = 64;

/// What is in flight on disks and network devices.
#[derive(Debug, Default)]
pub(super) struct Devices {
    /// Open requests, by device and sector.
    requests: HashMap<(i64, i64), Request>,
    /// Packets on their way, by the address of the buffer.
    packets: IdMap<u64, Packet>,
    /// Address and id of each packet, the oldest first.
    order: VecDeque<(u64, u64)>,
    next_id: u64,
    /// The queue of each disk, by the number of the device.
    disks: HashMap<i64, QueueId>,
    /// The disk whose requests an interrupt completes.
    disk_of: HashMap<ContextId, i64>,
    /// The links of network devices, by the device's number.
    links: Dense<Link>,
    slots: Slots,
    /// The name of the flow of each slot.
    flows: Vec<NameId>,
    /// The machines of [`Composer::outside_machine`] and [`Composer::lost_events_machine`], once
    /// their state was emitted.
    outside: Option<MachineId>,
    lost_events: Option<MachineId>,
}

/// A token in a queue; the slot identifies its flow.
#[derive(Clone, Copy, Debug)]
struct TokenSlot {
    queue: QueueId,
    slot: u32,
}

/// A request that a block device has not completed.
#[derive(Clone, Copy, Debug)]
struct Request {
    token: TokenSlot,
    by: MachineId,
    t: u64,
    progress: Progress,
}

/// How far a request to a block device has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// In the queue in front of the device.
    Queued,
    /// In the queue again, because the device did not accept it.
    Requeued,
    /// The device has it since then.
    Issued(u64),
    /// The device has made the flush, and perhaps nobody without data has asked for it.
    Flushed,
}

/// A packet in flight.
#[derive(Clone, Copy, Debug)]
struct Packet {
    token: TokenSlot,
    id: u64,
    by: MachineId,
    t: u64,
    length: u32,
}

/// The transmit side of a network device.
#[derive(Debug)]
struct Link {
    queue: QueueId,
    /// The packets in its queueing discipline that the driver has not received unchanged. A packet
    /// may be cut into segments that no earlier event has shown.
    segmentable: VecDeque<Segmentable>,
}

/// A packet in a device's queue that may be segmented.
#[derive(Clone, Copy, Debug)]
struct Segmentable {
    packet: u64,
    /// Id of the [`Packet`] it belongs to; `token` is the token that this packet holds.
    id: u64,
    token: TokenSlot,
    /// Bytes that the driver has not received yet.
    left: u32,
    /// True if the driver has received a segment of it.
    cut: bool,
}

/// A step of a packet, without its texts.
#[derive(Clone, Copy, Debug)]
pub(super) struct PacketEvent {
    cpu: CpuId,
    by: Waker,
    packet: u64,
    length: u32,
    /// For a packet on its way out: the device, and true if the device's driver makes this step.
    out: Option<(u32, bool)>,
}

/// Numbers of network devices, in the order of their first packets.
#[derive(Debug, Default)]
pub(super) struct DeviceNumbers {
    names: Vec<Vec<u8>>,
    numbers: HashMap<Vec<u8>, u32>,
    /// The device of the previous packet, which is usually that of the next one.
    last: u32,
}

impl DeviceNumbers {
    fn of(&mut self, name: &[u8]) -> u32 {
        if self.names.get(self.last as usize).is_some_and(|last| last == name) {
            return self.last;
        }
        self.last = match self.numbers.get(name) {
            Some(&known) => known,
            None => {
                let next = self.names.len() as u32;
                self.names.push(name.to_vec());
                self.numbers.insert(name.to_vec(), next);
                next
            }
        };
        self.last
    }

    fn name(&self, device: u32) -> &[u8] {
        self.names.get(device as usize).map_or(&[], Vec::as_slice)
    }
}

impl PacketEvent {
    pub fn of(hop: &Hop<'_>, devices: &mut DeviceNumbers) -> Option<PacketEvent> {
        let (packet, length, out) = match hop.step {
            PacketStep::Queue { packet, length, device } => (packet, length, Some((devices.of(device), false))),
            PacketStep::Transmit { packet, length, device, .. } => (packet, length, Some((devices.of(device), true))),
            PacketStep::Receive { packet, length, .. } => (packet, length, None),
            _ => return None,
        };
        Some(PacketEvent { cpu: hop.cpu, by: hop.by, packet, length, out })
    }
}

impl Composer {
    /// A slot and name for something in flight. Both are reused after its arrival.
    fn flow(&mut self) -> (u32, NameId) {
        let slot = self.devices.slots.take();
        while self.devices.flows.len() <= slot as usize {
            let name = self.system.vocabulary.names.intern(&format!("#{}", self.devices.flows.len()));
            self.devices.flows.push(name);
        }
        (slot, self.devices.flows[slot as usize])
    }

    /// Takes all units of a token, or those that are left, and frees its slot.
    fn take(&mut self, machine: MachineId, token: TokenSlot) {
        let flow = Some(self.devices.flows[token.slot as usize]);
        self.emit(Effect::Get { machine, queue: token.queue, amount: Amount::All, flow });
        self.devices.slots.give(token.slot);
    }

    /// Processes a step of the request for this device and sector.
    pub(super) fn disk_request(&mut self, catalogue: &Catalogue, cpu: CpuId, step: RequestStep, at: (i64, i64), by: Waker) {
        let progress = self.devices.requests.get(&at).map(|request| request.progress);
        match step {
            RequestStep::Allocate if at.1 != FLUSH => {}
            RequestStep::Allocate => {
                // The completions of those who asked for a flush that was made may follow later,
                // while another CPU asks for the next one.
                let at = if matches!(progress, Some(Progress::Issued(_) | Progress::Flushed)) { (at.0, NEXT_FLUSH) } else { at };
                if !self.devices.requests.contains_key(&at) {
                    self.requested(catalogue, cpu, at, by, Progress::Queued);
                }
            }
            RequestStep::Insert if progress == Some(Progress::Requeued) => {}
            RequestStep::Insert => self.requested(catalogue, cpu, at, by, Progress::Queued),
            RequestStep::Issue => {
                if at.1 == FLUSH && !matches!(progress, Some(Progress::Queued | Progress::Requeued)) {
                    self.give_up(at);
                    self.promote_flush(at.0);
                }
                let now = Progress::Issued(self.now);
                match self.devices.requests.get_mut(&at) {
                    Some(request) if matches!(request.progress, Progress::Queued | Progress::Requeued) => request.progress = now,
                    _ => self.requested(catalogue, cpu, at, by, now),
                }
            }
            RequestStep::Requeue => {
                if let Some(request) = self.devices.requests.get_mut(&at) {
                    request.progress = Progress::Requeued;
                }
            }
            RequestStep::Merge => self.give_up(at),
            RequestStep::Complete if at.1 == FLUSHED => {
                if let Some(request) = self.devices.requests.get_mut(&(at.0, FLUSH)) {
                    request.progress = Progress::Flushed;
                }
            }
            // One more of those who asked for the flush before.
            RequestStep::Complete if at.1 == FLUSH && progress == Some(Progress::Queued) => {}
            RequestStep::Complete => {
                self.completed(catalogue, cpu, at, by);
                if at.1 == FLUSH {
                    self.promote_flush(at.0);
                }
            }
        }
    }

    /// Makes the next flush of a device the current one, if there is a next one.
    fn promote_flush(&mut self, device: i64) {
        if let Some(next) = self.devices.requests.remove(&(device, NEXT_FLUSH)) {
            self.devices.requests.insert((device, FLUSH), next);
        }
    }

    fn requested(&mut self, catalogue: &Catalogue, cpu: CpuId, (device, sector): (i64, i64), by: Waker, progress: Progress) {
        if self.devices.requests.len() >= MAX_UNDER_WAY {
            let mut all: Vec<_> = self.devices.requests.keys().copied().collect();
            all.sort_unstable();
            all.into_iter().for_each(|at| self.give_up(at));
        }
        let Some(machine) = self.machine_of_waker(catalogue, Some(cpu), by) else { return };
        self.give_up((device, sector));
        let queue = match self.devices.disks.get(&device) {
            Some(queue) => *queue,
            None => {
                let queue = self.system.vocabulary.queue(&self.linux.block_devices.name(device));
                self.devices.disks.insert(device, queue);
                queue
            }
        };
        let (slot, flow) = self.flow();
        self.devices.requests.insert((device, sector), Request { token: TokenSlot { queue, slot }, by: machine, t: self.now, progress });
        self.emit(Effect::Put { machine, queue, n: 1, flow: Some(flow), link: Some(self.words.links[LinkKind::Disk]) });
    }

    /// Forgets a request, if there is one, because its completion will not be seen.
    fn give_up(&mut self, at: (i64, i64)) {
        if let Some(old) = self.devices.requests.remove(&at) {
            let outside = self.outside_machine();
            self.take(outside, old.token);
        }
    }

    fn completed(&mut self, catalogue: &Catalogue, cpu: CpuId, (device, sector): (i64, i64), by: Waker) {
        let Some(Request { token, by: of, t, .. }) = self.devices.requests.remove(&(device, sector)) else { return };
        if let Some(interrupt) = self.interrupt(cpu, by) {
            self.devices.disk_of.insert(interrupt, device);
        }
        match self.machine_of_waker(catalogue, Some(cpu), by) {
            Some(machine) => {
                self.turn_to(cpu, by, (of, false), t);
                self.take(machine, token);
                self.note_taken(Some(cpu), by);
            }
            None => {
                let outside = self.outside_machine();
                self.take(outside, token);
            }
        }
    }

    /// The request that the disk of this interrupt has had for the longest time.
    pub(super) fn oldest_request(&self, interrupt: ContextId) -> Option<Cause> {
        let disk = self.devices.disk_of.get(&interrupt)?;
        let of_disk = self.devices.requests.iter().filter(|((device, _), _)| device == disk);
        let since = |request: &Request| match request.progress {
            Progress::Issued(t) => Some(t),
            Progress::Queued | Progress::Requeued | Progress::Flushed => None,
        };
        let issued = of_disk.filter_map(|(at, request)| Some((since(request)?, *at, request)));
        let (_, _, request) = issued.min_by_key(|&(t, at, _)| (t, at))?;
        Some(Cause { by: request.by, at: Some(request.t), link: Some(self.words.links[LinkKind::Disk]) })
    }

    /// The machine that represents all machines whose events are missing.
    pub(super) fn lost_events_machine(&mut self) -> MachineId {
        let machine = self.system.vocabulary.lost_events();
        if self.devices.lost_events.is_none() {
            self.devices.lost_events = Some(machine);
            self.emit(Effect::State { machine, state: self.words.unknown });
        }
        machine
    }

    /// The machine outside of the trace that takes what no machine of the trace takes.
    pub(super) fn outside_machine(&mut self) -> MachineId {
        let machine = self.system.vocabulary.machine("", OUTSIDE);
        if self.devices.outside.is_none() {
            self.devices.outside = Some(machine);
            self.emit(Effect::State { machine, state: self.words.outside });
        }
        machine
    }

    /// Processes a packet that the driver gets: either a queued packet, or a segment of one.
    fn cut(&mut self, machine: MachineId, device: u32, hop: &PacketEvent) {
        let Some(link) = self.devices.links.get_mut(device) else { return };
        if let Some(place) = link.segmentable.iter().rposition(|whole| whole.packet == hop.packet && !whole.cut) {
            link.segmentable.remove(place);
            return;
        }
        // A packet with fewer bytes left than this segment has been sent completely: the headers
        // differ slightly in length, so a few bytes may remain.
        let mut done = Vec::new();
        while let Some(whole) = link.segmentable.front().filter(|whole| whole.left < hop.length) {
            done.extend(whole.cut.then_some(whole.token));
            link.segmentable.pop_front();
        }
        let mut piece = None;
        if let Some(whole) = link.segmentable.front_mut() {
            let known = self.devices.packets.get(&whole.packet).is_some_and(|packet| packet.id == whole.id);
            if known && !whole.cut {
                // The buffer of the packet may be reused from now on.
                self.devices.packets.remove(&whole.packet);
                whole.cut = true;
            }
            whole.left -= hop.length.saturating_sub(HEADERS).min(whole.left);
            piece = whole.cut.then_some(whole.token);
            if whole.left <= HEADERS {
                done.extend(piece);
                link.segmentable.pop_front();
            }
        }
        if let Some(token) = piece {
            let flow = Some(self.devices.flows[token.slot as usize]);
            self.emit(Effect::Get { machine, queue: token.queue, amount: Amount::Units(1), flow });
            self.note_taken(Some(hop.cpu), hop.by);
        }
        for token in done {
            self.take(machine, token);
        }
    }

    pub(super) fn hop(&mut self, catalogue: &Catalogue, hop: &PacketEvent) {
        let Some(machine) = self.machine_of_waker(catalogue, Some(hop.cpu), hop.by) else { return };
        if let Some((device, true)) = hop.out {
            self.cut(machine, device, hop);
        }
        let known = self.devices.packets.get(&hop.packet).copied();
        if hop.out.is_some() && known.is_none() && matches!(hop.by, Waker::Context { id, .. } if self.is_timed(hop.cpu, id)) {
            // If it is unknown which thread set the timer, a packet that the stack sends by this
            // timer shows no cause.
            return;
        }
        match hop.out {
            Some((device, transmits)) => {
                let same = known.filter(|packet| self.devices.links.get(device).is_some_and(|link| link.queue == packet.token.queue));
                match known {
                    // Another packet in the same buffer, whose former packet was segmented or
                    // dropped.
                    Some(_) if !transmits && same.is_some() => self.reuse_buffer(hop.packet, device),
                    // The next step of the packet, by the same machine.
                    Some(packet) if packet.by == machine => return,
                    Some(packet) => {
                        self.devices.packets.remove(&hop.packet);
                        self.turn_to(hop.cpu, hop.by, (packet.by, true), packet.t);
                        self.take(machine, packet.token);
                        self.note_taken(Some(hop.cpu), hop.by);
                    }
                    None => {}
                }
                let queue = match self.devices.links.get(device) {
                    Some(link) => link.queue,
                    None => {
                        let queue =
                            self.system.vocabulary.queue(&format!("net {}", String::from_utf8_lossy(self.observed.devices.name(device))));
                        *self.devices.links.slot(device) = Some(Link { queue, segmentable: VecDeque::new() });
                        queue
                    }
                };
                let (slot, flow) = self.flow();
                self.devices.next_id += 1;
                let id = self.devices.next_id;
                let mut given_up = None;
                if let (false, Some(link)) = (transmits, self.devices.links.get_mut(device)) {
                    if link.segmentable.len() >= MAX_SEGMENTABLE {
                        given_up = link.segmentable.pop_front().filter(|whole| whole.cut);
                    }
                    link.segmentable.push_back(Segmentable {
                        packet: hop.packet,
                        id,
                        token: TokenSlot { queue, slot },
                        left: hop.length,
                        cut: false,
                    });
                }
                if let Some(whole) = given_up {
                    let outside = self.outside_machine();
                    self.take(outside, whole.token);
                }
                let n = if transmits || hop.length <= SEGMENTED_BYTES { 1 } else { PIECES };
                self.devices
                    .packets
                    .insert(hop.packet, Packet { token: TokenSlot { queue, slot }, id, by: machine, t: self.now, length: hop.length });
                self.devices.order.push_back((hop.packet, id));
                self.emit(Effect::Put { machine, queue, n, flow: Some(flow), link: Some(self.words.links[LinkKind::Wire]) });
                while self.devices.order.len() > MAX_UNDER_WAY {
                    let Some((old, id)) = self.devices.order.pop_front() else { break };
                    if self.devices.packets.get(&old).is_some_and(|packet| packet.id == id) {
                        if let Some(packet) = self.devices.packets.remove(&old) {
                            let outside = self.outside_machine();
                            self.take(outside, packet.token);
                        }
                    }
                }
            }
            None => {
                // A longer packet is another one in the same buffer.
                let Some(packet) = known.filter(|packet| hop.length <= packet.length) else { return };
                self.devices.packets.remove(&hop.packet);
                self.turn_to(hop.cpu, hop.by, (packet.by, true), packet.t);
                self.take(machine, packet.token);
                self.note_taken(Some(hop.cpu), hop.by);
            }
        }
    }

    /// Gives up all packets in flight, because their arrival is no longer recorded.
    pub(super) fn forget_packets(&mut self) {
        let outside = self.outside_machine();
        self.devices.order.clear();
        let packets = std::mem::take(&mut self.devices.packets).into_values().map(|packet| packet.token);
        let cut = self.devices.links.values_mut().flat_map(|link| std::mem::take(&mut link.segmentable)).filter(|whole| whole.cut);
        let mut tokens: Vec<TokenSlot> = packets.chain(cut.map(|whole| whole.token)).collect();
        tokens.sort_by_key(|token| token.slot);
        for token in tokens {
            self.take(outside, token);
        }
    }

    /// Processes the reuse of a packet's buffer: the former packet was segmented, or is gone.
    fn reuse_buffer(&mut self, packet: u64, device: u32) {
        let Some(old) = self.devices.packets.remove(&packet) else { return };
        let segmentable = self.devices.links.get_mut(device).map(|link| &mut link.segmentable);
        match segmentable.and_then(|packets| packets.iter_mut().find(|whole| whole.id == old.id)) {
            Some(whole) => whole.cut = true,
            None => {
                let outside = self.outside_machine();
                self.take(outside, old.token);
            }
        }
    }
}
