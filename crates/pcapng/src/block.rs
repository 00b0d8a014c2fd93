//! The blocks that a reader returns, and terms that reader and writer share.

use crate::byte_order::ByteOrder;
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

/// Type of the first bytes of a packet: a LINKTYPE number of the tcpdump registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkType(pub u16);

impl LinkType {
    /// Ethernet frames.
    pub const ETHERNET: LinkType = LinkType(1);
    /// IPv4 or IPv6 without a link layer, as on a TUN device.
    pub const RAW: LinkType = LinkType(101);
}

/// Direction of a packet, seen from its interface: bits 0 and 1 of `epb_flags`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Not stated in the file.
    #[default]
    Unknown,
    /// Received by the interface.
    Inbound,
    /// Sent by the interface.
    Outbound,
}

impl Direction {
    /// The direction in a value of `epb_flags`.
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

/// One block. A classic pcap file is returned as one interface block and packets.
#[derive(Debug)]
#[non_exhaustive]
pub enum Block<'a> {
    /// A section begins.
    Section(SectionBlock<'a>),
    /// The description of an interface of the section.
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
    /// A block in a format that a third party defined.
    Custom(CustomBlock<'a>),
    /// Any other block, undecoded.
    Raw(RawBlock<'a>),
}

/// Section header block. Interface ids start again from 0.
#[derive(Debug)]
pub struct SectionBlock<'a> {
    /// Number of the section in the file, from 0.
    pub section: u32,
    /// Byte order of the section's numbers.
    pub order: ByteOrder,
    /// Version of the format: major, minor.
    pub version: (u16, u16),
    /// Size of the section after this block, in bytes; `None` if the writer did not know it. The
    /// reader does not use it.
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

/// Properties of an interface that the reader stores for the rest of the section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceInfo {
    /// Link type of its packets.
    pub link_type: LinkType,
    /// Maximum number of bytes recorded per packet; 0 means no limit.
    pub snaplen: u32,
    /// Name (`if_name`).
    pub name: Option<String>,
    /// Description (`if_description`).
    pub description: Option<String>,
    /// Unit of its timestamps.
    pub resolution: Resolution,
    /// Offset of its timestamps in seconds (`if_tsoffset`).
    pub offset_s: i64,
}

impl InterfaceInfo {
    /// Unix time of a timestamp, in nanoseconds.
    pub fn ns(&self, ticks: u64) -> i128 {
        self.resolution.ns_with_offset(ticks, self.offset_s)
    }
}

/// Interface description block.
#[derive(Debug)]
pub struct InterfaceBlock<'a> {
    /// Index of the section in the file, from 0.
    pub section: u32,
    /// The id by which packets of this section refer to the interface.
    pub id: u32,
    /// Properties of the interface.
    pub info: &'a InterfaceInfo,
    /// The block's options.
    pub options: Options<'a>,
}

/// The block or record in which a packet was stored.
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

/// A packet, independent of the form in which it was stored.
#[derive(Debug)]
pub struct PacketBlock<'a> {
    /// Byte of the input at which the block begins.
    pub offset: u64,
    /// Form in which the packet was stored.
    pub form: PacketForm,
    /// Index of the section in the file, from 0.
    pub section: u32,
    /// Id of the interface. Valid only within its section: two sections may use one id for
    /// different interfaces.
    pub interface: u32,
    /// Properties of this interface.
    pub info: &'a InterfaceInfo,
    /// Timestamp in units of the interface; `None` for simple packets.
    pub ticks: Option<u64>,
    /// The recorded bytes.
    pub data: &'a [u8],
    /// Length on the wire, in bytes.
    pub original_len: u32,
    /// Flags (`epb_flags`).
    pub flags: Option<u32>,
    /// Number of packets that this interface lost between the previous packet and this one.
    pub drop_count: Option<u64>,
    /// Id (`epb_packetid`), which is equal for the same packet seen on several interfaces.
    pub packet_id: Option<u64>,
    /// The block's options.
    pub options: Options<'a>,
}

