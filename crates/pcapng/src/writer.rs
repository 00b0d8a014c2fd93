//! Writes one pcapng section.
//!
//! Interfaces may be added at any time; their ids count up in the order of their addition and never
//! change. All numbers are little endian, and times are Unix times in nanoseconds.
//!
//! Each block is built in one reused buffer and written with one `write_all`. So if the output is a
//! file and the process dies, the file contains whole blocks. This also holds with a `BufWriter`
//! around the file, because it never splits data that fits into its buffer.

use std::io::{self, Write};

use crate::block::{Direction, LinkType, BYTE_ORDER_MAGIC, ENHANCED_PACKET, INTERFACE_DESCRIPTION, INTERFACE_STATISTICS, SECTION_HEADER};
use crate::options as code;
use crate::time::Resolution;

/// Maximum number of bytes recorded of one packet, whatever the interface's snaplen: Wireshark
/// refuses files with larger packets.
pub const MAX_CAPTURED_LEN: usize = 262_144;

/// Maximum size of a text option in bytes, because its length has 16 bits.
pub const MAX_TEXT_LEN: usize = u16::MAX as usize;

/// Id of an interface in the section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InterfaceId(pub u32);

/// Origin of the capture. Empty texts are omitted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Section<'a> {
    /// Description of the hardware; omitted if empty.
    pub hardware: &'a str,
    /// Name of the operating system; omitted if empty.
    pub os: &'a str,
    /// Name of the program that writes; omitted if empty.
    pub application: &'a str,
    /// A comment; omitted if empty.
    pub comment: &'a str,
}

/// An interface to be declared.
#[derive(Clone, Copy, Debug)]
pub struct Interface<'a> {
    /// Name of the interface, such as `eth0`.
    pub name: &'a str,
    /// Description; omitted if empty.
    pub description: &'a str,
    /// Maximum number of bytes recorded per packet; 0 means no limit.
    pub snaplen: u32,
    /// Link type of its packets.
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
    /// The interface on which the packet was captured.
    pub interface: InterfaceId,
    /// Unix time in nanoseconds.
    pub time_ns: u64,
    /// Bytes of the packet; they are cut at the interface's snaplen.
    pub data: &'a [u8],
    /// Length on the wire in bytes, which must be at least the length of `data`.
    pub original_len: u32,
    /// Direction of the packet, seen from the interface.
    pub direction: Direction,
    /// Number of packets lost on this interface since its previous packet, if known.
    pub drop_count: Option<u64>,
    /// Id that is equal for one packet seen on several interfaces.
    pub packet_id: Option<u64>,
    /// A comment on the packet.
    pub comment: Option<&'a str>,
}

impl<'a> Packet<'a> {
    /// Creates a packet whose bytes are all available, without optional properties.
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

/// Counters from the start of the capture; unknown ones are omitted.
#[derive(Clone, Copy, Debug)]
pub struct Statistics {
    /// The interface to which the counters belong.
    pub interface: InterfaceId,
    /// Unix time of the counters, in nanoseconds.
    pub time_ns: u64,
    /// Unix time at which the capture began, in nanoseconds.
    pub start_ns: Option<u64>,
    /// Unix time at which the capture ended, in nanoseconds.
    pub end_ns: Option<u64>,
    /// Packets that the interface received.
    pub received: Option<u64>,
    /// Packets that the interface dropped because there was no room.
    pub dropped: Option<u64>,
    /// Packets that reached the file.
    pub delivered: Option<u64>,
}

impl Statistics {
    /// Creates statistics of an interface at a Unix time in nanoseconds, with all counters unknown.
    pub fn new(interface: InterfaceId, time_ns: u64) -> Statistics {
        Statistics { interface, time_ns, start_ns: None, end_ns: None, received: None, dropped: None, delivered: None }
    }
}

/// Reasons why a block was not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The output failed.
    #[error("cannot write: {0}")]
    Io(#[from] io::Error),
    /// An earlier write failed, so the output may end within a block and nothing can follow.
    #[error("an earlier write failed")]
    Broken,
    /// The packet's interface was not declared.
    #[error("there is no interface {0}")]
    UnknownInterface(u32),
    /// The captured length is greater than the original one.
    #[error("a packet of {original} bytes cannot have {captured} captured ones")]
    OriginalLength {
        /// Length of the packet on the wire, in bytes.
        original: u32,
        /// Number of captured bytes.
        captured: usize,
    },
    /// A text is longer than an option can be; its length in bytes.
    #[error("a text of {0} bytes is longer than an option can be ({MAX_TEXT_LEN})")]
    TextTooLong(usize),
    /// All interface ids are used.
    #[error("no more interface ids")]
    TooManyInterfaces,
}

/// Writes one section into `W`.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    block: Vec<u8>,
    /// Effective snaplen of each interface, in bytes.
    limits: Vec<usize>,
    written: u64,
    broken: bool,
}

impl<W: Write> Writer<W> {
    /// Creates a writer and writes the section header.
    pub fn new(out: W, section: &Section<'_>) -> Result<Writer<W>, WriteError> {
        let mut writer = Writer { out, block: Vec::with_capacity(256), limits: Vec::new(), written: 0, broken: false };
        check_text(&[section.hardware, section.os, section.application, section.comment])?;
        writer.begin(SECTION_HEADER);
        writer.u32(BYTE_ORDER_MAGIC);
        writer.u16(1);
        writer.u16(0);
        // The length of the section is unknown while it is being written.
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

    /// Declares an interface. Its packets may follow immediately.
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

        // Appends all fixed words at once, because this code runs for every packet.
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

    /// Writes the counters of one interface, usually once at the end of the file.
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

    /// Number of bytes of all whole blocks written. After a failed write, the output may contain a
    /// part of one more block.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Number of declared interfaces.
    pub fn interfaces(&self) -> usize {
        self.limits.len()
    }

    /// The output.
    pub fn get_ref(&self) -> &W {
        &self.out
    }

    /// The output. A caller that removes data from it must remove whole blocks.
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

    /// Fills in both lengths and writes the block.
    fn end(&mut self) -> Result<(), WriteError> {
        if self.broken {
            return Err(WriteError::Broken);
        }
        // Packets and options are bounded, so the length of a block always fits.
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

    /// Writes a timestamp: two words, the upper one first.
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

/// Checks texts before the first byte of a block is built, so that a refused text leaves nothing
/// behind.
fn check_text(texts: &[&str]) -> Result<(), WriteError> {
    match texts.iter().map(|text| text.len()).find(|&length| length > MAX_TEXT_LEN) {
        Some(length) => Err(WriteError::TextTooLong(length)),
        None => Ok(()),
    }
}
