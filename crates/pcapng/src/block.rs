//! The blocks that a reader yields, and the few terms that reader and writer share.

use crate::names::NameRecords;
use crate::options::Options;
use crate::time::Resolution;

pub(crate) const SECTION_HEADER: u32 = 0x0a0d_0d0a;
pub(crate) const INTERFACE_DESCRIPTION: u32 = 1;
pub(crate) const OBSOLETE_PACKET: u32 = 2;
pub(crate) const SIMPLE_PACKET: u32 = 3;
pub(crate) const NAME_RESOLUTION: u32 = 4;
pub(crate) const INTERFACE_STATISTICS: u32 = 5;
pub(crate) const ENHANCED_PACKET: u32 = 6;

pub(crate) const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

/// The byte order of a section.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ByteOrder {
    #[default]
    Little,
    Big,
}

// The callers check that the bytes are there; an index beyond them would be a bug of this crate, not of the input.
impl ByteOrder {
    pub(crate) fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let raw = [bytes[at], bytes[at + 1]];
        match self {
            ByteOrder::Little => u16::from_le_bytes(raw),
            ByteOrder::Big => u16::from_be_bytes(raw),
        }
    }

    pub(crate) fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let raw = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        match self {
            ByteOrder::Little => u32::from_le_bytes(raw),
            ByteOrder::Big => u32::from_be_bytes(raw),
        }
    }

    pub(crate) fn u64(self, bytes: &[u8], at: usize) -> u64 {
        let (first, second) = (u64::from(self.u32(bytes, at)), u64::from(self.u32(bytes, at + 4)));
        match self {
            ByteOrder::Little => second << 32 | first,
            ByteOrder::Big => first << 32 | second,
        }
    }

    /// Time stamps are two words, the upper first, in either byte order.
    pub(crate) fn ticks(self, bytes: &[u8], at: usize) -> u64 {
        u64::from(self.u32(bytes, at)) << 32 | u64::from(self.u32(bytes, at + 4))
    }
}

/// What the bytes of a packet begin with: a LINKTYPE number of the tcpdump registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkType(pub u16);

impl LinkType {
    pub const ETHERNET: LinkType = LinkType(1);
    /// Bare IPv4 or IPv6, as of a TUN device.
    pub const RAW: LinkType = LinkType(101);
}

/// Which way a packet went, seen from its interface: bits 0 and 1 of `epb_flags`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Direction {
    #[default]
    Unknown,
    Inbound,
    Outbound,
}

impl Direction {
    /// Of an `epb_flags` word.
    pub fn from_flags(flags: u32) -> Direction {
        match flags & 3 {
            1 => Direction::Inbound,
            2 => Direction::Outbound,
            _ => Direction::Unknown,
        }
    }

    pub(crate) fn flags(self) -> u32 {
        match self {
            Direction::Unknown => 0,
            Direction::Inbound => 1,
            Direction::Outbound => 2,
        }
    }
}

