//! Yields the blocks of a capture file, one after the other.
//!
//! One window of the input is in memory. It grows only when it is full of bytes that were really read, so a block that claims
//! to be huge costs what the input holds of it, and never more than [`MAX_BLOCK_LEN`]. Of the past only the interfaces of
//! the current section are kept, within [`MAX_INTERFACES`] and [`MAX_INTERFACE_TEXT`].
//!
//! Errors are of two kinds. Where the framing is broken (lengths, magic numbers, the end of the input) nothing behind can be found:
//! the reader reports it and ends. Where only a block's content is wrong, the next call goes on with the next block.

use std::io::{self, Read};

use crate::block::{
    Block, ByteOrder, InterfaceBlock, InterfaceInfo, LinkType, NamesBlock, PacketBlock, PacketForm,
    RawBlock, SectionBlock, StatisticsBlock, BYTE_ORDER_MAGIC, ENHANCED_PACKET,
    INTERFACE_DESCRIPTION, INTERFACE_STATISTICS, NAME_RESOLUTION, OBSOLETE_PACKET, SECTION_HEADER,
    SIMPLE_PACKET,
};
use crate::classic;
use crate::error::{Error, ErrorKind};
use crate::names::NameRecords;
use crate::options::{self as code, Options};
use crate::time::Resolution;

/// The longest block that is accepted; also Wireshark's limit.
pub const MAX_BLOCK_LEN: u32 = 16 << 20;
/// Interfaces of one section.
pub const MAX_INTERFACES: usize = 65_536;
/// Bytes of the names and descriptions of one section's interfaces.
pub const MAX_INTERFACE_TEXT: usize = 16 << 20;

const FIRST_WINDOW: usize = 64 << 10;

/// Reads pcapng and classic pcap from any byte source, a slice included. It buffers by itself.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    /// `window[start..end]` was read and not yet released; `start` is at `offset` of the input.
    window: Vec<u8>,
    start: usize,
    end: usize,
    offset: u64,
    /// Bytes of the block that was yielded last: released by the next call, since the caller may still look at them.
    taken: usize,
    format: Format,
    section: Counted,
    order: ByteOrder,
    interfaces: Interfaces,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    NotYetKnown,
    Pcapng,
    Classic(Resolution),
    Ended,
}

/// Sections seen so far; the number of the current one is one less.
#[derive(Debug, Default)]
struct Counted(u32);

impl Counted {
    fn current(&self) -> u32 {
        self.0.saturating_sub(1)
    }
}

/// The interfaces of the current section. A damaged declaration keeps its place, or else all later ids would shift.
#[derive(Debug, Default)]
struct Interfaces {
    known: Vec<Option<InterfaceInfo>>,
    text: usize,
}

impl Interfaces {
    fn clear(&mut self) {
        self.known.clear();
        self.text = 0;
    }

    fn add(&mut self, parsed: Result<InterfaceInfo, Error>, offset: u64) -> Result<u32, Error> {
        let refused = || Error::new(offset, ErrorKind::TooManyInterfaces);
        if self.known.len() >= MAX_INTERFACES {
            return Err(refused());
        }
        let info = parsed.and_then(|info| {
            let text = [&info.name, &info.description]
                .into_iter()
                .flatten()
                .map(String::len)
                .sum::<usize>();
            self.text += text;
            if self.text > MAX_INTERFACE_TEXT {
                self.text -= text;
                return Err(refused());
            }
            Ok(info)
        });
        let (entry, outcome) = match info {
            Ok(info) => (Some(info), Ok(self.known.len() as u32)),
            Err(error) => (None, Err(error)),
        };
        self.known.push(entry);
        outcome
    }

    fn get(&self, interface: u32, offset: u64) -> Result<&InterfaceInfo, Error> {
        let declared = self.known.len() as u32;
        let kind = match self.known.get(interface as usize) {
            Some(Some(info)) => return Ok(info),
            Some(None) => ErrorKind::DamagedInterface { interface },
            None => ErrorKind::UnknownInterface {
                interface,
                declared,
            },
        };
        Err(Error::new(offset, kind))
    }
}

