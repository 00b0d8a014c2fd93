//! Writes one pcapng section.
//!
//! Interfaces may appear at any time; their ids count up in the order of their addition and never change. Everything is little
//! endian and in nanoseconds of Unix time.
//!
//! Each block is put together in one reused buffer and leaves in one `write_all`. With a file as output, a process that dies
//! leaves whole blocks. With a `BufWriter` around the file it does so too, since that never splits what fits into its buffer.

use std::io::{self, Write};

use crate::block::{Direction, LinkType, BYTE_ORDER_MAGIC, ENHANCED_PACKET, INTERFACE_DESCRIPTION, INTERFACE_STATISTICS, SECTION_HEADER};
use crate::options as code;
use crate::time::Resolution;

/// Most bytes kept of one packet, whatever the interface's snaplen: Wireshark refuses files with more.
pub const MAX_CAPTURED_LEN: usize = 262_144;

/// Most bytes of one text option: its length has 16 bits.
pub const MAX_TEXT_LEN: usize = u16::MAX as usize;

/// The writer's name for an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InterfaceId(pub u32);

/// Where and by what the capture is made. Empty texts are left out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Section<'a> {
    /// Description of the hardware; empty: left out.
    pub hardware: &'a str,
    /// Name of the operating system; empty: left out.
    pub os: &'a str,
    /// Name of the program that writes; empty: left out.
    pub application: &'a str,
    /// A comment; empty: left out.
    pub comment: &'a str,
}

/// An interface to be declared.
#[derive(Clone, Copy, Debug)]
pub struct Interface<'a> {
    /// Its name, such as `eth0`.
    pub name: &'a str,
    /// Left out if empty.
    pub description: &'a str,
    /// Packets are cut to this many bytes; 0 means no limit.
    pub snaplen: u32,
    /// What the bytes of its packets are.
    pub link_type: LinkType,
}

impl<'a> Interface<'a> {
    /// An Ethernet interface without description.
    pub fn ethernet(name: &'a str, snaplen: u32) -> Interface<'a> {
        Interface { name, description: "", snaplen, link_type: LinkType::ETHERNET }
    }
}

/// A packet to be written.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// The interface that it was captured on.
    pub interface: InterfaceId,
    /// Unix time.
    pub time_ns: u64,
    /// The bytes at hand; the interface's snaplen cuts them.
    pub data: &'a [u8],
    /// Length on the wire: at least that of `data`.
    pub original_len: u32,
    /// Whether the interface received or sent it.
    pub direction: Direction,
    /// Packets lost on this interface since its previous packet, if known.
    pub drop_count: Option<u64>,
    /// Equal for one packet seen on several interfaces.
    pub packet_id: Option<u64>,
    /// A comment on the packet.
    pub comment: Option<&'a str>,
}

impl<'a> Packet<'a> {
    /// A packet of which all bytes are at hand, without anything optional.
    pub fn new(interface: InterfaceId, time_ns: u64, data: &'a [u8]) -> Packet<'a> {
        Packet {
            interface,
            time_ns,
            data,
            original_len: u32::try_from(data.len()).unwrap_or(u32::MAX),
            direction: Direction::Unknown,
            drop_count: None,
            packet_id: None,
            comment: None,
        }
    }
}

/// Counts since the begin of the capture; unknown ones are left out.
#[derive(Clone, Copy, Debug)]
pub struct Statistics {
    /// The interface that was counted.
    pub interface: InterfaceId,
    /// When these counts held, Unix time.
    pub time_ns: u64,
    /// Time at which the capture began, in ns since 1970.
    pub start_ns: Option<u64>,
    /// Time at which the capture ended, in ns since 1970.
    pub end_ns: Option<u64>,
    /// Packets that the interface received.
    pub received: Option<u64>,
    /// Packets that the interface lost for want of room.
    pub dropped: Option<u64>,
    /// Packets that reached the file.
    pub delivered: Option<u64>,
}

impl Statistics {
    /// Counters of an interface at a time (ns since 1970), of which none is known yet.
    pub fn new(interface: InterfaceId, time_ns: u64) -> Statistics {
        Statistics { interface, time_ns, start_ns: None, end_ns: None, received: None, dropped: None, delivered: None }
    }
}

/// Why a block was not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The output failed.
    #[error("cannot write: {0}")]
    Io(#[from] io::Error),
    /// The output may end inside a block, and nothing can follow that.
    #[error("an earlier write failed")]
    Broken,
    /// The packet's interface was not declared.
    #[error("there is no interface {0}")]
    UnknownInterface(u32),
    /// The captured length is greater than the original one.
    #[error("a packet of {original} bytes cannot have {captured} captured ones")]
    OriginalLength {
        /// Bytes of the packet on the wire.
        original: u32,
        /// Bytes that were captured.
        captured: usize,
    },
    /// A text is longer than an option can be.
    #[error("a text of {0} bytes is longer than an option can be ({MAX_TEXT_LEN})")]
    TextTooLong(usize),
    /// All ids of interfaces are used.
    #[error("no more interface ids")]
    TooManyInterfaces,
}

/// Writes one section into `W`.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    block: Vec<u8>,
    /// Effective snaplen per interface id.
    limits: Vec<usize>,
    written: u64,
    broken: bool,
}

