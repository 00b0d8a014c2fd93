//! Captures: pcapng and pcap files as events, as packet counts per interface and direction, and as
//! descriptions.

mod describe;
mod source;

pub use describe::{CaptureInterface, Counted, Description};
pub(crate) use source::CaptureSource;

use crate::diagnostic::{Diagnostic, MAX_ERRORS};
use crate::error::Error;
use crate::merge::clock_shift::Shift;
use crate::merge::out_of_range::{nearest, Beyond};
use longpole_pcapng::{Block, Direction, InterfaceInfo, Reader, StatisticsBlock};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::{Path, PathBuf};

/// A capture file of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Capture {
    /// Name of the capture's stream.
    pub name: String,
    pub path: PathBuf,
    /// Correction of the capture's clock.
    pub shift: Shift,
}

/// Packets in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    pub packets: u64,
    /// Bytes on the wire.
    pub bytes: u64,
    /// Bytes stored in the file.
    pub captured: u64,
    /// Time of the first packet; `None` if no packet has a time.
    pub first_ns: Option<i64>,
    /// Time of the last packet; `None` if no packet has a time.
    pub last_ns: Option<i64>,
}

impl Traffic {
    /// Counts a packet with `bytes` on the wire, of which `captured` are in the file.
    pub fn add(&mut self, t_ns: Option<i64>, bytes: u64, captured: u64) {
        self.packets += 1;
        self.bytes += bytes;
        self.captured += captured;
        if let Some(t_ns) = t_ns {
            self.first_ns = Some(self.first_ns.map_or(t_ns, |first| first.min(t_ns)));
            self.last_ns = Some(self.last_ns.map_or(t_ns, |last| last.max(t_ns)));
        }
    }
}

/// A captured packet.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    pub t_ns: i64,
    /// Name of the interface.
    pub interface: &'a str,
    /// Link type of the packet's first header: a number from tcpdump.org/linktypes.html.
    pub link_type: u16,
    /// Direction of the packet; `None` if the file does not state it.
    pub outbound: Option<bool>,
    /// Length in bytes on the wire.
    pub length: u32,
    /// The part of the packet that was captured.
    pub bytes: &'a [u8],
}

/// Packet counts of one interface of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceCount {
    pub name: String,
    /// Traffic of unknown direction, inbound, and outbound.
    pub directions: [Traffic; 3],
    /// Packets that the capture lost on this interface; `None` if nothing counted them.
    pub dropped: Option<u64>,
}

/// Index into [`InterfaceCount::directions`], which is also the value of a `packet` event's
/// `direction` field.
fn direction_index(direction: Direction) -> usize {
    match direction {
        Direction::Unknown => 0,
        Direction::Inbound => 1,
        Direction::Outbound => 2,
    }
}

fn interface_name(info: &InterfaceInfo, id: u32) -> String {
    match info.name.as_deref().or(info.description.as_deref()) {
        Some(name) if !name.is_empty() => name.to_owned(),
        _ => format!("interface {id}"),
    }
}

/// Formats the place of a block.
fn at_byte(at: u64) -> String {
    format!("at byte {at}")
}

fn open(path: &PathBuf) -> Result<Reader<File>, Error> {
    File::open(path).map(Reader::new).map_err(Error::io(path))
}

/// Count of dropped packets. A file may report drops in two ways: with the packet that follows
/// them, and as a sum in statistics. Either may be missing, so the larger count is used.
#[derive(Clone, Copy, Debug, Default)]
struct Dropped {
    count: u64,
    known: bool,
}

impl Dropped {
    /// Adds `count` lost packets. Returns how many of them were not known yet.
    fn more(&mut self, count: u64) -> u64 {
        self.known = true;
        self.count = self.count.saturating_add(count);
        count
    }

    /// Sets the number of packets lost since the begin to `sum`. Returns how many of them were not
    /// known yet.
    fn sum(&mut self, sum: u64) -> u64 {
        self.known = true;
        let news = sum.saturating_sub(self.count);
        self.count = self.count.max(sum);
        news
    }
}

/// Facts about the interfaces of the current section. A file may have millions of sections. Each
/// numbers its interfaces anew, so those of earlier sections are not needed any more and are
/// dropped.
#[derive(Debug)]
struct Interfaces<T> {
    section: u32,
    known: BTreeMap<u32, T>,
}

impl<T> Default for Interfaces<T> {
    fn default() -> Interfaces<T> {
        Interfaces { section: 0, known: BTreeMap::new() }
    }
}