impl<R: Read> Reader<R> {
    pub fn new(input: R) -> Reader<R> {
        Reader {
            input,
            window: Vec::new(),
            start: 0,
            end: 0,
            offset: 0,
            taken: 0,
            format: Format::NotYetKnown,
            section: Counted::default(),
            order: ByteOrder::Little,
            interfaces: Interfaces::default(),
        }
    }

    /// The next block; none at the end of the input and after an error that is not recoverable.
    pub fn next_block(&mut self) -> Result<Option<Block<'_>>, Error> {
        self.start += self.taken;
        self.offset += self.taken as u64;
        self.taken = 0;
        if self.format == Format::NotYetKnown {
            self.recognise()
                .inspect_err(|_| self.format = Format::Ended)?;
            if let Format::Classic(resolution) = self.format {
                return self.classic_header(resolution);
            }
        }
        let framed = match self.format {
            Format::Pcapng => self.frame(),
            Format::Classic(_) => self.classic_frame(),
            Format::Ended | Format::NotYetKnown => Ok(None),
        };
        let length = match framed {
            Ok(Some(length)) => length,
            Ok(None) => {
                self.format = Format::Ended;
                return Ok(None);
            }
            Err(error) => {
                self.format = Format::Ended;
                return Err(error);
            }
        };
        self.taken = length;
        let bytes = &self.window[self.start..self.start + length];
        let context = Context {
            section: self.section.current(),
            order: self.order,
            offset: self.offset,
        };
        match self.format {
            Format::Classic(resolution) => context.classic(bytes, resolution, &self.interfaces),
            _ => context.block(bytes, &mut self.interfaces),
        }
        .map(Some)
    }

    /// Where the block that was yielded (or refused) last begins in the input.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// An interface of the current section; none if it is not declared (yet) or its declaration was damaged.
    pub fn interface(&self, id: u32) -> Option<&InterfaceInfo> {
        self.interfaces.known.get(id as usize)?.as_ref()
    }

    /// Interfaces declared in the current section so far.
    pub fn interface_count(&self) -> usize {
        self.interfaces.known.len()
    }

    fn recognise(&mut self) -> Result<(), Error> {
        let have = self.fill(12)?;
        let Some(magic) = self.window[self.start..]
            .first_chunk::<4>()
            .filter(|_| have >= 4)
            .copied()
        else {
            return Err(self.error(ErrorKind::Truncated {
                need: 12,
                have: have as u64,
            }));
        };
        self.format = if u32::from_le_bytes(magic) == SECTION_HEADER {
            Format::Pcapng
        } else if let Some((order, resolution)) = classic::recognise(magic) {
            self.order = order;
            Format::Classic(resolution)
        } else {
            return Err(self.error(ErrorKind::NotACapture {
                magic: u32::from_be_bytes(magic),
            }));
        };
        Ok(())
    }

    /// Makes a whole block available and checks its frame. A section header takes effect here.
    fn frame(&mut self) -> Result<Option<usize>, Error> {
        let have = self.fill(12)?;
        if have == 0 {
            return Ok(None);
        }
        if have < 12 {
            return Err(self.error(ErrorKind::Truncated {
                need: 12,
                have: have as u64,
            }));
        }
        let head = &self.window[self.start..self.start + 12];
        let mut order = self.order;
        let begins_section = order.u32(head, 0) == SECTION_HEADER;
        if begins_section {
            order = match ByteOrder::Little.u32(head, 8) {
                BYTE_ORDER_MAGIC => ByteOrder::Little,
                magic if magic.swap_bytes() == BYTE_ORDER_MAGIC => ByteOrder::Big,
                magic => return Err(self.error(ErrorKind::ByteOrder { magic })),
            };
        }
        let (block_type, length) = (order.u32(head, 0), order.u32(head, 4));
        let least = least_len(block_type);
        if length < least || length % 4 != 0 {
            return Err(self.error(ErrorKind::BlockLength { length, least }));
        }
        if length > MAX_BLOCK_LEN {
            return Err(self.error(ErrorKind::BlockTooLong {
                length,
                limit: MAX_BLOCK_LEN,
            }));
        }
        let have = self.fill(length as usize)?;
        if have < length as usize {
            return Err(self.error(ErrorKind::Truncated {
                need: length.into(),
                have: have as u64,
            }));
        }
        let block = &self.window[self.start..self.start + length as usize];
        let trailing = order.u32(block, block.len() - 4);
        if trailing != length {
            return Err(self.error(ErrorKind::LengthMismatch {
                leading: length,
                trailing,
            }));
        }
        if begins_section {
            let (major, minor) = (order.u16(block, 12), order.u16(block, 14));
            if major != 1 {
                return Err(self.error(ErrorKind::Version { major, minor }));
            }
            self.order = order;
            self.section.0 = self.section.0.saturating_add(1);
            self.interfaces.clear();
        }
        Ok(Some(length as usize))
    }

    fn classic_header(&mut self, resolution: Resolution) -> Result<Option<Block<'_>>, Error> {
        let need = classic::FILE_HEADER_LEN;
        let filled = self
            .fill(need)
            .inspect_err(|_| self.format = Format::Ended)?;
        if filled < need {
            self.format = Format::Ended;
            return Err(self.error(ErrorKind::Truncated {
                need: need as u64,
                have: filled as u64,
            }));
        }
        let header = &self.window[self.start..self.start + need];
        let id = self.interfaces.add(
            Ok(classic::interface(header, self.order, resolution)),
            self.offset,
        )?;
        self.taken = need;
        let info = self.interfaces.get(id, self.offset)?;
        Ok(Some(Block::Interface(InterfaceBlock {
            section: 0,
            id,
            info,
            options: Options::default(),
        })))
    }

    fn classic_frame(&mut self) -> Result<Option<usize>, Error> {
        const HEADER: usize = classic::RECORD_HEADER_LEN;
        let have = self.fill(HEADER)?;
        if have == 0 {
            return Ok(None);
        }
        if have < HEADER {
            return Err(self.error(ErrorKind::Truncated {
                need: HEADER as u64,
                have: have as u64,
            }));
        }
        let captured = self.order.u32(&self.window[self.start..], 8);
        if captured > MAX_BLOCK_LEN {
            return Err(self.error(ErrorKind::BlockTooLong {
                length: captured,
                limit: MAX_BLOCK_LEN,
            }));
        }
        let need = HEADER + captured as usize;
        let have = self.fill(need)?;
        if have < need {
            return Err(self.error(ErrorKind::Truncated {
                need: need as u64,
                have: have as u64,
            }));
        }
        Ok(Some(need))
    }

    /// Tries to have `need` bytes in the window and returns how many there are: fewer only at the end of the input.
    fn fill(&mut self, need: usize) -> Result<usize, Error> {
        while self.end - self.start < need {
            if self.end == self.window.len() {
                if self.start > 0 {
                    self.window.copy_within(self.start..self.end, 0);
                    self.end -= self.start;
                    self.start = 0;
                } else {
                    self.window
                        .resize((self.window.len() * 2).max(FIRST_WINDOW), 0);
                }
            }
            match self.input.read(&mut self.window[self.end..]) {
                Ok(0) => break,
                // A reader that claims more than it was offered would break the window.
                Ok(count) => self.end = (self.end + count).min(self.window.len()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.error(ErrorKind::Io(error))),
            }
        }
        Ok(self.end - self.start)
    }

    fn error(&self, kind: ErrorKind) -> Error {
        Error::new(self.offset, kind)
    }
}

