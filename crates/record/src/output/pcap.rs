//! Captured packets of one label, or of the host's interfaces: `packets/<label>.pcapng`.
//!
//! A file has one section, interface ids in the order of appearance, and times in nanoseconds. It
//! holds only whole blocks: if the disk takes a part of a block, the file is cut before that block.
//! Packets that the disk refuses are counted for their interface, and the capture continues once
//! there is room again. Blocks that later blocks refer to are held in memory until they are
//! written.

use crate::files::FileError;
use crate::output::recording::{component, kernel};
use longpole_pcapng::{Direction, Interface, InterfaceId, Packet, Section, Statistics, Writer};
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes of blocks that are gathered before a write.
const BUFFER: usize = 64 << 10;

/// Error of a capture file.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("cannot write a capture file: {0}")]
    Write(#[from] longpole_pcapng::WriteError),
}

/// An interface with captured packets.
#[derive(Debug)]
struct Seen {
    id: InterfaceId,
    packets: u64,
    first_ns: u64,
    last_ns: u64,
    /// Packets dropped since the begin of the capture.
    dropped: u64,
    /// The part of `dropped` that packets in the file report.
    reported: u64,
}

/// A block that is not in the file yet.
#[derive(Debug)]
struct Waiting {
    end: usize,
    packet: Option<WaitingPacket>,
}

#[derive(Clone, Copy, Debug)]
struct WaitingPacket {
    interface: usize,
    reported: u64,
    sole: bool,
}

/// The writer of one capture file.
#[derive(Debug)]
pub struct Capture {
    path: PathBuf,
    file: File,
    /// Bytes of whole blocks in the file.
    length: u64,
    writer: Writer<Vec<u8>>,
    waiting: Vec<Waiting>,
    by_name: HashMap<String, usize>,
    seen: Vec<Seen>,
    /// Index of the newest packet's interface.
    newest: usize,
    /// Number of lost events that may have been packets of any interface. They are counted for the
    /// interface of the next packet only.
    unknown: u64,
    refused: Refused,
}

/// Packets that the disk refused.
#[derive(Clone, Copy, Debug, Default)]
pub struct Refused {
    pub packets: u64,
    /// Number of refused packets that are recorded nowhere else.
    pub sole: u64,
}

/// A decoded packet event.
#[derive(Debug, PartialEq, Eq)]
pub struct Captured<'a> {
    pub interface: String,
    pub direction: u32,
    pub length: u32,
    pub bytes: &'a [u8],
}

/// The recorded part of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Taken<'a> {
    pub direction: Direction,
    /// Length on the wire, at least that of `bytes`.
    pub length: u32,
    pub bytes: &'a [u8],
}

