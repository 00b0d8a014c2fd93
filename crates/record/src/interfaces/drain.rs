//! Empties the rings of all devices into one file, in order of time.
//!
//! The kernel may hold a block back for a while, so another device's block may still contain an
//! older packet. For that reason packets wait here until they are older than that time. The memory
//! of waiting packets is limited: if it is used up, they are written at once, and then only the
//! packets of each single device are in order.

use super::device::Link;
use super::realtime::Realtime;
use super::ring::{Frame, Ring};
use super::Shared;
use crate::clock::{unix_now, Clock};
use crate::output::pcap::{Capture, Taken};
use longpole_pcapng::Direction;
use rustix::event::{poll, PollFd, PollFlags};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time after a block's first packet at which the kernel hands the block over, even if it is not
/// full.
pub const RETIRE: Duration = Duration::from_millis(40);
/// Age in ns at which packets are written.
const HOLD: i64 = 70_000_000;
/// Longest time between two looks at the rings.
const PERIOD: Duration = Duration::from_millis(100);
/// Shortest time between two writes.
const PACE: Duration = Duration::from_millis(50);
/// Largest number of bytes of packets that wait.
const MAX_WAITING_BYTES: usize = 16 << 20;
/// Number of blocks of one device that are taken before the next device is served.
const BLOCKS: usize = 16;
/// Time within which the kernel hands over the last block after the capture was stopped.
const LAST: Duration = Duration::from_millis(60);

/// Size of Linux's cooked header (LINKTYPE_LINUX_SLL) in bytes.
const COOKED_HEADER_BYTES: usize = 16;

/// A device that is captured.
#[derive(Debug)]
pub struct CapturedDevice {
    name: String,
    /// Index of the interface in the file.
    index: usize,
    link: Link,
    ring: Ring,
    /// True if the socket once reported that the device is down.
    down: bool,
    /// True if the device was removed.
    gone: bool,
}

impl CapturedDevice {
    pub fn new(name: String, index: usize, link: Link, ring: Ring) -> CapturedDevice {
        CapturedDevice { name, index, link, ring, down: false, gone: false }
    }
}

/// A packet that waits to be written.
#[derive(Clone, Copy, Debug)]
struct Held {
    time: i64,
    /// Number of packets that were lost on the device before this one.
    dropped: u64,
    /// Position of the packet in [`Drain::bytes`].
    at: usize,
    captured: u32,
    length: u32,
    device: u16,
    direction: Direction,
}

/// State of the thread that empties the rings.
#[derive(Debug)]
pub struct Drain {
    devices: Vec<CapturedDevice>,
    capture: Capture,
    realtime: Realtime,
    held: Vec<Held>,
    bytes: Vec<u8>,
    written: Instant,
    wake: Arc<OwnedFd>,
    shared: Arc<Shared>,
}

impl Drain {
    pub fn new(devices: Vec<CapturedDevice>, capture: Capture, clock: Clock, wake: Arc<OwnedFd>, shared: Arc<Shared>) -> Drain {
        let realtime = Realtime::new(clock);
        Drain { devices, capture, realtime, held: Vec::new(), bytes: Vec::new(), written: Instant::now(), wake, shared }
    }

    /// Empties the rings until the capture is stopped, and completes the file.
    pub fn run(mut self) {
        while !self.shared.stop.load(Ordering::Acquire) {
            self.wait(PERIOD);
            self.turn(false);
        }
        for device in &self.devices {
            let _ = device.ring.keep(0);
        }
        // No event wakes this thread for a block that is not full until its time has passed.
        std::thread::sleep(LAST);
        self.realtime.refresh(true);
        self.turn(true);
        let jump = self.realtime.jump;
        if jump != 0 {
            let ms = jump as f64 / -1e6;
            self.shared.diagnostic(format!(
                "the system's clock was set by {ms:+.0} ms during the recording; times of packets are on the recording's clock"
            ));
        }
        let result = self.capture.finish(unix_now());
        if let Err(error) = result {
            self.shared.diagnostic(error.to_string());
        }
        self.update_totals();
    }

    fn wait(&mut self, longest: Duration) {
        let timeout = rustix::time::Timespec { tv_sec: 0, tv_nsec: i64::from(longest.subsec_nanos()) };
        let mut ready: Vec<PollFd<'_>> = vec![PollFd::from_borrowed_fd(self.wake.as_fd(), PollFlags::IN)];
        ready.extend(
            self.devices.iter().filter(|device| !device.gone).map(|device| PollFd::from_borrowed_fd(device.ring.as_fd(), PollFlags::IN)),
        );
        let _ = poll(&mut ready, Some(&timeout));
    }

    /// Takes what is in the rings and writes what is old enough; everything if `last` is set.
    fn turn(&mut self, last: bool) {
        self.realtime.refresh(false);
        for at in 0..self.devices.len() {
            while self.take(at) && last {}
            self.look_after(at);
        }
        if last || self.written.elapsed() >= PACE || self.bytes.len() >= MAX_WAITING_BYTES {
            self.written = Instant::now();
            let full = last || self.bytes.len() >= MAX_WAITING_BYTES;
            self.write(if full { i64::MAX } else { self.realtime.newest() - HOLD });
            self.update_totals();
        }
    }

