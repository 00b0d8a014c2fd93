//! Links that are full, or long: the time that packets wait between their device's queue and the
//! wire.
//!
//! A packet that is passed to a device waits in its queueing discipline while the link is busy with
//! earlier packets. The union of these waits is the time in which the link had more to carry than
//! it could. Links without a discipline, such as the loopback, pass packets on within microseconds,
//! so that the union is a small part of the time however much they carry.
//!
//! In a *full* link the wait grows with the queue, and a packet that finds the queue empty leaves
//! at once. In a *long* link (netem's delay, a satellite) every packet waits equally long,
//! including the first.
//!
//! Example: with `tc qdisc add dev eth0 root tbf rate 40mbit …`, a download waits in eth0 all the
//! time.

use longpole_model::hash::IdMap;
use longpole_model::linux::net::{Hop, PacketStep};

/// Largest number of devices; further ones are not counted. `MAX_PACKETS` is the largest number
/// of packets that wait in their queues; if there are more, all are forgotten.
const MAX_DEVICES: usize = 1 << 10;
const MAX_PACKETS: usize = 1 << 16;
/// The kernel's name for the discipline of a device without a queue. Devices of several network
/// namespaces may share a name, and packets wait in the one that has a queue.
const NO_QUEUE: &[u8] = b"noqueue";
/// Number of stretches of waits that are kept because a later one may still overlap with them.
const MAX_STRETCHES: usize = 1 << 10;

/// The queue of a network device.
#[derive(Clone, Debug, Default)]
pub struct Link {
    pub device: String,
    /// Root queueing discipline of the device, if known.
    pub discipline: Option<String>,
    /// Number of packets that passed the device, without those that were split there.
    pub packets: u64,
    /// Bytes that arrived at the device and were not dropped there.
    pub bytes: u64,
    pub waited_ns: u64,
    pub shortest_ns: u64,
    /// Time in which at least one packet waited.
    pub busy_ns: u64,
    /// Begin and end of stretches in which packets waited, without overlap.
    stretches: Vec<(i64, i64)>,
}

impl Link {
    fn leaves(&mut self, since: i64, t: i64) {
        let (since, ns) = (since.min(t), t.saturating_sub(since).max(0) as u64);
        self.shortest_ns = if self.packets == 0 { ns } else { self.shortest_ns.min(ns) };
        self.packets += 1;
        self.waited_ns += ns;
        let mut begin = since;
        // Packets leave in the order of time, so only the last stretches can overlap with this one.
        while let Some(&(from, to)) = self.stretches.last().filter(|(_, to)| *to >= since) {
            begin = begin.min(from);
            self.busy_ns -= (to - from) as u64;
            self.stretches.pop();
        }
        self.busy_ns += (t - begin).max(0) as u64;
        if self.stretches.len() >= MAX_STRETCHES {
            self.stretches.drain(..MAX_STRETCHES / 2);
        }
        self.stretches.push((begin, t));
    }

    pub fn mean_ns(&self) -> u64 {
        self.waited_ns / self.packets.max(1)
    }

    /// Returns whether no packet found the queue empty: the link itself takes this time, or the
    /// queue is never empty. That is so if the shortest wait is at least `most` times the mean.
    pub fn is_long(&self, most: f64) -> bool {
        self.shortest_ns as f64 >= most * self.mean_ns() as f64
    }

    /// Returns the rate in bits per second while packets wait for the link.
    pub fn rate(&self) -> f64 {
        8e9 * self.bytes as f64 / self.busy_ns.max(1) as f64
    }
}

/// A packet that waits in a device's queue.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    device: u32,
    since: i64,
    length: u32,
}

/// Collects the waits of packets for links during the pass.
#[derive(Debug, Default)]
pub struct Links {
    links: Vec<Link>,
    waiting: IdMap<u64, Waiting>,
}