impl Capture {
    /// Makes `packets/<label>.pcapng` in the recording's folder, with a number if the name exists.
    pub fn create(directory: &Path, label: &str) -> Result<Capture, CaptureError> {
        let directory = directory.join("packets");
        match fs::create_dir(&directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(FileError::io("make", directory)(error).into()),
            _ => {}
        }
        let base = component(label);
        let mut attempt = 1;
        let (path, file) = loop {
            let name = if attempt == 1 { format!("{base}.pcapng") } else { format!("{base}-{attempt}.pcapng") };
            let path = directory.join(name);
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => break (path, file),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < 10_000 => attempt += 1,
                Err(error) => return Err(FileError::io("make", path)(error).into()),
            }
        };
        let os = format!("Linux {}", kernel());
        let application = concat!("longpole ", env!("CARGO_PKG_VERSION"));
        let section = Section { os: &os, application, ..Section::default() };
        let mut capture = Capture {
            path,
            file,
            length: 0,
            writer: Writer::new(Vec::with_capacity(BUFFER), &section)?,
            waiting: Vec::new(),
            by_name: HashMap::new(),
            seen: Vec::new(),
            newest: 0,
            unknown: 0,
            refused: Refused::default(),
        };
        capture.gathered(None);
        // If the disk has no room for it, it waits.
        let _ = capture.flush();
        Ok(capture)
    }

    /// Adds lost events that may have been packets.
    pub fn lose(&mut self, events: u64) {
        self.unknown = self.unknown.saturating_add(events);
    }

    /// Adds a packet of a program. `snaplen`: bytes recorded of each packet of its interface.
    /// `sole`: the packet is recorded nowhere else.
    pub fn packet(&mut self, captured: &Captured<'_>, time_ns: u64, snaplen: u32, sole: bool) -> Result<(), CaptureError> {
        let index = match self.by_name.get(&captured.interface) {
            Some(&index) => index,
            None => self.interface(&Interface::ethernet(&captured.interface, snaplen), time_ns)?,
        };
        self.lose_on(index, self.unknown);
        self.unknown = 0;
        let direction = match captured.direction {
            1 => Direction::Inbound,
            2 => Direction::Outbound,
            _ => Direction::Unknown,
        };
        let bytes = &captured.bytes[..captured.bytes.len().min(captured.length as usize)];
        self.add(index, &Taken { direction, length: captured.length, bytes }, time_ns, sole)
    }

    /// Declares an interface whose capture begins at this time. Returns its index.
    pub fn interface(&mut self, interface: &Interface<'_>, time_ns: u64) -> Result<usize, CaptureError> {
        let id = self.writer.add_interface(interface)?;
        self.gathered(None);
        let index = self.seen.len();
        self.seen.push(Seen { id, packets: 0, first_ns: time_ns, last_ns: time_ns, dropped: 0, reported: 0 });
        self.by_name.insert(interface.name.to_owned(), index);
        Ok(index)
    }

    /// Adds lost packets of an interface.
    pub fn lose_on(&mut self, index: usize, packets: u64) {
        let seen = &mut self.seen[index];
        seen.dropped = seen.dropped.saturating_add(packets);
    }

    /// Adds a packet of a declared interface.
    pub fn add(&mut self, index: usize, taken: &Taken<'_>, time_ns: u64, sole: bool) -> Result<(), CaptureError> {
        let seen = &mut self.seen[index];
        let reported = seen.dropped - seen.reported;
        self.writer.packet(&Packet {
            original_len: taken.length,
            direction: taken.direction,
            drop_count: (reported > 0).then_some(reported),
            ..Packet::new(seen.id, time_ns, taken.bytes)
        })?;
        seen.reported = seen.dropped;
        seen.packets += 1;
        seen.first_ns = seen.first_ns.min(time_ns);
        seen.last_ns = seen.last_ns.max(time_ns);
        self.newest = index;
        self.gathered(Some(WaitingPacket { interface: index, reported, sole }));
        Ok(())
    }

    /// Marks the end of a block that was added to the buffer.
    fn gathered(&mut self, packet: Option<WaitingPacket>) {
        self.waiting.push(Waiting { end: self.writer.get_ref().len(), packet });
    }

    /// Returns whether enough blocks wait for a write.
    pub fn is_full(&self) -> bool {
        self.writer.get_ref().len() >= BUFFER
    }

    /// Writes the waiting blocks. Refused packets are cut off and counted.
    pub fn flush(&mut self) -> io::Result<()> {
        let mut done = 0;
        let bytes = self.writer.get_ref();
        let result = loop {
            if done == bytes.len() {
                break Ok(());
            }
            match self.file.write_at(&bytes[done..], self.length + done as u64) {
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(more) => done += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        let whole = self.waiting.iter().map(|block| block.end).take_while(|end| *end <= done).last().unwrap_or(0);
        self.length += whole as u64;
        if result.is_ok() {
            self.writer.get_mut().clear();
            self.waiting.clear();
            return Ok(());
        }
        let cut = self.file.set_len(self.length);
        let (mut kept, mut waiting) = (Vec::new(), Vec::new());
        let mut begin = 0;
        for block in std::mem::take(&mut self.waiting) {
            let from = std::mem::replace(&mut begin, block.end);
            if block.end <= whole {
                continue;
            }
            match block.packet {
                None => {
                    kept.extend_from_slice(&self.writer.get_ref()[from..block.end]);
                    waiting.push(Waiting { end: kept.len(), packet: None });
                }
                Some(packet) => {
                    let seen = &mut self.seen[packet.interface];
                    seen.packets -= 1;
                    seen.dropped = seen.dropped.saturating_add(1);
                    seen.reported = seen.reported.saturating_sub(packet.reported);
                    self.refused.packets += 1;
                    self.refused.sole += u64::from(packet.sole);
                }
            }
        }
        *self.writer.get_mut() = kept;
        self.waiting = waiting;
        result.and(cut)
    }

    /// Packets refused since the last call.
    pub fn take_refused(&mut self) -> Refused {
        std::mem::take(&mut self.refused)
    }

    /// Number of packets in the file or in the buffer.
    pub fn packets(&self) -> u64 {
        self.seen.iter().map(|seen| seen.packets).sum()
    }

    /// Bytes of whole blocks in the file.
    pub fn length(&self) -> u64 {
        self.length
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds the interface statistics. The number of received packets is left out, because the
    /// program decides which packets the probe sees.
    pub fn finish(&mut self, now_ns: u64) -> Result<(), CaptureError> {
        let flushed = self.flush();
        if let Some(seen) = self.seen.get_mut(self.newest) {
            seen.dropped = seen.dropped.saturating_add(std::mem::take(&mut self.unknown));
        }
        for at in 0..self.seen.len() {
            let seen = &self.seen[at];
            self.writer.statistics(&Statistics {
                start_ns: Some(seen.first_ns),
                end_ns: Some(seen.last_ns),
                dropped: Some(seen.dropped),
                delivered: Some(seen.packets),
                ..Statistics::new(seen.id, now_ns)
            })?;
            self.gathered(None);
        }
        let result = flushed.and(self.flush());
        if self.length == 0 {
            // No block could be written at all.
            let _ = fs::remove_file(&self.path);
        }
        Ok(result.map_err(FileError::io("write", &self.path))?)
    }
}