impl<T> Interfaces<T> {
    /// Adds an interface. If it begins a new section, returns the interfaces of the section before
    /// it, by id.
    fn insert(&mut self, section: u32, id: u32, value: T) -> BTreeMap<u32, T> {
        let ended = self.enter(section);
        self.known.insert(id, value);
        ended
    }

    fn enter(&mut self, section: u32) -> BTreeMap<u32, T> {
        match std::mem::replace(&mut self.section, section) == section {
            true => BTreeMap::new(),
            false => std::mem::take(&mut self.known),
        }
    }

    fn get(&self, section: u32, id: u32) -> Option<&T> {
        self.known.get(&id).filter(|_| section == self.section)
    }

    fn get_mut(&mut self, section: u32, id: u32) -> Option<&mut T> {
        self.known.get_mut(&id).filter(|_| section == self.section)
    }
}

impl<T: Default> Interfaces<T> {
    /// Returns the facts about an interface, also if the file does not declare it.
    fn entry(&mut self, section: u32, id: u32) -> &mut T {
        self.enter(section);
        self.known.entry(id).or_default()
    }
}

impl Capture {
    /// Calls `visit` for the packets between two times, both included, in the order of the file.
    /// Truncation or damage ends the iteration.
    pub fn frames(&self, begin_ns: i64, end_ns: i64, mut visit: impl FnMut(&Frame<'_>)) -> Result<(), Error> {
        self.frames_until(begin_ns, end_ns, |frame| {
            visit(frame);
            false
        })
    }

    /// Like [`Capture::frames`], but ends as soon as `visit` returns true.
    pub fn frames_until(&self, begin_ns: i64, end_ns: i64, mut visit: impl FnMut(&Frame<'_>) -> bool) -> Result<(), Error> {
        let mut reader = open(&self.path)?;
        let mut names: Interfaces<(String, u16)> = Interfaces::default();
        loop {
            match reader.next_block() {
                Ok(Some(Block::Interface(block))) => {
                    names.insert(block.section, block.id, (interface_name(block.info, block.id), block.info.link_type.0));
                }
                Ok(Some(Block::Packet(packet))) => {
                    let t_ns = packet.time_ns().map(|t_ns| self.shift.apply(nearest(t_ns)));
                    let Some(t_ns) = t_ns.filter(|t_ns| (begin_ns..=end_ns).contains(t_ns)) else { continue };
                    let Some((interface, link_type)) = names.get(packet.section, packet.interface) else { continue };
                    let outbound = match packet.direction() {
                        Direction::Unknown => None,
                        direction => Some(direction == Direction::Outbound),
                    };
                    let (link_type, length) = (*link_type, packet.original_len);
                    if visit(&Frame { t_ns, interface, link_type, outbound, length, bytes: packet.data }) {
                        return Ok(());
                    }
                }
                Ok(Some(_)) => {}
                Err(error) if error.is_recoverable() => {}
                Ok(None) | Err(_) => return Ok(()),
            }
        }
    }

    /// Reads the whole file. Returns diagnostics about truncation, damage, and packets longer than
    /// their interface's cap or their own original length.
    pub fn check(&self) -> Result<Vec<Diagnostic>, Error> {
        let mut reader = open(&self.path)?;
        let mut diagnostics = Vec::new();
        let (mut beyond, mut times) = (Vec::new(), Beyond::default());
        let mut add_beyond = |caps: BTreeMap<u32, (String, u32, u64)>| {
            let room = (MAX_ERRORS as usize).saturating_sub(beyond.len());
            let found = caps.into_values().filter(|(_, _, packets)| *packets > 0).take(room);
            beyond.extend(found.map(|(interface, cap, packets)| Diagnostic::BeyondCap {
                path: self.path.clone(),
                interface,
                cap,
                packets,
            }));
        };
        let mut caps: Interfaces<(String, u32, u64)> = Interfaces::default();
        loop {
            match reader.next_block() {
                Ok(Some(Block::Interface(block))) => {
                    add_beyond(caps.insert(block.section, block.id, (interface_name(block.info, block.id), block.info.snaplen, 0)));
                }
                Ok(Some(Block::Packet(packet))) => {
                    if let Some(ns) = packet.time_ns() {
                        times.ns(ns, &self.path, || at_byte(packet.offset), &mut diagnostics);
                    }
                    let Some((_, cap, beyond)) = caps.get_mut(packet.section, packet.interface) else { continue };
                    // 0 means no cap.
                    let most = if *cap == 0 { packet.original_len } else { packet.original_len.min(*cap) };
                    *beyond += u64::from(packet.data.len() > most as usize);
                }
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(error) => {
                    if diagnostics.len() < MAX_ERRORS as usize {
                        diagnostics.push(diagnostic(&self.path, &error));
                    }
                    if !error.is_recoverable() {
                        break;
                    }
                }
            }
        }
        add_beyond(caps.known);
        diagnostics.extend(beyond);
        Ok(diagnostics)
    }

    /// Counts the packets between two times, both included. Interfaces with the same name are
    /// counted as one, because each section of a file numbers them anew. A truncated or damaged
    /// file is counted up to the damage, which is reported.
    pub fn count(&self, begin_ns: i64, end_ns: i64) -> Result<(Vec<InterfaceCount>, Vec<Diagnostic>), Error> {
        let mut reader = open(&self.path)?;
        let mut counts: Vec<InterfaceCount> = Vec::new();
        let mut dropped: Interfaces<(usize, Dropped)> = Interfaces::default();
        let mut by_name: HashMap<String, usize> = HashMap::new();
        let (mut diagnostics, mut times) = (Vec::new(), Beyond::default());
        loop {
            match reader.next_block() {
                Ok(None) => break,
                Ok(Some(Block::Interface(block))) => {
                    let name = interface_name(block.info, block.id);
                    let index = *by_name.entry(name.clone()).or_insert_with(|| {
                        counts.push(InterfaceCount { name, ..InterfaceCount::default() });
                        counts.len() - 1
                    });
                    add_losses(&mut counts, dropped.insert(block.section, block.id, (index, Dropped::default())));
                }
                Ok(Some(Block::Packet(packet))) => {
                    let t_ns = packet
                        .time_ns()
                        .map(|t_ns| self.shift.apply(times.ns(t_ns, &self.path, || at_byte(packet.offset), &mut diagnostics)));
                    let Some((index, lost)) = dropped.get_mut(packet.section, packet.interface) else { continue };
                    if let Some(count) = packet.drop_count {
                        lost.more(count);
                    }
                    if t_ns.is_none_or(|t_ns| (begin_ns..=end_ns).contains(&t_ns)) {
                        let direction = direction_index(packet.direction());
                        let (bytes, captured) = (u64::from(packet.original_len), packet.data.len() as u64);
                        counts[*index].directions[direction].add(t_ns, bytes, captured);
                    }
                }
                Ok(Some(Block::Statistics(block))) => {
                    if let (Some(sum), Some((_, count))) = (lost(&block), dropped.get_mut(block.section, block.interface)) {
                        count.sum(sum);
                    }
                }
                Ok(Some(_)) => {}
                Err(error) => {
                    let again = error.is_recoverable();
                    if diagnostics.len() < MAX_ERRORS as usize {
                        diagnostics.push(diagnostic(&self.path, &error));
                    }
                    if !again {
                        break;
                    }
                }
            }
        }
        add_losses(&mut counts, dropped.known);
        Ok((counts, diagnostics))
    }
}

/// Adds the losses of a section's interfaces to the counts.
fn add_losses(counts: &mut [InterfaceCount], ended: BTreeMap<u32, (usize, Dropped)>) {
    for (index, lost) in ended.into_values().filter(|(_, lost)| lost.known) {
        let sum = &mut counts[index].dropped;
        *sum = Some(sum.unwrap_or(0).saturating_add(lost.count));
    }
}

fn diagnostic(path: &Path, error: &longpole_pcapng::Error) -> Diagnostic {
    let path = path.to_owned();
    match (error.is_truncation(), error.is_recoverable()) {
        (true, _) => Diagnostic::Truncated { path, place: error.to_string(), at: None },
        (_, true) => Diagnostic::UndecodableRecord { path, error: format!("{error}; this block is left out") },
        _ => Diagnostic::UndecodableRecord { path, error: format!("{error}; the blocks after it cannot be found") },
    }
}

/// Returns the packets that the interface and the operating system behind it have lost until then.
fn lost(block: &StatisticsBlock) -> Option<u64> {
    match (block.dropped, block.os_dropped) {
        (None, None) => None,
        (interface, os) => Some(interface.unwrap_or(0).saturating_add(os.unwrap_or(0))),
    }
}
