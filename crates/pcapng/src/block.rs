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

pub(crate) const JOURNAL_ENTRY: u32 = 9;
pub(crate) const SECRETS: u32 = 10;
pub(crate) const CUSTOM: u32 = 0x0000_0bad;
pub(crate) const CUSTOM_NOT_COPIED: u32 = 0x4000_0bad;

pub(crate) const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

/// The byte order of a section.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ByteOrder {
    /// The least significant byte first.
    #[default]
    Little,
    /// The most significant byte first.
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
    /// Ethernet frames.
    pub const ETHERNET: LinkType = LinkType(1);
    /// Bare IPv4 or IPv6, as of a TUN device.
    pub const RAW: LinkType = LinkType(101);
}

/// Which way a packet went, seen from its interface: bits 0 and 1 of `epb_flags`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The file does not say it.
    #[default]
    Unknown,
    /// Received by the interface.
    Inbound,
    /// Sent by the interface.
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
    /// A section begins.
    Section(SectionBlock<'a>),
    /// An interface of the section is declared.
    Interface(InterfaceBlock<'a>),
    /// A packet.
    Packet(PacketBlock<'a>),
    /// Counters of an interface.
    Statistics(StatisticsBlock<'a>),
    /// Names of addresses.
    Names(NamesBlock<'a>),
    /// Secrets for decryption.
    Secrets(SecretsBlock<'a>),
    /// An entry of a journal.
    Journal(JournalBlock<'a>),
    /// A block of a format of somebody's own.
    Custom(CustomBlock<'a>),
    /// Everything else: the bytes as they are.
    Raw(RawBlock<'a>),
}

/// Section header block. All interface ids begin anew here.
#[derive(Debug)]
pub struct SectionBlock<'a> {
    /// Counts the file's sections from 0.
    pub section: u32,
    /// Byte order of the section's numbers.
    pub order: ByteOrder,
    /// Version of the format: major, minor.
    pub version: (u16, u16),
    /// Bytes of the section behind this block; none if the writer did not know it. Not used for reading.
    pub length: Option<u64>,
    /// The block's options.
    pub options: Options<'a>,
}

impl SectionBlock<'_> {
    /// Description of the hardware (`shb_hardware`).
    pub fn hardware(&self) -> Option<String> {
        self.options.text(crate::options::SHB_HARDWARE)
    }

    /// Name of the operating system (`shb_os`).
    pub fn os(&self) -> Option<String> {
        self.options.text(crate::options::SHB_OS)
    }

    /// Name of the program that wrote the section (`shb_userappl`).
    pub fn application(&self) -> Option<String> {
        self.options.text(crate::options::SHB_USERAPPL)
    }
}

/// What the reader keeps of an interface for the rest of its section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceInfo {
    /// What the bytes of its packets are.
    pub link_type: LinkType,
    /// Most bytes kept of a packet; 0 means no limit.
    pub snaplen: u32,
    /// `if_name`.
    pub name: Option<String>,
    /// `if_description`.
    pub description: Option<String>,
    /// Unit of its time stamps.
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
    /// Index of the section in the file, from 0.
    pub section: u32,
    /// The id by which packets of this section name the interface.
    pub id: u32,
    /// What the declaration says.
    pub info: &'a InterfaceInfo,
    /// The block's options.
    pub options: Options<'a>,
}

/// The block or record that a packet came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketForm {
    /// Enhanced Packet Block: interface, time and lengths.
    Enhanced,
    /// Simple Packet Block: the original length only.
    Simple,
    /// The packet block of the format's first draft.
    Obsolete,
    /// A record of a classic pcap file.
    Classic,
}

/// A packet, whatever form it was stored in.
#[derive(Debug)]
pub struct PacketBlock<'a> {
    /// Where the block begins in the input.
    pub offset: u64,
    /// Kind of the block.
    pub form: PacketForm,
    /// Index of the section in the file, from 0.
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
    /// The block's options.
    pub options: Options<'a>,
}

impl PacketBlock<'_> {
    /// Unix time in nanoseconds.
    pub fn time_ns(&self) -> Option<i128> {
        self.ticks.map(|ticks| self.info.ns(ticks))
    }

    /// `epb_queue`: of the interface, from which it came.
    pub fn queue(&self) -> Option<u32> {
        self.options.u32(crate::options::EPB_QUEUE).filter(|_| self.form == PacketForm::Enhanced)
    }

    /// `epb_verdict`: what was done with the packet, by whom in the first byte (0 hardware, 1 Linux eBPF TC, 2 XDP).
    pub fn verdict(&self) -> Option<&[u8]> {
        self.options.get(crate::options::EPB_VERDICT).filter(|_| self.form == PacketForm::Enhanced)
    }

    /// `epb_hash`: algorithm in the first byte (0 two's complement, 1 XOR, 2 CRC32, 3 MD5, 4 SHA-1, 5 Toeplitz).
    pub fn hash(&self) -> Option<&[u8]> {
        self.options.get(crate::options::EPB_HASH)
    }

    /// Direction of the packet, from its flags.
    pub fn direction(&self) -> Direction {
        self.flags.map_or(Direction::Unknown, Direction::from_flags)
    }
}

/// Interface statistics block. Counts are since the begin of the capture.
#[derive(Debug)]
pub struct StatisticsBlock<'a> {
    /// Where the block begins in the input.
    pub offset: u64,
    /// Index of the section in the file, from 0.
    pub section: u32,
    /// Index of the interface in its section, from 0.
    pub interface: u32,
    /// What the interface's declaration says.
    pub info: &'a InterfaceInfo,
    /// Time of the counters, in the interface's units.
    pub ticks: u64,
    /// Time at which the capture began, in the interface's units.
    pub start_ticks: Option<u64>,
    /// Time at which the capture ended, in the interface's units.
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
    /// The block's options.
    pub options: Options<'a>,
}

impl StatisticsBlock<'_> {
    /// Time of the counters in ns since 1970.
    pub fn time_ns(&self) -> i128 {
        self.info.ns(self.ticks)
    }

    /// Time at which the capture began in ns since 1970.
    pub fn start_ns(&self) -> Option<i128> {
        self.start_ticks.map(|ticks| self.info.ns(ticks))
    }

    /// Time at which the capture ended in ns since 1970.
    pub fn end_ns(&self) -> Option<i128> {
        self.end_ticks.map(|ticks| self.info.ns(ticks))
    }
}