impl<W: Write> Writer<W> {
    /// Writes the section header at once.
    pub fn new(out: W, section: &Section<'_>) -> Result<Writer<W>, WriteError> {
        let mut writer = Writer { out, block: Vec::with_capacity(256), limits: Vec::new(), written: 0, broken: false };
        check_text(&[section.hardware, section.os, section.application, section.comment])?;
        writer.begin(SECTION_HEADER);
        writer.u32(BYTE_ORDER_MAGIC);
        writer.u16(1);
        writer.u16(0);
        // The section's length is not known while it is written.
        writer.u64(u64::MAX);
        let texts = [
            (code::COMMENT, section.comment),
            (code::SHB_HARDWARE, section.hardware),
            (code::SHB_OS, section.os),
            (code::SHB_USERAPPL, section.application),
        ];
        writer.texts(&texts);
        if texts.iter().any(|(_, text)| !text.is_empty()) {
            writer.end_of_options();
        }
        writer.end()?;
        Ok(writer)
    }

    /// Declares an interface. Its packets may follow at once.
    pub fn add_interface(&mut self, interface: &Interface<'_>) -> Result<InterfaceId, WriteError> {
        check_text(&[interface.name, interface.description])?;
        let id = u32::try_from(self.limits.len()).map_err(|_| WriteError::TooManyInterfaces)?;
        self.begin(INTERFACE_DESCRIPTION);
        self.u16(interface.link_type.0);
        self.u16(0);
        self.u32(interface.snaplen);
        self.texts(&[(code::IF_NAME, interface.name), (code::IF_DESCRIPTION, interface.description)]);
        self.option(code::IF_TSRESOL, &[Resolution::NANOSECONDS.to_option()]);
        self.end_of_options();
        self.end()?;
        self.limits.push(match interface.snaplen as usize {
            0 => MAX_CAPTURED_LEN,
            snaplen => snaplen.min(MAX_CAPTURED_LEN),
        });
        Ok(InterfaceId(id))
    }

    /// Writes a packet.
    pub fn packet(&mut self, packet: &Packet<'_>) -> Result<(), WriteError> {
        let limit = self.limit(packet.interface)?;
        if (packet.original_len as usize) < packet.data.len() {
            let (original, captured) = (packet.original_len, packet.data.len());
            return Err(WriteError::OriginalLength { original, captured });
        }
        let comment = packet.comment.unwrap_or("");
        check_text(&[comment])?;
        let data = &packet.data[..packet.data.len().min(limit)];

        // One append for all fixed words: this is the path of every packet.
        let mut head = [0; 28];
        head[0..4].copy_from_slice(&ENHANCED_PACKET.to_le_bytes());
        head[8..12].copy_from_slice(&packet.interface.0.to_le_bytes());
        head[12..16].copy_from_slice(&((packet.time_ns >> 32) as u32).to_le_bytes());
        head[16..20].copy_from_slice(&(packet.time_ns as u32).to_le_bytes());
        head[20..24].copy_from_slice(&(data.len() as u32).to_le_bytes());
        head[24..28].copy_from_slice(&packet.original_len.to_le_bytes());
        self.block.clear();
        self.block.extend_from_slice(&head);
        self.padded(data);

        let mut any = false;
        if !comment.is_empty() {
            self.option(code::COMMENT, comment.as_bytes());
            any = true;
        }
        if packet.direction != Direction::Unknown {
            self.option(code::EPB_FLAGS, &packet.direction.flags().to_le_bytes());
            any = true;
        }
        if let Some(count) = packet.drop_count {
            self.option(code::EPB_DROPCOUNT, &count.to_le_bytes());
            any = true;
        }
        if let Some(id) = packet.packet_id {
            self.option(code::EPB_PACKETID, &id.to_le_bytes());
            any = true;
        }
        if any {
            self.end_of_options();
        }
        self.end()
    }

