//! Captures: a pcapng or pcap file as events, and as counts per interface and direction.

use crate::error::Error;
use crate::event::{Class, ClassId, Event, Item, Loss, StreamId, StreamKind, Subject, SubjectId};
use crate::oddity::{Oddity, MOST_ERRORS};
use crate::shelf::Shelf;
use crate::shift::Shift;
use crate::trace::Shared;
use crate::value::Value;
use longpole_pcapng::{Block, Direction, InterfaceInfo, PacketBlock, Reader};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::{Path, PathBuf};

/// A capture file of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Capture {
    /// As a stream of the trace is named.
    pub name: String,
    pub path: PathBuf,
    /// What is added to its times.
    pub shift: Shift,
}

/// Packets that went one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    pub packets: u64,
    /// On the wire.
    pub bytes: u64,
    /// Kept in the file.
    pub captured: u64,
    pub first_ns: Option<i64>,
    pub last_ns: Option<i64>,
}

impl Traffic {
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
    pub interface: &'a str,
    /// What its bytes begin with: a number of tcpdump.org/linktypes.html.
    pub link_type: u16,
    /// None: nobody said.
    pub outbound: Option<bool>,
    /// On the wire.
    pub length: u32,
    /// As much of it as was kept.
    pub bytes: &'a [u8],
}

/// What one interface of a capture saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceCount {
    pub name: String,
    /// Of unknown direction, in, out.
    pub directions: [Traffic; 3],
    /// Packets that the capture lost on this interface; none if nobody counted.
    pub dropped: Option<u64>,
}

/// Index into [`InterfaceCount::directions`]; also the value of a `packet` event's field.
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

fn time(ns: i128) -> i64 {
    ns.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

fn open(path: &PathBuf) -> Result<Reader<File>, Error> {
    File::open(path).map(Reader::new).map_err(Error::io(path))
}

/// Drops are told twice: beside the packet that follows, and as a sum in the statistics. The larger one is right, since either
/// may be left out.
#[derive(Clone, Copy, Debug, Default)]
struct Dropped {
    told: u64,
    known: bool,
}

impl Dropped {
    /// `count` more are lost; returns how many of them are news.
    fn more(&mut self, count: u64) -> u64 {
        self.known = true;
        self.told = self.told.saturating_add(count);
        count
    }

    /// `sum` were lost since the begin.
    fn sum(&mut self, sum: u64) -> u64 {
        self.known = true;
        let news = sum.saturating_sub(self.told);
        self.told = self.told.max(sum);
        news
    }
}

/// What is known of the interfaces of the current section. The next one numbers its own anew, so those before are never asked for again: a file may have
/// millions of sections.
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
    /// Returns those of the section that ended with this one, in the order of their blocks.
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
    /// Also of one that was not declared.
    fn entry(&mut self, section: u32, id: u32) -> &mut T {
        self.enter(section);
        self.known.entry(id).or_default()
    }
}