/// Name resolution block.
#[derive(Debug)]
pub struct NamesBlock<'a> {
    /// Index of the section in the file, from 0.
    pub section: u32,
    /// The names.
    pub records: NameRecords<'a>,
    /// The block's options.
    pub options: Options<'a>,
}

/// Decryption secrets block: keys for the packets that follow.
#[derive(Debug)]
pub struct SecretsBlock<'a> {
    /// Index of the section in the file, from 0.
    pub section: u32,
    /// What kind of secrets: see [`SecretsBlock::kind_name`].
    pub kind: u32,
    /// The secrets, in the format that their type names.
    pub data: &'a [u8],
    /// The block's options.
    pub options: Options<'a>,
}

impl SecretsBlock<'_> {
    /// Of the kinds that the format knows.
    pub fn kind_name(&self) -> Option<&'static str> {
        Some(match self.kind {
            0x544c_534b => "TLS key log",
            0x5353_484b => "SSH key log",
            0x5747_4b4c => "WireGuard key log",
            0x5a4e_574b => "ZigBee NWK key",
            0x5a41_5053 => "ZigBee APS key",
            0x5541_4b4c => "OPC UA key log",
            _ => return None,
        })
    }
}

/// An entry of systemd's journal, in its export format.
#[derive(Debug)]
pub struct JournalBlock<'a> {
    /// Index of the section in the file, from 0.
    pub section: u32,
    /// With the zeros that pad it.
    pub entry: &'a [u8],
}

impl<'a> JournalBlock<'a> {
    /// Names and values in the entry's order. What is not of the form ends it.
    pub fn fields(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let mut rest = self.entry;
        std::iter::from_fn(move || {
            let end = rest.iter().position(|&byte| byte == b'\n')?;
            let (line, after) = (&rest[..end], &rest[end + 1..]);
            if let Some(at) = line.iter().position(|&byte| byte == b'=') {
                rest = after;
                return Some((&line[..at], &line[at + 1..]));
            }
            // A value that has line ends stands behind its length, which is of little order everywhere.
            let length = usize::try_from(u64::from_le_bytes(*after.first_chunk()?)).ok()?;
            let value = after.get(8..length.checked_add(8)?)?;
            rest = after.get(8 + length + 1..).unwrap_or(&[]);
            (!line.is_empty()).then_some((line, value))
        })
    }

    /// Unix time in nanoseconds, if the entry tells it.
    pub fn time_ns(&self) -> Option<i128> {
        let (_, value) = self.fields().find(|(name, _)| *name == b"__REALTIME_TIMESTAMP")?;
        Some(std::str::from_utf8(value).ok()?.parse::<u64>().ok().map(i128::from)? * 1000)
    }
}

/// A block of somebody's own.
#[derive(Clone, Copy, Debug)]
pub struct CustomBlock<'a> {
    /// Index of the section in the file, from 0.
    pub section: u32,
    /// Byte order of the section.
    pub order: ByteOrder,
    /// The private enterprise number of who defined it.
    pub enterprise: u32,
    /// Whether who changes the file may keep it.
    pub copied: bool,
    /// Data, and options where that one has some: only who defined it knows where they begin.
    pub data: &'a [u8],
}

/// A block that this crate does not look into.
#[derive(Clone, Copy, Debug)]
pub struct RawBlock<'a> {
    /// Index of the section in the file, from 0.
    pub section: u32,
    /// Type of the block.
    pub block_type: u32,
    /// Byte order of the section.
    pub order: ByteOrder,
    /// Without type and lengths.
    pub body: &'a [u8],
}
