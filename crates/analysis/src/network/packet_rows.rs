//! The timeline's rows of packets: the flows that the kernel's events show, and the conversations
//! in captures.

use super::dissect::dissect;
use super::in_flight::End;
use super::packet_log::LoggedPacket;
use super::packet_loss::Names;
use super::packet_paths::FlowKey;
use super::packets::Packets;
use crate::stats::value_log::{LogFile, ValueLog};
use crate::timeline::{PacketMark, PacketRow, RowKind, StateClass, Timeline};
use longpole_trace::{Capture, Frame};
use std::collections::{HashMap, HashSet};
use std::io;

/// Largest number of packets in one row; the first ones are shown.
const MAX_PACKETS: usize = 1 << 21;

/// Largest numbers of conversations of a capture with rows of their own, and of interfaces with
/// groups of their own.
const MAX_CONVERSATIONS: usize = 512;
const MAX_INTERFACES: usize = 64;

/// Largest number of different names of packets in one capture.
const MAX_NAMES: usize = 1 << 10;

/// Number of frames of a capture that have different numbers.
const FRAMES: u64 = 1 << 36;

/// A captured frame: the number of its capture, and its place among the frames of the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameId {
    pub capture: u64,
    pub frame: u64,
}

impl FrameId {
    /// Returns the frame with this number in a row ([`Timeline::packet_at`]).
    pub fn of(number: u64) -> FrameId {
        FrameId { capture: number / FRAMES, frame: number % FRAMES }
    }

    fn number(self) -> u64 {
        self.capture * FRAMES + self.frame % FRAMES
    }
}

/// Adds a row for each flow whose packets were logged. The number of a packet is that of its path.
///
/// # Errors
///
/// If the file of the log cannot be read.
pub fn add_flows(timeline: &Timeline, packets: &Packets<'_>) -> io::Result<()> {
    let Some(log) = packets.packet_paths.log.as_deref() else { return Ok(()) };
    for (key, count) in log.flows() {
        let mut marks = Vec::with_capacity((count as usize).min(MAX_PACKETS));
        log.each(key, |packet| {
            if marks.len() < MAX_PACKETS {
                let LoggedPacket { number, begin_ns, end_ns, end } = packet;
                marks.push(PacketMark { begin_ns, end_ns, state: end as usize, number });
            }
        })?;
        let protocol = key.and_then(|key| packets.socket(key.socket?).protocol).unwrap_or("packet");
        let name = |end: End| (format!("{protocol}: {}", end.text()), class_of(end));
        let name_of_flow = key.map_or_else(|| "other flows".to_owned(), |key| flow_name(packets, &key));
        let row = PacketRow {
            kind: RowKind::Flow,
            group: "packets",
            name: &name_of_flow,
            detail: shown_of(count),
            states: End::ALL.map(name).to_vec(),
        };
        timeline.add_packets(&row, marks);
    }
    Ok(())
}

fn class_of(end: End) -> StateClass {
    match end {
        End::Lost => StateClass::Lost,
        End::Unknown => StateClass::Unknown,
        _ => StateClass::Asleep,
    }
}

fn shown_of(count: u64) -> String {
    match count as usize > MAX_PACKETS {
        true => format!("the first {MAX_PACKETS} of {count} packets"),
        false => String::new(),
    }
}

fn flow_name(packets: &Packets<'_>, key: &FlowKey) -> String {
    let from = key.sender.map_or_else(|| "(kernel or outside)".to_owned(), |thread| packets.person(thread).name);
    let to = match key.socket.map(|socket| packets.socket(socket)) {
        Some(socket) => {
            let owner = socket.owner.map_or_else(String::new, |thread| packets.person(thread).name);
            let port = socket.port.map_or_else(String::new, |port| format!(":{port}"));
            format!("{owner}{port}")
        }
        None => key.device.map_or_else(String::new, |device| packets.device(device).name),
    };
    match to.is_empty() {
        true => format!("{from} → ?"),
        false => format!("{from} → {to}"),
    }
}

/// Adds a row for each conversation in the captures. The number of a packet is that of its frame
/// ([`FrameId`]).
///
/// # Errors
///
/// A text for people if a capture cannot be read.
pub fn add_captures(timeline: &Timeline, captures: &[Capture], (begin_ns, end_ns): (i64, i64)) -> Result<(), String> {
    for (capture, number) in captures.iter().zip(0..) {
        let mut frames = Frames::default();
        let read = capture.frames(begin_ns, end_ns, |frame| frames.add(frame));
        read.map_err(|error| format!("the capture {} cannot be read: {error}", capture.name))?;
        frames.write(timeline, number).map_err(|error| format!("the packets of {} cannot be read again: {error}", capture.name))?;
    }
    Ok(())
}

/// The frames of a capture by conversation.
#[derive(Default)]
struct Frames {
    count: u64,
    file: LogFile,
    names: Vec<String>,
    name_ids: HashMap<String, usize>,
    /// Interface and ends; the ends are equal for both directions, and empty for packets without
    /// ends or beyond the limit.
    conversations: Vec<(String, (String, String), ValueLog)>,
    by_ends: HashMap<(String, (String, String)), usize>,
    interfaces: HashSet<String>,
}