impl Links {
    #[inline]
    pub fn hopped(&mut self, hop: &Hop<'_>) {
        match hop.step {
            PacketStep::Queue { packet, length, device } => {
                if let Some(at) = self.device(device) {
                    self.links[at].bytes += u64::from(length);
                    if self.waiting.len() >= MAX_PACKETS {
                        // Hardly any of these packets is still in a queue: no event showed how they
                        // left.
                        self.waiting.clear();
                    }
                    self.waiting.insert(packet, Waiting { device: at as u32, since: hop.t_ns, length });
                }
            }
            // The loopback's driver passes packets straight to the protocols.
            PacketStep::Transmit { packet, .. } | PacketStep::Arrive { packet, .. } | PacketStep::Receive { packet, .. } => {
                if let Some(waiting) = self.waiting.remove(&packet) {
                    self.links[waiting.device as usize].leaves(waiting.since, hop.t_ns);
                }
            }
            PacketStep::Drop { packet, .. } => {
                if let Some(waiting) = self.waiting.remove(&packet) {
                    let link = &mut self.links[waiting.device as usize];
                    link.bytes = link.bytes.saturating_sub(u64::from(waiting.length));
                }
            }
            PacketStep::Discipline { device, name, root: true } if name != NO_QUEUE => {
                if let Some(at) = self.device(device) {
                    self.links[at].discipline = Some(String::from_utf8_lossy(name).into_owned());
                }
            }
            _ => {}
        }
    }

    fn device(&mut self, name: &[u8]) -> Option<usize> {
        let known = self.links.iter().position(|link| link.device.as_bytes() == name);
        if known.is_none() && self.links.len() < MAX_DEVICES {
            self.links.push(Link { device: String::from_utf8_lossy(name).into_owned(), ..Link::default() });
            return Some(self.links.len() - 1);
        }
        known
    }

    /// Returns the link for which packets waited for the longest time.
    pub fn busiest(self) -> Option<Link> {
        self.links.into_iter().reduce(|most, link| if link.busy_ns > most.busy_ns { link } else { most })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longpole_model::linux::watch::{CpuId, Waker};

    fn feed(links: &mut Links, t_ns: i64, step: PacketStep<'_>) {
        links.hopped(&Hop { t_ns, cpu: CpuId(0), by: Waker::Unknown, call: None, covered: true, step });
    }

    #[test]
    fn overlapping_waits_count_once_and_lost_packets_carry_nothing() {
        let mut links = Links::default();
        let device = &b"eth9"[..];
        for (t, packet) in [(0, 1), (10, 2), (20, 3)] {
            feed(&mut links, t, PacketStep::Queue { packet, length: 100, device });
        }
        feed(&mut links, 30, PacketStep::Transmit { packet: 1, length: 100, device, segments: 0 });
        feed(&mut links, 40, PacketStep::Transmit { packet: 2, length: 100, device, segments: 0 });
        feed(&mut links, 41, PacketStep::Drop { packet: 3, location: None, socket: None, protocol: None, reason: None, label: "" });
        feed(&mut links, 100, PacketStep::Queue { packet: 4, length: 50, device });
        feed(&mut links, 160, PacketStep::Transmit { packet: 4, length: 50, device, segments: 0 });
        let link = links.busiest().unwrap();
        assert_eq!((link.busy_ns, link.waited_ns, link.shortest_ns), (100, 30 + 30 + 60, 30));
        assert_eq!((link.packets, link.bytes, link.device.as_str()), (3, 250, "eth9"));
    }

    #[test]
    fn a_link_in_which_the_first_packet_waits_as_long_as_the_others_is_long() {
        let is_long = |waits: [i64; 3]| {
            let mut links = Links::default();
            for (packet, wait) in (1..).zip(waits) {
                let t = 100 * packet as i64;
                feed(&mut links, t, PacketStep::Queue { packet, length: 100, device: b"eth9" });
                feed(&mut links, t + wait, PacketStep::Transmit { packet, length: 100, device: b"eth9", segments: 0 });
            }
            links.busiest().unwrap().is_long(0.5)
        };
        assert!(is_long([90, 95, 90]));
        assert!(!is_long([1, 90, 95]));
    }
}