    /// Takes some blocks of a device. Returns true if there may be more.
    fn take(&mut self, at: usize) -> bool {
        let Drain { devices, realtime, held, bytes, .. } = self;
        let device = &mut devices[at];
        for _ in 0..BLOCKS {
            let begin = held.len();
            // Index of the first packet after a loss. Later packets of the same block also have the
            // mark.
            let mut losing = None;
            let link = device.link;
            let any = device.ring.take(|frame| {
                if frame.losing && losing.is_none() {
                    losing = Some(held.len());
                }
                hold(held, bytes, at as u16, link, &frame, realtime.convert(frame.time));
            });
            if !any {
                return false;
            }
            let counted = device.ring.counts().unwrap_or_default();
            let mut totals = self.shared.totals();
            let count = &mut totals.interfaces[at];
            count.received += u64::from(counted.packets);
            count.dropped += u64::from(counted.dropped);
            drop(totals);
            if counted.dropped > 0 {
                match held.get_mut(losing.unwrap_or(begin)) {
                    Some(packet) => packet.dropped = u64::from(counted.dropped),
                    None => self.capture.lose_on(device.index, u64::from(counted.dropped)),
                }
            }
        }
        true
    }

    /// Counts the packets that a device dropped, and checks if the device still exists.
    fn look_after(&mut self, at: usize) {
        let device = &mut self.devices[at];
        let counted = device.ring.counts().unwrap_or_default();
        if counted.packets > 0 || counted.dropped > 0 {
            let mut totals = self.shared.totals();
            let count = &mut totals.interfaces[at];
            count.received += u64::from(counted.packets);
            count.dropped += u64::from(counted.dropped);
            drop(totals);
            self.capture.lose_on(device.index, u64::from(counted.dropped));
        }
        if device.gone {
            return;
        }
        let down = device.ring.take_error();
        device.down |= down.is_some();
        // A device goes down before it is removed, and only going down is an error of the socket.
        device.gone = device.down && device.ring.is_orphaned();
        if device.gone {
            self.shared.totals().interfaces[at].vanished = true;
            self.shared.diagnostic(format!("the network device {} disappeared; its packets until then are kept", device.name));
        } else if let Some(error) = down {
            self.shared.diagnostic(format!("the network device {}: {error}; its packets are captured again when it is up", device.name));
        }
    }

    /// Writes the waiting packets that are older than `before`.
    fn write(&mut self, before: i64) {
        // The sort must be stable: packets with equal times keep the kernel's order.
        self.held.sort_by_key(|packet| packet.time);
        let count = self.held.partition_point(|packet| packet.time < before);
        for packet in &self.held[..count] {
            let device = &self.devices[usize::from(packet.device)];
            self.capture.lose_on(device.index, packet.dropped);
            let data = &self.bytes[packet.at..packet.at + packet.captured as usize];
            let taken = Taken { direction: packet.direction, length: packet.length, bytes: data };
            if let Err(error) = self.capture.add(device.index, &taken, packet.time.max(0) as u64, true) {
                self.shared.diagnostic(error.to_string());
            }
            if self.capture.is_full() {
                flush(&mut self.capture, &self.shared);
            }
        }
        flush(&mut self.capture, &self.shared);
        let rest: Vec<Held> = self.held.split_off(count);
        let mut bytes = Vec::with_capacity(rest.iter().map(|packet| packet.captured as usize).sum());
        self.held.clear();
        for mut packet in rest {
            let at = bytes.len();
            bytes.extend_from_slice(&self.bytes[packet.at..packet.at + packet.captured as usize]);
            packet.at = at;
            self.held.push(packet);
        }
        self.bytes = bytes;
    }

    fn update_totals(&mut self) {
        let refused = self.capture.take_refused();
        let mut totals = self.shared.totals();
        totals.refused += refused.packets;
        totals.packets = self.capture.packets();
    }
}

/// Writes the packets to the file. Those that the disk does not take are dropped and counted.
fn flush(capture: &mut Capture, shared: &Shared) {
    if let Err(error) = capture.flush() {
        shared.diagnostic(format!("packets of interfaces could not be written and count as dropped: {error}"));
    }
}

/// Stores a packet, with the link header that a reader of the file expects.
fn hold(held: &mut Vec<Held>, bytes: &mut Vec<u8>, device: u16, link: Link, frame: &Frame<'_>, time: i64) {
    let at = bytes.len();
    let mut length = frame.length;
    if link.cooked {
        bytes.extend_from_slice(&u16::from(frame.kind).to_be_bytes());
        bytes.extend_from_slice(&frame.hardware.to_be_bytes());
        bytes.extend_from_slice(&(frame.sender.len() as u16).to_be_bytes());
        let mut address = [0; 8];
        address[..frame.sender.len()].copy_from_slice(frame.sender);
        bytes.extend_from_slice(&address);
        bytes.extend_from_slice(&frame.protocol.to_be_bytes());
        length = length.saturating_add(COOKED_HEADER_BYTES as u32);
        bytes.extend_from_slice(frame.bytes);
    } else {
        // The kernel removes VLAN headers from Ethernet frames; this puts them back in their place.
        match frame.vlan.filter(|_| link.kind == longpole_pcapng::LinkType::ETHERNET && frame.bytes.len() >= 12) {
            Some((kind, tag)) => {
                bytes.extend_from_slice(&frame.bytes[..12]);
                bytes.extend_from_slice(&kind.to_be_bytes());
                bytes.extend_from_slice(&tag.to_be_bytes());
                bytes.extend_from_slice(&frame.bytes[12..]);
                length = length.saturating_add(4);
            }
            None => bytes.extend_from_slice(frame.bytes),
        }
    }
    let direction = match frame.kind {
        libc::PACKET_OUTGOING => Direction::Outbound,
        _ => Direction::Inbound,
    };
    held.push(Held { time, dropped: 0, at, captured: (bytes.len() - at) as u32, length, device, direction });
}