    /// Writes the counts of one interface; usually once, at the end of the file.
    pub fn statistics(&mut self, statistics: &Statistics) -> Result<(), WriteError> {
        self.limit(statistics.interface)?;
        self.begin(INTERFACE_STATISTICS);
        self.u32(statistics.interface.0);
        self.ticks(statistics.time_ns);
        for (code, time) in [(code::ISB_STARTTIME, statistics.start_ns), (code::ISB_ENDTIME, statistics.end_ns)] {
            if let Some(ns) = time {
                self.u16(code);
                self.u16(8);
                self.ticks(ns);
            }
        }
        let counts =
            [(code::ISB_IFRECV, statistics.received), (code::ISB_IFDROP, statistics.dropped), (code::ISB_USRDELIV, statistics.delivered)];
        for (code, count) in counts {
            if let Some(count) = count {
                self.option(code, &count.to_le_bytes());
            }
        }
        self.end_of_options();
        self.end()
    }

    /// Flushes the output.
    pub fn flush(&mut self) -> Result<(), WriteError> {
        Ok(self.out.flush()?)
    }

    /// Bytes of the whole blocks written so far. After a failed write, what the output holds beyond them is half a block.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Interfaces declared so far.
    pub fn interfaces(&self) -> usize {
        self.limits.len()
    }

    /// The output.
    pub fn get_ref(&self) -> &W {
        &self.out
    }

    /// Whoever takes blocks out leaves whole ones.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.out
    }

    /// The output, without the writer.
    pub fn into_inner(self) -> W {
        self.out
    }

    fn limit(&self, interface: InterfaceId) -> Result<usize, WriteError> {
        self.limits.get(interface.0 as usize).copied().ok_or(WriteError::UnknownInterface(interface.0))
    }

    fn begin(&mut self, block_type: u32) {
        self.block.clear();
        self.u32(block_type);
        self.u32(0);
    }

    /// Sets both lengths and hands the block over.
    fn end(&mut self) -> Result<(), WriteError> {
        if self.broken {
            return Err(WriteError::Broken);
        }
        // Packets and options are bounded, so a block's length always fits.
        let length = (self.block.len() + 4) as u32;
        self.block[4..8].copy_from_slice(&length.to_le_bytes());
        self.u32(length);
        if let Err(error) = self.out.write_all(&self.block) {
            self.broken = true;
            return Err(error.into());
        }
        self.written += u64::from(length);
        Ok(())
    }

    fn u16(&mut self, value: u16) {
        self.block.extend_from_slice(&value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.block.extend_from_slice(&value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.block.extend_from_slice(&value.to_le_bytes());
    }

    /// Time stamps are two words, the upper first.
    fn ticks(&mut self, ns: u64) {
        self.u32((ns >> 32) as u32);
        self.u32(ns as u32);
    }

    fn padded(&mut self, bytes: &[u8]) {
        self.block.extend_from_slice(bytes);
        let padding = bytes.len().next_multiple_of(4) - bytes.len();
        self.block.extend_from_slice(&[0; 3][..padding]);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        self.u16(code);
        self.u16(value.len() as u16);
        self.padded(value);
    }

    fn texts(&mut self, texts: &[(u16, &str)]) {
        for (code, text) in texts {
            if !text.is_empty() {
                self.option(*code, text.as_bytes());
            }
        }
    }

    fn end_of_options(&mut self) {
        self.u32(u32::from(code::END));
    }
}

/// Before the first byte of a block, so that a refused text leaves nothing behind.
fn check_text(texts: &[&str]) -> Result<(), WriteError> {
    match texts.iter().map(|text| text.len()).find(|&length| length > MAX_TEXT_LEN) {
        Some(length) => Err(WriteError::TextTooLong(length)),
        None => Ok(()),
    }
}