/// One block. A classic pcap file appears as one interface block and packets.
#[derive(Debug)]
#[non_exhaustive]
pub enum Block<'a> {
    Section(SectionBlock<'a>),
    Interface(InterfaceBlock<'a>),
    Packet(PacketBlock<'a>),
    Statistics(StatisticsBlock<'a>),
    Names(NamesBlock<'a>),
    /// Custom blocks, secrets, journal entries and everything else: the bytes as they are.
    Raw(RawBlock<'a>),
}

/// Section header block. All interface ids begin anew here.
#[derive(Debug)]
pub struct SectionBlock<'a> {
    /// Counts the file's sections from 0.
    pub section: u32,
    pub order: ByteOrder,
    pub version: (u16, u16),
    /// Bytes of the section behind this block; none if the writer did not know it. Not used for reading.
    pub length: Option<u64>,
    pub options: Options<'a>,
}

impl SectionBlock<'_> {
    pub fn hardware(&self) -> Option<String> {
        self.options.text(crate::options::SHB_HARDWARE)
    }

    pub fn os(&self) -> Option<String> {
        self.options.text(crate::options::SHB_OS)
    }

    pub fn application(&self) -> Option<String> {
        self.options.text(crate::options::SHB_USERAPPL)
    }
}

/// What the reader keeps of an interface for the rest of its section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceInfo {
    pub link_type: LinkType,
    /// Most bytes kept of a packet; 0 means no limit.
    pub snaplen: u32,
    /// `if_name`.
    pub name: Option<String>,
    /// `if_description`.
    pub description: Option<String>,
    pub resolution: Resolution,
    /// `if_tsoffset`, seconds.
    pub offset_s: i64,
}

impl InterfaceInfo {
    /// Unix time of `ticks` in nanoseconds.
    pub fn ns(&self, ticks: u64) -> i128 {
        self.resolution.ns_with_offset(ticks, self.offset_s)
    }
}

/// Interface description block.
#[derive(Debug)]
pub struct InterfaceBlock<'a> {
    pub section: u32,
    /// The id by which packets of this section name the interface.
    pub id: u32,
    pub info: &'a InterfaceInfo,
    pub options: Options<'a>,
}

/// The block or record that a packet came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketForm {
    Enhanced,
    Simple,
    /// The packet block of the format's first draft.
    Obsolete,
    /// A record of a classic pcap file.
    Classic,
}

/// A packet, whatever form it was stored in.
#[derive(Debug)]
pub struct PacketBlock<'a> {
    pub form: PacketForm,
    pub section: u32,
    /// Valid within its section only; two sections may use one id for different interfaces.
    pub interface: u32,
    /// The interface that this id means here.
    pub info: &'a InterfaceInfo,
    /// Time stamp in the interface's own unit; simple packets have none.
    pub ticks: Option<u64>,
    /// The bytes that were kept.
    pub data: &'a [u8],
    /// Length on the wire.
    pub original_len: u32,
    /// `epb_flags`.
    pub flags: Option<u32>,
    /// Packets lost by this interface between the previous packet and this one.
    pub drop_count: Option<u64>,
    /// `epb_packetid`: equal for the same packet seen on several interfaces.
    pub packet_id: Option<u64>,
    pub options: Options<'a>,
}

impl PacketBlock<'_> {
    /// Unix time in nanoseconds.
    pub fn time_ns(&self) -> Option<i128> {
        self.ticks.map(|ticks| self.info.ns(ticks))
    }

    pub fn direction(&self) -> Direction {
        self.flags.map_or(Direction::Unknown, Direction::from_flags)
    }
}

/// Interface statistics block. Counts are since the begin of the capture.
#[derive(Debug)]
pub struct StatisticsBlock<'a> {
    pub section: u32,
    pub interface: u32,
    pub info: &'a InterfaceInfo,
    pub ticks: u64,
    pub start_ticks: Option<u64>,
    pub end_ticks: Option<u64>,
    /// Packets that the interface received.
    pub received: Option<u64>,
    /// Packets that the interface lost for want of room.
    pub dropped: Option<u64>,
    /// Packets that passed the capture filter.
    pub accepted: Option<u64>,
    /// Packets that the operating system lost.
    pub os_dropped: Option<u64>,
    /// Packets that reached the capturing program.
    pub delivered: Option<u64>,
    pub options: Options<'a>,
}

impl StatisticsBlock<'_> {
    pub fn time_ns(&self) -> i128 {
        self.info.ns(self.ticks)
    }

    pub fn start_ns(&self) -> Option<i128> {
        self.start_ticks.map(|ticks| self.info.ns(ticks))
    }

    pub fn end_ns(&self) -> Option<i128> {
        self.end_ticks.map(|ticks| self.info.ns(ticks))
    }
}

/// Name resolution block.
#[derive(Debug)]
pub struct NamesBlock<'a> {
    pub section: u32,
    pub records: NameRecords<'a>,
    pub options: Options<'a>,
}

/// A block that this crate does not look into.
#[derive(Clone, Copy, Debug)]
pub struct RawBlock<'a> {
    pub section: u32,
    pub block_type: u32,
    pub order: ByteOrder,
    /// Without type and lengths.
    pub body: &'a [u8],
}
