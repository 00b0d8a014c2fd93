//! Decodes the content of a block whose frame (type and lengths) is valid.
//!
//! This module neither reads input nor advances: it takes the bytes of one whole block and returns
//! a value that borrows from them. After any error of this module the reader can continue with the
//! next block.

use crate::block::{
    Block, CustomBlock, InterfaceBlock, InterfaceInfo, JournalBlock, LinkType, NamesBlock, PacketBlock, PacketForm, RawBlock, SecretsBlock,
    SectionBlock, StatisticsBlock, CUSTOM, CUSTOM_NOT_COPIED, ENHANCED_PACKET, INTERFACE_DESCRIPTION, INTERFACE_STATISTICS, JOURNAL_ENTRY,
    NAME_RESOLUTION, OBSOLETE_PACKET, SECRETS, SECTION_HEADER, SIMPLE_PACKET,
};
use crate::byte_order::ByteOrder;
use crate::classic;
use crate::error::{Error, ErrorKind};
use crate::names::NameRecords;
use crate::options::{self as code, Options};
use crate::time::Resolution;

/// Maximum number of interfaces in a section.
pub const MAX_INTERFACES: usize = 65_536;
/// Maximum size in bytes of all names and descriptions of a section's interfaces.
pub const MAX_INTERFACE_TEXT: usize = 16 << 20;

/// The interfaces of the current section. A damaged declaration also takes an entry, because
/// otherwise all later ids would be shifted.
#[derive(Debug, Default)]
pub(crate) struct Interfaces {
    pub(crate) known: Vec<Option<InterfaceInfo>>,
    text: usize,
}

impl Interfaces {
    pub(crate) fn clear(&mut self) {
        self.known.clear();
        self.text = 0;
    }