impl Capture {
    /// Shows the packets between two times, both included, in the file's order. What is truncated or damaged ends it.
    pub fn frames(&self, begin_ns: i64, end_ns: i64, mut visit: impl FnMut(&Frame<'_>)) -> Result<(), Error> {
        let mut reader = open(&self.path)?;
        let mut names: Interfaces<(String, u16)> = Interfaces::default();
        loop {
            match reader.next_block() {
                Ok(Some(Block::Interface(block))) => {
                    names.insert(block.section, block.id, (interface_name(block.info, block.id), block.info.link_type.0));
                }
                Ok(Some(Block::Packet(packet))) => {
                    let t_ns = packet.time_ns().map(|t_ns| self.shift.apply(time(t_ns)));
                    let Some(t_ns) = t_ns.filter(|t_ns| (begin_ns..=end_ns).contains(t_ns)) else { continue };
                    let Some((interface, link_type)) = names.get(packet.section, packet.interface) else { continue };
                    let outbound = match packet.direction() {
                        Direction::Unknown => None,
                        direction => Some(direction == Direction::Outbound),
                    };
                    let (link_type, length) = (*link_type, packet.original_len);
                    visit(&Frame { t_ns, interface, link_type, outbound, length, bytes: packet.data });
                }
                Ok(Some(_)) => {}
                Err(error) if error.is_recoverable() => {}
                Ok(None) | Err(_) => return Ok(()),
            }
        }
    }

    /// Reads all of it. Returns what is odd: what is truncated or damaged, and packets that contradict the cap of their interface or their own length.
    pub fn check(&self) -> Result<Vec<Oddity>, Error> {
        let mut reader = open(&self.path)?;
        let mut oddities = Vec::new();
        let mut beyond = Vec::new();
        let mut settle = |caps: BTreeMap<u32, (String, u32, u64)>| {
            let room = (MOST_ERRORS as usize).saturating_sub(beyond.len());
            let found = caps.into_values().filter(|(_, _, packets)| *packets > 0).take(room);
            beyond.extend(found.map(|(interface, cap, packets)| Oddity::BeyondCap { path: self.path.clone(), interface, cap, packets }));
        };
        let mut caps: Interfaces<(String, u32, u64)> = Interfaces::default();
        loop {
            match reader.next_block() {
                Ok(Some(Block::Interface(block))) => {
                    settle(caps.insert(block.section, block.id, (interface_name(block.info, block.id), block.info.snaplen, 0)));
                }
                Ok(Some(Block::Packet(packet))) => {
                    let Some((_, cap, beyond)) = caps.get_mut(packet.section, packet.interface) else { continue };
                    // 0 is no cap.
                    let most = if *cap == 0 { packet.original_len } else { packet.original_len.min(*cap) };
                    *beyond += u64::from(packet.data.len() > most as usize);
                }
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(error) => {
                    if oddities.len() < MOST_ERRORS as usize {
                        oddities.push(oddity(&self.path, &error));
                    }
                    if !error.is_recoverable() {
                        break;
                    }
                }
            }
        }
        settle(caps.known);
        oddities.extend(beyond);
        Ok(oddities)
    }

    /// Counts the packets between two times, both included. Interfaces of equal name are one, since a file of several sections
    /// numbers them anew. What is truncated or damaged is counted up to there, and said.
    pub fn count(&self, begin_ns: i64, end_ns: i64) -> Result<(Vec<InterfaceCount>, Vec<Oddity>), Error> {
        let mut reader = open(&self.path)?;
        let mut counts: Vec<InterfaceCount> = Vec::new();
        let mut dropped: Interfaces<(usize, Dropped)> = Interfaces::default();
        let mut by_name: HashMap<String, usize> = HashMap::new();
        let mut oddities = Vec::new();
        loop {
            match reader.next_block() {
                Ok(None) => break,
                Ok(Some(Block::Interface(block))) => {
                    let name = interface_name(block.info, block.id);
                    let index = *by_name.entry(name.clone()).or_insert_with(|| {
                        counts.push(InterfaceCount { name, ..InterfaceCount::default() });
                        counts.len() - 1
                    });
                    settle(&mut counts, dropped.insert(block.section, block.id, (index, Dropped::default())));
                }
                Ok(Some(Block::Packet(packet))) => {
                    let t_ns = packet.time_ns().map(|t_ns| self.shift.apply(time(t_ns)));
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
                    if let (Some(sum), Some((_, lost))) = (block.dropped, dropped.get_mut(block.section, block.interface)) {
                        lost.sum(sum);
                    }
                }
                Ok(Some(_)) => {}
                Err(error) => {
                    let again = error.is_recoverable();
                    if oddities.len() < MOST_ERRORS as usize {
                        oddities.push(oddity(&self.path, &error));
                    }
                    if !again {
                        break;
                    }
                }
            }
        }
        settle(&mut counts, dropped.known);
        Ok((counts, oddities))
    }
}

/// Adds up what the interfaces of a section lost.
fn settle(counts: &mut [InterfaceCount], ended: BTreeMap<u32, (usize, Dropped)>) {
    for (index, lost) in ended.into_values().filter(|(_, lost)| lost.known) {
        let sum = &mut counts[index].dropped;
        *sum = Some(sum.unwrap_or(0).saturating_add(lost.told));
    }
}

fn oddity(path: &Path, error: &longpole_pcapng::Error) -> Oddity {
    match error.is_truncation() {
        true => Oddity::Truncated { path: path.to_owned(), place: error.to_string(), at: None },
        false => Oddity::Damaged { path: path.to_owned(), error: error.to_string() },
    }
}

/// A capture as a stream of events `packet`.
pub(crate) struct CaptureSource {
    path: PathBuf,
    reader: Reader<File>,
    stream: StreamId,
    class: ClassId,
    subject: SubjectId,
    names: Interfaces<String>,
    dropped: Interfaces<Dropped>,
    /// Time of the last packet; what has no time of its own happened then.
    last_ns: i64,
    /// A loss comes before the packet that told it.
    waiting: Option<Head>,
    head: Option<Head>,
    errors: u32,
    /// It is not read behind its first damage, which was reached.
    pub broken: bool,
}

#[derive(Clone, Copy)]
enum Head {
    Packet { t_ns: i64, section: u32, interface: u32, direction: u64, length: u64, captured: u64 },
    Loss(Loss),
}

impl CaptureSource {
    pub fn open(capture: &Capture, shared: &mut Shared) -> Result<CaptureSource, Error> {
        let class = Class {
            event_name: "packet".to_owned(),
            fields: ["interface", "direction", "length", "captured"].map(str::to_owned).to_vec(),
            ..Class::default()
        };
        Ok(CaptureSource {
            reader: open(&capture.path)?,
            path: capture.path.clone(),
            stream: shared.stream(capture.name.clone(), StreamKind::Packets),
            class: shared.class(class),
            subject: shared.subject(Subject::default()),
            names: Interfaces::default(),
            dropped: Interfaces::default(),
            last_ns: 0,
            waiting: None,
            head: None,
            errors: 0,
            broken: false,
        })
    }

