//! A capture as a stream: packets, journal entries, and losses between them.

use super::{at_byte, diagnostic, direction_index, interface_name, lost, open, Capture, Dropped, Interfaces};
use crate::diagnostic::MAX_ERRORS;
use crate::error::Error;
use crate::event::{Class, ClassId, Event, Item, Loss, PacketValues, StreamId, StreamKind, Subject, SubjectId};
use crate::merge::out_of_range::{nearest, Beyond};
use crate::shared::Shared;
use crate::value::Value;
use crate::value_buffer::ValueBuffer;
use longpole_ctf::OwnedValue;
use longpole_pcapng::{Block, JournalBlock, PacketBlock, Reader};
use std::collections::HashMap;
use std::fs::File;
use std::path::PathBuf;

/// Fields of every packet. The first one is the interface's name.
const FIELDS: [&str; 4] = ["interface", "direction", "length", "captured"];
/// Bits of `epb_flags` with the direction, which is a field of its own.
const DIRECTION: u32 = 3;
/// Bytes of the file in which the first time is searched.
const FIRST: u64 = 1 << 20;
/// Maximum number of different sets of fields of journal entries. Entries with further sets have
/// all fields in one.
const MAX_CLASSES: usize = 4096;
/// Maximum number of fields of an entry that are shown.
const MAX_FIELDS: usize = 256;
/// Maximum number of bytes of an entry's value that are stored.
const MAX_VALUE: usize = 64 << 10;

/// A capture as a stream of `packet` events.
pub(crate) struct CaptureSource {
    path: PathBuf,
    reader: Reader<File>,
    stream: StreamId,
    classes: Classes,
    subject: SubjectId,
    names: Interfaces<String>,
    dropped: Interfaces<Dropped>,
    /// Time of the last packet, initially that of the first one. Items without a time get this one.
    last_ns: i64,
    /// Packet that is yielded after the loss that it reported.
    waiting: Option<CurrentItem>,
    current: Option<CurrentItem>,
    errors: u32,
    beyond: Beyond,
    /// Set when the source has ended at its first damage ([`Shared::strict`]).
    pub broken: bool,
}

/// The item that is yielded next, or was yielded last.
enum CurrentItem {
    Packet { t_ns: i64, section: u32, interface: u32, numbers: [u64; 3], class: ClassId, more: Vec<OwnedValue> },
    Entry { t_ns: i64, class: ClassId, values: Vec<OwnedValue> },
    Loss(Loss),
}

/// Classes by the names of their fields. Most packets have only the common fields, so their class
/// is stored separately.
#[derive(Default)]
struct Classes {
    plain: Option<ClassId>,
    known: HashMap<Vec<u8>, ClassId>,
}

impl Classes {
    fn of(&mut self, event: &str, first: &[&str], more: &[&str], shared: &mut Shared) -> ClassId {
        let mut key = event.as_bytes().to_vec();
        more.iter().for_each(|name| {
            key.push(0);
            key.extend_from_slice(name.as_bytes());
        });
        *self.known.entry(key).or_insert_with(|| {
            let fields = first.iter().chain(more).map(|name| (*name).to_owned()).collect();
            shared.class(Class { event_name: event.to_owned(), fields, ..Class::default() })
        })
    }

    fn packet(&mut self, more: &[&str], shared: &mut Shared) -> ClassId {
        match (more, self.plain) {
            ([], Some(class)) => class,
            ([], None) => {
                let class = self.of("packet", &FIELDS, &[], shared);
                *self.plain.insert(class)
            }
            _ => self.of("packet", &FIELDS, more, shared),
        }
    }
}

/// Returns the time of the first packet that has one. Packets before it happened at that time at
/// the latest. Only the begin of the file is searched.
fn first_time(capture: &Capture) -> Result<i64, Error> {
    let mut reader = open(&capture.path)?;
    loop {
        match reader.next_block() {
            Ok(Some(Block::Packet(packet))) => {
                if let Some(t_ns) = packet.time_ns() {
                    return Ok(nearest(t_ns));
                }
            }
            Ok(Some(_)) => {}
            Err(error) if error.is_recoverable() => {}
            Ok(None) | Err(_) => return Ok(0),
        }
        if reader.offset() > FIRST {
            return Ok(0);
        }
    }
}