    pub(crate) fn add(&mut self, parsed: Result<InterfaceInfo, Error>, offset: u64) -> Result<u32, Error> {
        let refused = || Error::new(offset, ErrorKind::TooManyInterfaces);
        if self.known.len() >= MAX_INTERFACES {
            return Err(refused());
        }
        let info = parsed.and_then(|info| {
            let text = [&info.name, &info.description].into_iter().flatten().map(String::len).sum::<usize>();
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

    pub(crate) fn get(&self, interface: u32, offset: u64) -> Result<&InterfaceInfo, Error> {
        let declared = self.known.len() as u32;
        let kind = match self.known.get(interface as usize) {
            Some(Some(info)) => return Ok(info),
            Some(None) => ErrorKind::DamagedInterface { interface },
            None => ErrorKind::UnknownInterface { interface, declared },
        };
        Err(Error::new(offset, kind))
    }
}

/// Minimum length of a block: type, two lengths and the fixed part.
pub(crate) fn least_len(block_type: u32) -> u32 {
    match block_type {
        SECTION_HEADER => 28,
        INTERFACE_DESCRIPTION => 20,
        ENHANCED_PACKET | OBSOLETE_PACKET => 32,
        SIMPLE_PACKET => 16,
        INTERFACE_STATISTICS => 24,
        SECRETS => 20,
        CUSTOM | CUSTOM_NOT_COPIED => 16,
        _ => 12,
    }
}

/// Properties of a block that are needed to decode its content. [`least_len`] ensures that the
/// fixed parts are present.
pub(crate) struct Context {
    pub(crate) section: u32,
    pub(crate) order: ByteOrder,
    pub(crate) offset: u64,
}

impl Context {
    pub(crate) fn block<'a>(&self, bytes: &'a [u8], interfaces: &'a mut Interfaces) -> Result<Block<'a>, Error> {
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
                Ok(Block::Names(NamesBlock { section: self.section, records, options }))
            }
            SECRETS => {
                let length = self.order.u32(body, 4);
                let data = self.captured(body, 8, length)?;
                let options = self.options(body, 8 + data.len().next_multiple_of(4))?;
                Ok(Block::Secrets(SecretsBlock { section: self.section, kind: self.order.u32(body, 0), data, options }))
            }
            JOURNAL_ENTRY => Ok(Block::Journal(JournalBlock { section: self.section, entry: body })),
            CUSTOM | CUSTOM_NOT_COPIED => Ok(Block::Custom(CustomBlock {
                section: self.section,
                order: self.order,
                enterprise: self.order.u32(body, 0),
                copied: block_type == CUSTOM,
                data: &body[4..],
            })),
            _ => Ok(Block::Raw(RawBlock { section: self.section, block_type, order: self.order, body })),
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

    fn interface<'a>(&self, body: &'a [u8], interfaces: &'a mut Interfaces) -> Result<Block<'a>, Error> {
        let id = interfaces.add(self.interface_info(body), self.offset)?;
        let info = interfaces.get(id, self.offset)?;
        Ok(Block::Interface(InterfaceBlock { section: self.section, id, info, options: self.options(body, 8)? }))
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
            resolution: resolution.map_or(Resolution::MICROSECONDS, |value| Resolution::from_option(value[0])),
            offset_s: offset_s.map_or(0, |value| self.order.u64(value, 0) as i64),
        })
    }

    /// Enhanced and obsolete packets differ in the first word and in the meaning of their options.
    fn packet<'a>(&self, block_type: u32, body: &'a [u8], interfaces: &'a Interfaces) -> Result<Block<'a>, Error> {
        const FIXED: usize = 20;
        let enhanced = block_type == ENHANCED_PACKET;
        let interface = if enhanced { self.order.u32(body, 0) } else { self.order.u16(body, 0).into() };
        let captured = self.order.u32(body, 12);
        let data = self.captured(body, FIXED, captured)?;
        let info = interfaces.get(interface, self.offset)?;
        // The length of a block is a multiple of 4, so data that fits into it also fits with its
        // padding.
        let options = self.options(body, FIXED + data.len().next_multiple_of(4))?;
        let drop_count = if enhanced {
            self.number(&options, code::EPB_DROPCOUNT)?
        } else {
            Some(self.order.u16(body, 2)).filter(|&count| count != u16::MAX).map(u64::from)
        };
        Ok(Block::Packet(PacketBlock {
            offset: self.offset,
            form: if enhanced { PacketForm::Enhanced } else { PacketForm::Obsolete },
            section: self.section,
            interface,
            info,
            ticks: Some(self.order.ticks(body, 4)),
            data,
            original_len: self.order.u32(body, 16),
            flags: self.sized(&options, code::EPB_FLAGS, 4)?.map(|value| self.order.u32(value, 0)),
            drop_count,
            packet_id: if enhanced { self.number(&options, code::EPB_PACKETID)? } else { None },
            options,
        }))
    }

    fn simple_packet<'a>(&self, body: &'a [u8], interfaces: &'a Interfaces) -> Result<Block<'a>, Error> {
        let info = interfaces.get(0, self.offset)?;
        let original_len = self.order.u32(body, 0);
        // The captured length is not stored; it follows from the snaplen of the section's first
        // interface.
        let captured = if info.snaplen == 0 { original_len } else { original_len.min(info.snaplen) };
        Ok(Block::Packet(PacketBlock {
            offset: self.offset,
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

    fn statistics<'a>(&self, body: &'a [u8], interfaces: &'a Interfaces) -> Result<Block<'a>, Error> {
        let interface = self.order.u32(body, 0);
        let info = interfaces.get(interface, self.offset)?;
        let options = self.options(body, 12)?;
        let time = |code| -> Result<Option<u64>, Error> { Ok(self.sized(&options, code, 8)?.map(|value| self.order.ticks(value, 0))) };
        Ok(Block::Statistics(StatisticsBlock {
            offset: self.offset,
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

    pub(crate) fn classic<'a>(&self, record: &'a [u8], resolution: Resolution, interfaces: &'a Interfaces) -> Result<Block<'a>, Error> {
        let word = |at| self.order.u32(record, at);
        Ok(Block::Packet(PacketBlock {
            offset: self.offset,
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
        room.get(..captured as usize)
            .ok_or_else(|| Error::new(self.offset, ErrorKind::CapturedLength { captured, room: room.len() as u32 }))
    }

    /// The options that begin at byte `at` of the body.
    fn options<'a>(&self, body: &'a [u8], at: usize) -> Result<Options<'a>, Error> {
        let at = at.min(body.len());
        Options::parse(&body[at..], self.order, self.offset + 8 + at as u64)
    }

    /// The value of an option that must have this size.
    fn sized<'a>(&self, options: &Options<'a>, code: u16, expected: u16) -> Result<Option<&'a [u8]>, Error> {
        match options.get(code) {
            Some(value) if value.len() != usize::from(expected) => {
                let length = value.len() as u16;
                Err(Error::new(self.offset, ErrorKind::OptionSize { code, length, expected }))
            }
            value => Ok(value),
        }
    }

    fn number(&self, options: &Options<'_>, code: u16) -> Result<Option<u64>, Error> {
        Ok(self.sized(options, code, 8)?.map(|value| self.order.u64(value, 0)))
    }
}