impl PacketBlock<'_> {
    /// Unix time in nanoseconds.
    pub fn time_ns(&self) -> Option<i128> {
        self.ticks.map(|ticks| self.info.ns(ticks))
    }

    /// Queue of the interface on which the packet was received (`epb_queue`).
    pub fn queue(&self) -> Option<u32> {
        self.options.u32(crate::options::EPB_QUEUE).filter(|_| self.form == PacketForm::Enhanced)
    }

    /// Verdict about the packet (`epb_verdict`). The first byte names the component: 0 hardware, 1
    /// Linux eBPF TC, 2 XDP.
    pub fn verdict(&self) -> Option<&[u8]> {
        self.options.get(crate::options::EPB_VERDICT).filter(|_| self.form == PacketForm::Enhanced)
    }

    /// Hash (`epb_hash`). The first byte names the algorithm: 0 two's complement, 1 XOR, 2 CRC32, 3
    /// MD5, 4 SHA-1, 5 Toeplitz.
    pub fn hash(&self) -> Option<&[u8]> {
        self.options.get(crate::options::EPB_HASH)
    }

    /// Direction of the packet, from its flags.
    pub fn direction(&self) -> Direction {
        self.flags.map_or(Direction::Unknown, Direction::from_flags)
    }
}

/// Interface statistics block. The numbers count from the start of the capture.
#[derive(Debug)]
pub struct StatisticsBlock<'a> {
    /// Byte of the input at which the block begins.
    pub offset: u64,
    /// Index of the section in the file, from 0.
    pub section: u32,
    /// Index of the interface in its section, from 0.
    pub interface: u32,
    /// Properties of this interface.
    pub info: &'a InterfaceInfo,
    /// Time of the counters, in units of the interface.
    pub ticks: u64,
    /// Time at which the capture began, in units of the interface.
    pub start_ticks: Option<u64>,
    /// Time at which the capture ended, in units of the interface.
    pub end_ticks: Option<u64>,
    /// Packets that the interface received.
    pub received: Option<u64>,
    /// Packets that the interface dropped because there was no room.
    pub dropped: Option<u64>,
    /// Packets that passed the capture filter.
    pub accepted: Option<u64>,
    /// Packets that the operating system dropped.
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
    /// Kind of the secrets: see [`SecretsBlock::kind_name`].
    pub kind: u32,
    /// The secrets, in the format of their kind.
    pub data: &'a [u8],
    /// The block's options.
    pub options: Options<'a>,
}

impl SecretsBlock<'_> {
    /// Name of the kind, if it is defined by the format.
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
    /// Text of the entry, including the zeros that pad it.
    pub entry: &'a [u8],
}

impl<'a> JournalBlock<'a> {
    /// Names and values in the order of the entry. Ends at the first part that does not have this
    /// form.
    pub fn fields(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let mut rest = self.entry;
        std::iter::from_fn(move || {
            let end = rest.iter().position(|&byte| byte == b'\n')?;
            let (line, after) = (&rest[..end], &rest[end + 1..]);
            if let Some(at) = line.iter().position(|&byte| byte == b'=') {
                rest = after;
                return Some((&line[..at], &line[at + 1..]));
            }
            // A value with line feeds is preceded by its length, which is little endian on all
            // hosts.
            let length = usize::try_from(u64::from_le_bytes(*after.first_chunk()?)).ok()?;
            let value = after.get(8..length.checked_add(8)?)?;
            rest = after.get(8 + length + 1..).unwrap_or(&[]);
            (!line.is_empty()).then_some((line, value))
        })
    }

    /// Unix time in nanoseconds, if the entry has it.
    pub fn time_ns(&self) -> Option<i128> {
        let (_, value) = self.fields().find(|(name, _)| *name == b"__REALTIME_TIMESTAMP")?;
        Some(std::str::from_utf8(value).ok()?.parse::<u64>().ok().map(i128::from)? * 1000)
    }
}

/// A block in a format that a third party defined.
#[derive(Clone, Copy, Debug)]
pub struct CustomBlock<'a> {
    /// Index of the section in the file, from 0.
    pub section: u32,
    /// Byte order of the section.
    pub order: ByteOrder,
    /// Private enterprise number of the third party.
    pub enterprise: u32,
    /// `true` if a program that changes the file may copy the block.
    pub copied: bool,
    /// Data, and possibly options; only the third party's format defines where they begin.
    pub data: &'a [u8],
}

/// A block that this crate does not decode.
#[derive(Clone, Copy, Debug)]
pub struct RawBlock<'a> {
    /// Index of the section in the file, from 0.
    pub section: u32,
    /// Type of the block.
    pub block_type: u32,
    /// Byte order of the section.
    pub order: ByteOrder,
    /// Content of the block, without type and lengths.
    pub body: &'a [u8],
}
