//! Returns the blocks of a capture file, one after the other.
//!
//! Only a window of the input is in memory. It grows only when it is full of bytes that were really
//! read. So a block that claims to be huge takes as much memory as the input has data for it, and
//! never more than [`MAX_BLOCK_LEN`]. Of the earlier blocks only the interfaces of the current
//! section are stored, within the limits [`MAX_INTERFACES`](crate::MAX_INTERFACES) and
//! [`MAX_INTERFACE_TEXT`](crate::MAX_INTERFACE_TEXT).
//!
//! There are two kinds of errors. If the framing is broken (lengths, magic numbers, the end of the
//! input), the next block cannot be found, so the reader returns the error and ends. If only the
//! content of a block is wrong, the next call continues with the next block.

use std::io::{self, Read};

use crate::block::{Block, InterfaceBlock, InterfaceInfo, BYTE_ORDER_MAGIC, SECTION_HEADER};
use crate::byte_order::ByteOrder;
use crate::classic;
use crate::content::{least_len, Context, Interfaces};
use crate::error::{Error, ErrorKind};
use crate::options::Options;
use crate::time::Resolution;

/// Maximum size of a block in bytes. The format has no limit, but a whole block is held in memory.
pub const MAX_BLOCK_LEN: u32 = 256 << 20;
/// Size in bytes from which a window that has grown for one block is freed after it.
const USUAL_WINDOW: usize = 1 << 20;
const FIRST_WINDOW: usize = 64 << 10;

/// Reads pcapng and classic pcap from any byte source, including a slice. The input does not need
/// its own buffer.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    /// `window[start..end]` was read and not released yet; `start` corresponds to byte `offset` of
    /// the input.
    window: Vec<u8>,
    start: usize,
    end: usize,
    offset: u64,
    /// Size of the block that was returned last. The next call releases it, because the caller may
    /// still use its data.
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

/// Number of sections that were read. The number of the current section is one less.
#[derive(Debug, Default)]
struct Counted(u32);

impl Counted {
    fn current(&self) -> u32 {
        self.0.saturating_sub(1)
    }
}

impl<R: Read> Reader<R> {
    /// Creates a reader at the start of a file.
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

    /// Returns the next block; `None` at the end of the input and after an error that is not
    /// recoverable.
    pub fn next_block(&mut self) -> Result<Option<Block<'_>>, Error> {
        self.start += self.taken;
        self.offset += self.taken as u64;
        self.taken = 0;
        if self.window.len() > USUAL_WINDOW && self.end - self.start < FIRST_WINDOW {
            let mut window = self.window[self.start..self.end].to_vec();
            window.resize(FIRST_WINDOW, 0);
            (self.window, self.start, self.end) = (window, 0, self.end - self.start);
        }
        if self.format == Format::NotYetKnown {
            self.recognise().inspect_err(|_| self.format = Format::Ended)?;
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
        let context = Context { section: self.section.current(), order: self.order, offset: self.offset };
        match self.format {
            Format::Classic(resolution) => context.classic(bytes, resolution, &self.interfaces),
            _ => context.block(bytes, &mut self.interfaces),
        }
        .map(Some)
    }

    /// Byte of the input at which the last block begins, whether it was returned or caused an
    /// error.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// An interface of the current section; `None` if it is not declared (yet), or if its
    /// declaration was damaged.
    pub fn interface(&self, id: u32) -> Option<&InterfaceInfo> {
        self.interfaces.known.get(id as usize)?.as_ref()
    }

    /// Number of interfaces that were declared in the current section.
    pub fn interface_count(&self) -> usize {
        self.interfaces.known.len()
    }

    fn recognise(&mut self) -> Result<(), Error> {
        let have = self.fill(12)?;
        let Some(magic) = self.window[self.start..].first_chunk::<4>().filter(|_| have >= 4).copied() else {
            return Err(self.error(ErrorKind::Truncated { need: 12, have: have as u64 }));
        };
        self.format = if u32::from_le_bytes(magic) == SECTION_HEADER {
            Format::Pcapng
        } else if let Some((order, resolution)) = classic::recognise(magic) {
            self.order = order;
            Format::Classic(resolution)
        } else {
            return Err(self.error(ErrorKind::NotACapture { magic: u32::from_be_bytes(magic) }));
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
            return Err(self.error(ErrorKind::Truncated { need: 12, have: have as u64 }));
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
            return Err(self.error(ErrorKind::BlockTooLong { length, limit: MAX_BLOCK_LEN }));
        }
        let have = self.fill(length as usize)?;
        if have < length as usize {
            return Err(self.error(ErrorKind::Truncated { need: length.into(), have: have as u64 }));
        }
        let block = &self.window[self.start..self.start + length as usize];
        let trailing = order.u32(block, block.len() - 4);
        if trailing != length {
            return Err(self.error(ErrorKind::LengthMismatch { leading: length, trailing }));
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
        let filled = self.fill(need).inspect_err(|_| self.format = Format::Ended)?;
        if filled < need {
            self.format = Format::Ended;
            return Err(self.error(ErrorKind::Truncated { need: need as u64, have: filled as u64 }));
        }
        let header = &self.window[self.start..self.start + need];
        let id = self.interfaces.add(Ok(classic::interface(header, self.order, resolution)), self.offset)?;
        self.taken = need;
        let info = self.interfaces.get(id, self.offset)?;
        Ok(Some(Block::Interface(InterfaceBlock { section: 0, id, info, options: Options::default() })))
    }

    fn classic_frame(&mut self) -> Result<Option<usize>, Error> {
        const HEADER: usize = classic::RECORD_HEADER_LEN;
        let have = self.fill(HEADER)?;
        if have == 0 {
            return Ok(None);
        }
        if have < HEADER {
            return Err(self.error(ErrorKind::Truncated { need: HEADER as u64, have: have as u64 }));
        }
        let captured = self.order.u32(&self.window[self.start..], 8);
        if captured > MAX_BLOCK_LEN {
            return Err(self.error(ErrorKind::BlockTooLong { length: captured, limit: MAX_BLOCK_LEN }));
        }
        let need = HEADER + captured as usize;
        let have = self.fill(need)?;
        if have < need {
            return Err(self.error(ErrorKind::Truncated { need: need as u64, have: have as u64 }));
        }
        Ok(Some(need))
    }

    /// Tries to have `need` bytes in the window; returns the number of bytes available, which is
    /// less only at the end of the input.
    fn fill(&mut self, need: usize) -> Result<usize, Error> {
        while self.end - self.start < need {
            if self.end == self.window.len() {
                if self.start > 0 {
                    self.window.copy_within(self.start..self.end, 0);
                    self.end -= self.start;
                    self.start = 0;
                } else {
                    self.window.resize((self.window.len() * 2).max(FIRST_WINDOW), 0);
                }
            }
            match self.input.read(&mut self.window[self.end..]) {
                Ok(0) => break,
                // Limits the result of an incorrect `Read` implementation that claims more bytes
                // than it was offered.
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