/// Type, two lengths and the fixed part.
fn least_len(block_type: u32) -> u32 {
    match block_type {
        SECTION_HEADER => 28,
        INTERFACE_DESCRIPTION => 20,
        ENHANCED_PACKET | OBSOLETE_PACKET => 32,
        SIMPLE_PACKET => 16,
        INTERFACE_STATISTICS => 24,
        _ => 12,
    }
}

/// What the content of a block has to be seen with. `least_len` has made sure that the fixed parts are there.
struct Context {
    section: u32,
    order: ByteOrder,
    offset: u64,
}

impl Context {
    fn block<'a>(
        &self,
        bytes: &'a [u8],
        interfaces: &'a mut Interfaces,
    ) -> Result<Block<'a>, Error> {
        let body = &bytes[8..bytes.len() - 4];
        let block_type = self.order.u32(bytes, 0);
        if block_type == INTERFACE_DESCRIPTION {
            return self.interface(body, interfaces);
        }
        let interfaces = &*interfaces;
        match block_type {
            SECTION_HEADER => self.section_header(body),
            ENHANCED_PACKET | OBSOLETE_PACKET => self.packet(block_type, body, interfaces),
            SIMPLE_PACKET => self.simple_packet(body, interfaces),
            INTERFACE_STATISTICS => self.statistics(body, interfaces),
            NAME_RESOLUTION => {
                let (records, options) = NameRecords::parse(body, self.order, self.offset + 8)?;
                let options = self.options(body, options)?;
                Ok(Block::Names(NamesBlock {
                    section: self.section,
                    records,
                    options,
                }))
            }
            _ => Ok(Block::Raw(RawBlock {
                section: self.section,
                block_type,
                order: self.order,
                body,
            })),
        }
    }

    fn section_header<'a>(&self, body: &'a [u8]) -> Result<Block<'a>, Error> {
        let length = self.order.u64(body, 8);
        Ok(Block::Section(SectionBlock {
            section: self.section,
            order: self.order,
            version: (self.order.u16(body, 4), self.order.u16(body, 6)),
            length: (length != u64::MAX).then_some(length),
            options: self.options(body, 16)?,
        }))
    }

    fn interface<'a>(
        &self,
        body: &'a [u8],
        interfaces: &'a mut Interfaces,
    ) -> Result<Block<'a>, Error> {
        let id = interfaces.add(self.interface_info(body), self.offset)?;
        let info = interfaces.get(id, self.offset)?;
        Ok(Block::Interface(InterfaceBlock {
            section: self.section,
            id,
            info,
            options: self.options(body, 8)?,
        }))
    }

    fn interface_info(&self, body: &[u8]) -> Result<InterfaceInfo, Error> {
        let options = self.options(body, 8)?;
        let resolution = self.sized(&options, code::IF_TSRESOL, 1)?;
        let offset_s = self.sized(&options, code::IF_TSOFFSET, 8)?;
        Ok(InterfaceInfo {
            link_type: LinkType(self.order.u16(body, 0)),
            snaplen: self.order.u32(body, 4),
            name: options.text(code::IF_NAME),
            description: options.text(code::IF_DESCRIPTION),
            resolution: resolution.map_or(Resolution::MICROSECONDS, |value| {
                Resolution::from_option(value[0])
            }),
            offset_s: offset_s.map_or(0, |value| self.order.u64(value, 0) as i64),
        })
    }

    /// Enhanced and obsolete packets differ in the first word and in what their options mean.
    fn packet<'a>(
        &self,
        block_type: u32,
        body: &'a [u8],
        interfaces: &'a Interfaces,
    ) -> Result<Block<'a>, Error> {
        const FIXED: usize = 20;
        let enhanced = block_type == ENHANCED_PACKET;
        let interface = if enhanced {
            self.order.u32(body, 0)
        } else {
            self.order.u16(body, 0).into()
        };
        let captured = self.order.u32(body, 12);
        let data = self.captured(body, FIXED, captured)?;
        let info = interfaces.get(interface, self.offset)?;
        // A block is a multiple of 4 long, so what fits into it still fits when padded.
        let options = self.options(body, FIXED + data.len().next_multiple_of(4))?;
        let drop_count = if enhanced {
            self.number(&options, code::EPB_DROPCOUNT)?
        } else {
            Some(self.order.u16(body, 2))
                .filter(|&count| count != u16::MAX)
                .map(u64::from)
        };
        Ok(Block::Packet(PacketBlock {
            form: if enhanced {
                PacketForm::Enhanced
            } else {
                PacketForm::Obsolete
            },
            section: self.section,
            interface,
            info,
            ticks: Some(self.order.ticks(body, 4)),
            data,
            original_len: self.order.u32(body, 16),
            flags: self
                .sized(&options, code::EPB_FLAGS, 4)?
                .map(|value| self.order.u32(value, 0)),
            drop_count,
            packet_id: if enhanced {
                self.number(&options, code::EPB_PACKETID)?
            } else {
                None
            },
            options,
        }))
    }

    fn simple_packet<'a>(
        &self,
        body: &'a [u8],
        interfaces: &'a Interfaces,
    ) -> Result<Block<'a>, Error> {
        let info = interfaces.get(0, self.offset)?;
        let original_len = self.order.u32(body, 0);
        // Its captured length is not stored; it follows from the snaplen of the section's first interface.
        let captured = if info.snaplen == 0 {
            original_len
        } else {
            original_len.min(info.snaplen)
        };
        Ok(Block::Packet(PacketBlock {
            form: PacketForm::Simple,
            section: self.section,
            interface: 0,
            info,
            ticks: None,
            data: self.captured(body, 4, captured)?,
            original_len,
            flags: None,
            drop_count: None,
            packet_id: None,
            options: Options::default(),
        }))
    }

    fn statistics<'a>(
        &self,
        body: &'a [u8],
        interfaces: &'a Interfaces,
    ) -> Result<Block<'a>, Error> {
        let interface = self.order.u32(body, 0);
        let info = interfaces.get(interface, self.offset)?;
        let options = self.options(body, 12)?;
        let time = |code| -> Result<Option<u64>, Error> {
            Ok(self
                .sized(&options, code, 8)?
                .map(|value| self.order.ticks(value, 0)))
        };
        Ok(Block::Statistics(StatisticsBlock {
            section: self.section,
            interface,
            info,
            ticks: self.order.ticks(body, 4),
            start_ticks: time(code::ISB_STARTTIME)?,
            end_ticks: time(code::ISB_ENDTIME)?,
            received: self.number(&options, code::ISB_IFRECV)?,
            dropped: self.number(&options, code::ISB_IFDROP)?,
            accepted: self.number(&options, code::ISB_FILTERACCEPT)?,
            os_dropped: self.number(&options, code::ISB_OSDROP)?,
            delivered: self.number(&options, code::ISB_USRDELIV)?,
            options,
        }))
    }

    fn classic<'a>(
        &self,
        record: &'a [u8],
        resolution: Resolution,
        interfaces: &'a Interfaces,
    ) -> Result<Block<'a>, Error> {
        let word = |at| self.order.u32(record, at);
        Ok(Block::Packet(PacketBlock {
            form: PacketForm::Classic,
            section: 0,
            interface: 0,
            info: interfaces.get(0, self.offset)?,
            ticks: Some(classic::ticks(word(0), word(4), resolution)),
            data: &record[classic::RECORD_HEADER_LEN..],
            original_len: word(12),
            flags: None,
            drop_count: None,
            packet_id: None,
            options: Options::default(),
        }))
    }

    fn captured<'a>(&self, body: &'a [u8], at: usize, captured: u32) -> Result<&'a [u8], Error> {
        let room = &body[at..];
        room.get(..captured as usize).ok_or_else(|| {
            Error::new(
                self.offset,
                ErrorKind::CapturedLength {
                    captured,
                    room: room.len() as u32,
                },
            )
        })
    }

    /// The options that begin at `at` of the body.
    fn options<'a>(&self, body: &'a [u8], at: usize) -> Result<Options<'a>, Error> {
        let at = at.min(body.len());
        Options::parse(&body[at..], self.order, self.offset + 8 + at as u64)
    }

    /// An option's value, which must have this size.
    fn sized<'a>(
        &self,
        options: &Options<'a>,
        code: u16,
        expected: u16,
    ) -> Result<Option<&'a [u8]>, Error> {
        match options.get(code) {
            Some(value) if value.len() != usize::from(expected) => {
                let length = value.len() as u16;
                Err(Error::new(
                    self.offset,
                    ErrorKind::OptionSize {
                        code,
                        length,
                        expected,
                    },
                ))
            }
            value => Ok(value),
        }
    }

    fn number(&self, options: &Options<'_>, code: u16) -> Result<Option<u64>, Error> {
        Ok(self
            .sized(options, code, 8)?
            .map(|value| self.order.u64(value, 0)))
    }
}