    pub fn advance(&mut self, shared: &mut Shared) -> Result<Option<i64>, Error> {
        self.head = self.waiting.take();
        while self.head.is_none() {
            match self.reader.next_block() {
                Ok(None) => return Ok(None),
                Ok(Some(Block::Interface(block))) => {
                    self.names.insert(block.section, block.id, interface_name(block.info, block.id));
                }
                Ok(Some(Block::Packet(packet))) => {
                    let head = packet_head(&packet, self.last_ns);
                    let lost = packet
                        .drop_count
                        .filter(|&count| count > 0)
                        .map(|count| self.dropped.entry(packet.section, packet.interface).more(count));
                    let begin_ns = self.last_ns;
                    self.last_ns = head.t_ns();
                    match lost {
                        None => self.head = Some(head),
                        Some(events) => {
                            let (stream, end_ns) = (self.stream, self.last_ns);
                            let begin_ns = begin_ns.min(end_ns);
                            self.head = Some(Head::Loss(Loss { stream, begin_ns, end_ns, events: Some(events) }));
                            self.waiting = Some(head);
                        }
                    }
                }
                Ok(Some(Block::Statistics(block))) => {
                    let Some(sum) = block.dropped else { continue };
                    let news = self.dropped.entry(block.section, block.interface).sum(sum);
                    if news > 0 {
                        let end_ns = time(block.time_ns());
                        let begin_ns = block.start_ns().map_or(self.last_ns, time).min(end_ns);
                        self.head = Some(Head::Loss(Loss { stream: self.stream, begin_ns, end_ns, events: Some(news) }));
                    }
                }
                Ok(Some(_)) => {}
                Err(error) => {
                    self.errors += 1;
                    if self.errors <= MOST_ERRORS {
                        shared.oddities.push(oddity(&self.path, &error));
                    }
                    self.broken = shared.strict;
                    if !error.is_recoverable() || shared.strict {
                        return Ok(None);
                    }
                }
            }
        }
        Ok(self.head.map(|head| head.t_ns()))
    }

    pub fn item<'a>(&'a self, shelf: &'a mut Shelf) -> Item<'a> {
        match self.head {
            Some(Head::Packet { t_ns, section, interface, direction, length, captured }) => {
                let name = self.names.get(section, interface).map_or("", String::as_str);
                let numbers = [direction, length, captured].map(Value::U64);
                let fields = shelf.put(std::iter::once(Value::Str(name.as_bytes())).chain(numbers));
                let Self { stream, subject, class, .. } = *self;
                Item::Event(Event { t_ns, stream, subject, class, cpu: None, fields, context: &[] })
            }
            Some(Head::Loss(loss)) => Item::Loss(loss),
            // The trace asks only for what `advance` has found.
            None => Item::Loss(Loss { stream: self.stream, begin_ns: self.last_ns, end_ns: self.last_ns, events: Some(0) }),
        }
    }
}

impl Head {
    fn t_ns(&self) -> i64 {
        match self {
            Head::Packet { t_ns, .. } => *t_ns,
            Head::Loss(loss) => loss.end_ns,
        }
    }
}

fn packet_head(packet: &PacketBlock, last_ns: i64) -> Head {
    Head::Packet {
        t_ns: packet.time_ns().map_or(last_ns, time),
        section: packet.section,
        interface: packet.interface,
        direction: direction_index(packet.direction()) as u64,
        length: u64::from(packet.original_len),
        captured: packet.data.len() as u64,
    }
}