impl Frames {
    fn add(&mut self, frame: &Frame<'_>) {
        let at = self.count;
        self.count += 1;
        let found = dissect(frame.link_type, frame.bytes);
        let direction = match frame.outbound {
            Some(true) => "out ",
            Some(false) => "in ",
            None => "",
        };
        let name = self.name(format!("{direction}{}", found.summary));
        let (from, to) = found.ends.unwrap_or_default();
        let conversation = self.conversation(frame.interface, if from <= to { (from, to) } else { (to, from) });
        self.conversations[conversation].2.record(frame.t_ns, (at * MAX_NAMES as u64 + name as u64) as f64);
    }

    fn name(&mut self, name: String) -> usize {
        if let Some(&known) = self.name_ids.get(&name) {
            return known;
        }
        let name = if self.names.len() + 1 < MAX_NAMES { name } else { "packet".to_owned() };
        let names = &mut self.names;
        *self.name_ids.entry(name).or_insert_with_key(|name| {
            names.push(name.clone());
            names.len() - 1
        })
    }

    fn conversation(&mut self, interface: &str, ends: (String, String)) -> usize {
        let mut key = (self.interface(interface).to_owned(), ends);
        if let Some(&known) = self.by_ends.get(&key) {
            return known;
        }
        if self.conversations.len() >= MAX_CONVERSATIONS {
            key.1 = Default::default();
        }
        let Frames { conversations, file, by_ends, .. } = self;
        *by_ends.entry(key).or_insert_with_key(|(interface, ends)| {
            conversations.push((interface.clone(), ends.clone(), ValueLog::new(file.clone())));
            conversations.len() - 1
        })
    }

    /// Returns the name under which the packets of an interface are shown.
    fn interface<'a>(&mut self, name: &'a str) -> &'a str {
        if self.interfaces.contains(name) {
            return name;
        }
        if self.interfaces.len() >= MAX_INTERFACES {
            return "other interfaces";
        }
        self.interfaces.insert(name.to_owned());
        name
    }

    fn write(&self, timeline: &Timeline, capture: u64) -> io::Result<()> {
        for (interface, (one, other), log) in &self.conversations {
            let mut marks = Vec::with_capacity((log.count() as usize).min(MAX_PACKETS));
            log.each(|t_ns, value| {
                let value = value as u64;
                let id = FrameId { capture, frame: value / MAX_NAMES as u64 };
                if marks.len() < MAX_PACKETS {
                    let state = (value % MAX_NAMES as u64) as usize;
                    marks.push(PacketMark { begin_ns: t_ns, end_ns: t_ns.saturating_add(1), state, number: id.number() });
                }
            })?;
            let name = if one.is_empty() { "other packets".to_owned() } else { format!("{one} ↔ {other}") };
            let row = PacketRow {
                kind: RowKind::Captured,
                group: &format!("packets of {interface}"),
                name: &name,
                detail: shown_of(log.count()),
                states: self.names.iter().map(|name| (name.clone(), StateClass::Asleep)).collect(),
            };
            timeline.add_packets(&row, marks);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A UDP datagram from 10.0.0.1 to 10.0.0.2, from this port.
    fn datagram(port: u16) -> Vec<u8> {
        let ethernet = [&[0; 12][..], &[8, 0]].concat();
        let ip = [&[0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0][..], &[10, 0, 0, 1], &[10, 0, 0, 2]].concat();
        let udp = [&port.to_be_bytes()[..], &[0, 53, 0, 8, 0, 0]].concat();
        [ethernet, ip, udp].concat()
    }

    #[test]
    fn a_capture_of_any_number_of_interfaces_has_a_limited_number_of_rows() {
        let timeline = Timeline::default();
        timeline.set_empty_range(0, 1_000_000);
        let mut frames = Frames::default();
        for at in 0..3000_u16 {
            let (bytes, interface) = (datagram(at + 1000), &*format!("if{}", at % 1500));
            let t_ns = i64::from(at) * 100;
            frames.add(&Frame { t_ns, interface, link_type: 1, outbound: None, length: bytes.len() as u32, bytes: &bytes });
        }
        frames.write(&timeline, 0).unwrap();
        let rows = timeline.listing().rows;
        let of_kind = |kind: RowKind| rows.iter().filter(|row| row.kind == kind).collect::<Vec<_>>();
        let (groups, conversations) = (of_kind(RowKind::Packets), of_kind(RowKind::Captured));
        assert_eq!(groups.len(), MAX_INTERFACES + 1);
        assert_eq!(conversations.iter().filter(|row| row.name != "other packets").count(), MAX_CONVERSATIONS);
        assert_eq!(conversations.iter().map(|row| row.states).sum::<u64>(), 3000);
        assert!(groups.iter().any(|row| row.name == "packets of other interfaces"));
    }
}
