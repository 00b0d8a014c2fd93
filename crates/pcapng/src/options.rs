//! Options: the code-length-value lists at the end of most blocks.
//!
//! A list ends with code 0 or with the block. Values are padded to 4 bytes, the padding is not part of the length.

use crate::block::ByteOrder;
use crate::error::{Error, ErrorKind};

pub(crate) const END: u16 = 0;
pub(crate) const COMMENT: u16 = 1;

pub(crate) const SHB_HARDWARE: u16 = 2;
pub(crate) const SHB_OS: u16 = 3;
pub(crate) const SHB_USERAPPL: u16 = 4;

pub(crate) const IF_NAME: u16 = 2;
pub(crate) const IF_DESCRIPTION: u16 = 3;
pub(crate) const IF_TSRESOL: u16 = 9;
pub(crate) const IF_TSOFFSET: u16 = 14;

pub(crate) const EPB_FLAGS: u16 = 2;
pub(crate) const EPB_DROPCOUNT: u16 = 4;
pub(crate) const EPB_PACKETID: u16 = 5;

pub(crate) const ISB_STARTTIME: u16 = 2;
pub(crate) const ISB_ENDTIME: u16 = 3;
pub(crate) const ISB_IFRECV: u16 = 4;
pub(crate) const ISB_IFDROP: u16 = 5;
pub(crate) const ISB_FILTERACCEPT: u16 = 6;
pub(crate) const ISB_OSDROP: u16 = 7;
pub(crate) const ISB_USRDELIV: u16 = 8;

/// One option as it stands in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opt<'a> {
    pub code: u16,
    /// Without the padding. Numbers are in the section's byte order.
    pub value: &'a [u8],
}

/// The options of one block, in the file's order. The list was checked when the block was read, so it has no errors left.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    bytes: &'a [u8],
    order: ByteOrder,
}

impl<'a> Options<'a> {
    /// Checks the list in `bytes`, which lie at `offset` of the input.
    pub(crate) fn parse(bytes: &'a [u8], order: ByteOrder, offset: u64) -> Result<Options<'a>, Error> {
        let mut at = 0;
        while let Some(header) = bytes.get(at..at + 4) {
            let (code, length) = (order.u16(header, 0), order.u16(header, 2));
            if code == END {
                break;
            }
            let room = bytes.len() - at - 4;
            if usize::from(length) > room {
                return Err(Error::new(offset + at as u64, ErrorKind::OptionLength { code, length, room }));
            }
            at += 4 + usize::from(length).next_multiple_of(4);
        }
        Ok(Options { bytes, order })
    }

    pub fn iter(&self) -> impl Iterator<Item = Opt<'a>> + use<'a> {
        let Options { bytes, order } = *self;
        let mut at = 0;
        std::iter::from_fn(move || {
            let header = bytes.get(at..at + 4)?;
            let (code, length) = (order.u16(header, 0), usize::from(order.u16(header, 2)));
            if code == END {
                return None;
            }
            let value = bytes.get(at + 4..at + 4 + length)?;
            at += 4 + length.next_multiple_of(4);
            Some(Opt { code, value })
        })
    }

    /// The value of the first option `code`.
    pub fn get(&self, code: u16) -> Option<&'a [u8]> {
        self.iter().find(|option| option.code == code).map(|option| option.value)
    }

    /// The first option `code` as text; what is not UTF-8 is replaced, trailing zeros that some writers add are dropped.
    pub fn text(&self, code: u16) -> Option<String> {
        self.get(code).map(|value| String::from_utf8_lossy(value).trim_end_matches('\0').to_owned())
    }

    pub fn comment(&self) -> Option<String> {
        self.text(COMMENT)
    }
}
