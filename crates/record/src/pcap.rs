//! Captured packets of one label: `packets/<label>.pcapng`.
//!
//! One section, interface ids in the order of appearance, nanoseconds. Each block leaves in one write, so a killed recorder leaves
//! a readable file.

use crate::class::Event;
use crate::error::Error;
use crate::policy::Packets;
use crate::recording::{component, kernel};
use longpole_abi::{Field, FieldType};
use longpole_pcapng::{Direction, Interface, InterfaceId, Packet, Section, Statistics, Writer};
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::BufWriter;
use std::path::Path;

/// Blocks are gathered up to this many bytes; a buffer is never left in the middle of one.
const BUFFER: usize = 64 << 10;

#[derive(Debug)]
struct Seen {
    id: InterfaceId,
    packets: u64,
    first_ns: u64,
    last_ns: u64,
}

#[derive(Debug)]
pub struct Capture {
    writer: Writer<BufWriter<File>>,
    interfaces: HashMap<String, Seen>,
    /// Events lost since the previous packet, on whatever interface they may have been captured.
    lost: u64,
    lost_total: u64,
}

/// A packet event taken apart.
#[derive(Debug, PartialEq, Eq)]
pub struct Captured<'a> {
    pub interface: String,
    pub direction: u32,
    pub length: u32,
    pub bytes: &'a [u8],
}

impl Capture {
    pub fn create(directory: &Path, label: &str) -> Result<Capture, Error> {
        let directory = directory.join("packets");
        match fs::create_dir(&directory) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(Error::io("make", directory)(error)),
            _ => {}
        }
        let base = component(label);
        let mut attempt = 1;
        let file = loop {
            let name = if attempt == 1 { format!("{base}.pcapng") } else { format!("{base}-{attempt}.pcapng") };
            let path = directory.join(name);
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => break file,
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && attempt < 10_000 => attempt += 1,
                Err(error) => return Err(Error::io("make", path)(error)),
            }
        };
        let os = format!("Linux {}", kernel());
        let application = concat!("longpole ", env!("CARGO_PKG_VERSION"));
        let section = Section { os: &os, application, ..Section::default() };
        let mut writer = Writer::new(BufWriter::with_capacity(BUFFER, file), &section)?;
        writer.flush()?;
        Ok(Capture { writer, interfaces: HashMap::new(), lost: 0, lost_total: 0 })
    }

    pub fn lose(&mut self, events: u64) {
        self.lost += events;
        self.lost_total += events;
    }

    pub fn packet(&mut self, captured: &Captured<'_>, time_ns: u64, policy: &Packets) -> Result<(), Error> {
        if !self.interfaces.contains_key(&captured.interface) {
            let id = self.writer.add_interface(&Interface::ethernet(&captured.interface, policy.snaplen))?;
            let seen = Seen { id, packets: 0, first_ns: time_ns, last_ns: time_ns };
            self.interfaces.insert(captured.interface.clone(), seen);
        }
        let Some(seen) = self.interfaces.get_mut(&captured.interface) else { return Ok(()) };
        let data = &captured.bytes[..captured.bytes.len().min(captured.length as usize)];
        self.writer.packet(&Packet {
            original_len: captured.length,
            direction: match captured.direction {
                1 => Direction::Inbound,
                2 => Direction::Outbound,
                _ => Direction::Unknown,
            },
            drop_count: (self.lost > 0).then_some(self.lost),
            ..Packet::new(seen.id, time_ns, data)
        })?;
        self.lost = 0;
        seen.packets += 1;
        seen.first_ns = seen.first_ns.min(time_ns);
        seen.last_ns = seen.last_ns.max(time_ns);
        Ok(())
    }

    pub fn flush(&mut self) -> Result<(), Error> {
        Ok(self.writer.flush()?)
    }

    pub fn finish(mut self, now_ns: u64) -> Result<(), Error> {
        let mut all: Vec<&Seen> = self.interfaces.values().collect();
        all.sort_by_key(|seen| seen.id);
        for seen in all {
            self.writer.statistics(&Statistics {
                start_ns: Some(seen.first_ns),
                end_ns: Some(seen.last_ns),
                received: Some(seen.packets + self.lost_total),
                dropped: Some(self.lost_total),
                delivered: Some(seen.packets),
                ..Statistics::new(seen.id, now_ns)
            })?;
        }
        self.flush()
    }
}

/// Takes the event of a packet class apart; `None` if it has not the fields of one.
pub fn captured<'a>(event: &Event<'a>) -> Option<Captured<'a>> {
    let mut packet = Captured { interface: event.class.name.clone(), direction: 0, length: 0, bytes: &[] };
    let mut at = 8;
    for Field { kind, name } in &event.class.fields {
        match kind {
            FieldType::U32 => {
                let value = u32::from_ne_bytes(event.bytes.get(at..at + 4)?.try_into().ok()?);
                match name.as_str() {
                    "direction" => packet.direction = value,
                    "length" => packet.length = value,
                    _ => {}
                }
                at += 4;
            }
            FieldType::Bytes => {
                let length = u64::from_ne_bytes(event.bytes.get(at..at + 8)?.try_into().ok()?) as usize;
                packet.bytes = event.bytes.get(at + 8..(at + 8).checked_add(length)?)?;
                at += 8 + length.next_multiple_of(8);
            }
            FieldType::Text => {
                let rest = event.bytes.get(at..)?;
                let length = rest.iter().position(|byte| *byte == 0)?;
                packet.interface = crate::comm::printable(&rest[..length]);
                at += (length + 1).next_multiple_of(8);
            }
            _ => at += 8,
        }
    }
    Some(packet)
}