impl CaptureSource {
    pub fn open(capture: &Capture, shared: &mut Shared) -> Result<CaptureSource, Error> {
        Ok(CaptureSource {
            reader: open(&capture.path)?,
            path: capture.path.clone(),
            stream: shared.stream(capture.name.clone(), StreamKind::Packets),
            classes: Classes::default(),
            subject: shared.subject(Subject::default()),
            names: Interfaces::default(),
            dropped: Interfaces::default(),
            last_ns: first_time(capture)?,
            waiting: None,
            current: None,
            errors: 0,
            beyond: Beyond::default(),
            broken: false,
        })
    }

    pub fn advance(&mut self, shared: &mut Shared) -> Result<Option<i64>, Error> {
        self.current = self.waiting.take();
        while self.current.is_none() {
            match self.reader.next_block() {
                Ok(None) => return Ok(None),
                Ok(Some(Block::Interface(block))) => {
                    self.names.insert(block.section, block.id, interface_name(block.info, block.id));
                }
                Ok(Some(Block::Packet(packet))) => {
                    let drops = packet.drop_count.filter(|&count| count > 0);
                    let drops = drops.map(|count| self.dropped.entry(packet.section, packet.interface).more(count));
                    let ns = packet.time_ns().unwrap_or(self.last_ns.into());
                    let t_ns = self.beyond.ns(ns, &self.path, || at_byte(packet.offset), &mut shared.diagnostics);
                    let item = packet_item(&packet, t_ns, &mut self.classes, shared);
                    let begin_ns = self.last_ns;
                    self.last_ns = item.t_ns();
                    match drops {
                        None => self.current = Some(item),
                        Some(events) => {
                            let (stream, end_ns) = (self.stream, self.last_ns);
                            let begin_ns = begin_ns.min(end_ns);
                            self.current = Some(CurrentItem::Loss(Loss { stream, begin_ns, end_ns, events: Some(events) }));
                            self.waiting = Some(item);
                        }
                    }
                }
                Ok(Some(Block::Journal(journal))) => {
                    let ns = journal.time_ns().unwrap_or(self.last_ns.into());
                    let t_ns = self.beyond.ns(ns, &self.path, || "an entry of the journal", &mut shared.diagnostics);
                    self.current = Some(entry_item(&journal, t_ns, &mut self.classes, shared));
                }
                Ok(Some(Block::Statistics(block))) => {
                    let Some(sum) = lost(&block) else { continue };
                    let news = self.dropped.entry(block.section, block.interface).sum(sum);
                    if news > 0 {
                        // A writer that omits the time writes zeros.
                        let mut time = |ns| self.beyond.ns(ns, &self.path, || at_byte(block.offset), &mut shared.diagnostics);
                        let end_ns = if block.ticks == 0 { self.last_ns } else { time(block.time_ns()) };
                        let begin_ns = block.start_ns().map_or(self.last_ns, time).min(end_ns);
                        self.current = Some(CurrentItem::Loss(Loss { stream: self.stream, begin_ns, end_ns, events: Some(news) }));
                    }
                }
                Ok(Some(_)) => {}
                Err(error) => {
                    self.errors += 1;
                    if self.errors <= MAX_ERRORS {
                        shared.diagnostics.push(diagnostic(&self.path, &error));
                    }
                    self.broken = shared.strict;
                    if !error.is_recoverable() || shared.strict {
                        return Ok(None);
                    }
                }
            }
        }
        if shared.strict && self.beyond.was_reported() {
            self.broken = true;
            return Ok(None);
        }
        Ok(self.current.as_ref().map(CurrentItem::t_ns))
    }

    pub fn item<'a>(&'a self, value_buffer: &'a mut ValueBuffer) -> Item<'a> {
        let Self { stream, subject, .. } = *self;
        let event = |t_ns, class, fields| {
            Item::Event(Event { t_ns, stream, subject, class, cpu: None, fields, context: &[], packet: PacketValues::default() })
        };
        match &self.current {
            Some(CurrentItem::Packet { t_ns, section, interface, numbers, class, more }) => {
                let name = self.names.get(*section, *interface).map_or("", String::as_str);
                let first = std::iter::once(Value::Str(name.as_bytes())).chain(numbers.map(Value::U64));
                event(*t_ns, *class, value_buffer.put(first.chain(more.iter().map(Value::from))))
            }
            Some(CurrentItem::Entry { t_ns, class, values }) => event(*t_ns, *class, value_buffer.put(values.iter().map(Value::from))),
            Some(CurrentItem::Loss(loss)) => Item::Loss(*loss),
            // Not reached: the trace requests only items that `advance` found.
            None => Item::Loss(Loss { stream, begin_ns: self.last_ns, end_ns: self.last_ns, events: Some(0) }),
        }
    }
}

impl CurrentItem {
    fn t_ns(&self) -> i64 {
        match self {
            CurrentItem::Packet { t_ns, .. } | CurrentItem::Entry { t_ns, .. } => *t_ns,
            CurrentItem::Loss(loss) => loss.end_ns,
        }
    }
}

fn packet_item(packet: &PacketBlock, t_ns: i64, classes: &mut Classes, shared: &mut Shared) -> CurrentItem {
    let mut names: Vec<&str> = Vec::new();
    let mut more = Vec::new();
    // Most packets have no options.
    if packet.options.iter().next().is_some() {
        let mut add = |name, value: Option<OwnedValue>| {
            if let Some(value) = value {
                names.push(name);
                more.push(value);
            }
        };
        let comments: Vec<String> = packet.options.comments().collect();
        let text = |text: String| OwnedValue::Str(text.into_bytes());
        add(
            "comment",
            match <[String; 1]>::try_from(comments) {
                Ok([one]) => Some(text(one)),
                Err(none) if none.is_empty() => None,
                Err(several) => Some(OwnedValue::List(several.into_iter().map(text).collect())),
            },
        );
        let bytes = |bytes: &[u8]| OwnedValue::Bytes(bytes.to_vec());
        add("flags", packet.flags.map(|flags| flags & !DIRECTION).filter(|flags| *flags != 0).map(|flags| OwnedValue::U64(flags.into())));
        add("packet_id", packet.packet_id.map(OwnedValue::U64));
        add("queue", packet.queue().map(|queue| OwnedValue::U64(queue.into())));
        add("verdict", packet.verdict().map(bytes));
        add("hash", packet.hash().map(bytes));
    }
    CurrentItem::Packet {
        t_ns,
        section: packet.section,
        interface: packet.interface,
        numbers: [direction_index(packet.direction()) as u64, u64::from(packet.original_len), packet.data.len() as u64],
        class: classes.packet(&names, shared),
        more,
    }
}

fn entry_item(journal: &JournalBlock, t_ns: i64, classes: &mut Classes, shared: &mut Shared) -> CurrentItem {
    // The journal allows no longer names.
    let fields = || journal.fields().filter(|(name, _)| name.len() <= 64 && *name != b"__REALTIME_TIMESTAMP").take(MAX_FIELDS);
    let value = |value: &[u8]| OwnedValue::Str(value[..value.len().min(MAX_VALUE)].to_vec());
    if classes.known.len() < MAX_CLASSES {
        let names: Vec<String> = fields().map(|(name, _)| String::from_utf8_lossy(name).into_owned()).collect();
        let class = classes.of("journal", &[], &names.iter().map(String::as_str).collect::<Vec<_>>(), shared);
        return CurrentItem::Entry { t_ns, class, values: fields().map(|(_, text)| value(text)).collect() };
    }
    let all = fields().map(|(name, text)| (String::from_utf8_lossy(name).as_ref().into(), value(text))).collect();
    CurrentItem::Entry { t_ns, class: classes.of("journal", &["entry"], &[], shared), values: vec![OwnedValue::Fields(all)] }
}
