//! Options: the lists of code, length and value at the end of most blocks.
//!
//! A list ends with code 0 or at the end of the block. Values are padded to 4 bytes; the length
//! does not include the padding.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::byte_order::ByteOrder;
use crate::error::{Error, ErrorKind};

pub(crate) const END: u16 = 0;
pub(crate) const COMMENT: u16 = 1;

pub(crate) const SHB_HARDWARE: u16 = 2;
pub(crate) const SHB_OS: u16 = 3;
pub(crate) const SHB_USERAPPL: u16 = 4;

pub(crate) const IF_NAME: u16 = 2;
pub(crate) const IF_DESCRIPTION: u16 = 3;
pub(crate) const IF_IPV4: u16 = 4;
pub(crate) const IF_IPV6: u16 = 5;
pub(crate) const IF_MAC: u16 = 6;
pub(crate) const IF_EUI: u16 = 7;
pub(crate) const IF_SPEED: u16 = 8;
pub(crate) const IF_FILTER: u16 = 11;
pub(crate) const IF_OS: u16 = 12;
pub(crate) const IF_FCSLEN: u16 = 13;
pub(crate) const IF_HARDWARE: u16 = 15;
pub(crate) const IF_TSRESOL: u16 = 9;
pub(crate) const IF_TSOFFSET: u16 = 14;

pub(crate) const EPB_FLAGS: u16 = 2;
pub(crate) const EPB_DROPCOUNT: u16 = 4;
pub(crate) const EPB_HASH: u16 = 3;
pub(crate) const EPB_PACKETID: u16 = 5;
pub(crate) const EPB_QUEUE: u16 = 6;
pub(crate) const EPB_VERDICT: u16 = 7;

pub(crate) const ISB_STARTTIME: u16 = 2;
pub(crate) const ISB_ENDTIME: u16 = 3;
pub(crate) const ISB_IFRECV: u16 = 4;
pub(crate) const ISB_IFDROP: u16 = 5;
pub(crate) const ISB_FILTERACCEPT: u16 = 6;
pub(crate) const ISB_OSDROP: u16 = 7;
pub(crate) const ISB_USRDELIV: u16 = 8;

/// One option as stored in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opt<'a> {
    /// Code of the option; its meaning depends on the block.
    pub code: u16,
    /// Value without padding. Numbers are in the section's byte order.
    pub value: &'a [u8],
}

/// The options of one block, in the order of the file. The list was checked when the block was
/// read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    bytes: &'a [u8],
    order: ByteOrder,
}

impl<'a> Options<'a> {
    /// Checks the list in `bytes`, which are located at byte `offset` of the input.
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

    /// The options in the order of the file.
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

    /// The value of the first option with this code.
    pub fn get(&self, code: u16) -> Option<&'a [u8]> {
        self.iter().find(|option| option.code == code).map(|option| option.value)
    }

    /// The value of the first option with this code as text. Invalid UTF-8 is replaced; trailing
    /// zeros, which some writers add, are removed.
    pub fn text(&self, code: u16) -> Option<String> {
        self.get(code).map(lossy)
    }

    /// The value of the first option with this code as a 32-bit number; `None` if it has another
    /// size.
    pub fn u32(&self, code: u16) -> Option<u32> {
        self.get(code).filter(|value| value.len() == 4).map(|value| self.order.u32(value, 0))
    }

    /// The value of the first option with this code as a 64-bit number; `None` if it has another
    /// size.
    pub fn u64(&self, code: u16) -> Option<u64> {
        self.get(code).filter(|value| value.len() == 8).map(|value| self.order.u64(value, 0))
    }

    /// All comments, in the order of the file; the first one is [`Options::comment`].
    pub fn comments(&self) -> impl Iterator<Item = String> + use<'a> {
        self.iter().filter(|option| option.code == COMMENT).map(|option| lossy(option.value))
    }

    /// The first comment (`opt_comment`).
    pub fn comment(&self) -> Option<String> {
        self.text(COMMENT)
    }
}

fn lossy(value: &[u8]) -> String {
    String::from_utf8_lossy(value).trim_end_matches('\0').to_owned()
}

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// An IP address with the number of bits of its network.
    Ip(IpAddr, u8),
    /// A MAC address of 6 bytes, or an EUI address of 8; with the number of bytes.
    Hardware([u8; 8], usize),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Ip(address, bits) => write!(f, "{address}/{bits}"),
            Address::Hardware(bytes, length) => {
                let bytes: Vec<String> = bytes[..*length].iter().map(|byte| format!("{byte:02x}")).collect();
                f.write_str(&bytes.join(":"))
            }
        }
    }
}

/// Options of an interface block.
impl Options<'_> {
    /// Addresses of the interface, in the order of the file.
    pub fn addresses(&self) -> impl Iterator<Item = Address> + use<'_> {
        self.iter().filter_map(|option| {
            let hardware = |length: usize| {
                let mut bytes = [0; 8];
                bytes.get_mut(..length)?.copy_from_slice(option.value);
                Some(Address::Hardware(bytes, length))
            };
            match (option.code, option.value.len()) {
                (IF_IPV4, 8) => {
                    let (address, mask) = option.value.split_first_chunk::<4>()?;
                    let mask = u32::from_be_bytes(*mask.first_chunk()?);
                    Some(Address::Ip(Ipv4Addr::from(*address).into(), mask.count_ones() as u8))
                }
                (IF_IPV6, 17) => {
                    let (address, bits) = option.value.split_first_chunk::<16>()?;
                    Some(Address::Ip(Ipv6Addr::from(*address).into(), bits[0]))
                }
                (IF_MAC, 6) => hardware(6),
                (IF_EUI, 8) => hardware(8),
                _ => None,
            }
        })
    }

    /// Speed of the interface in bits per second.
    pub fn speed(&self) -> Option<u64> {
        self.u64(IF_SPEED)
    }

    /// The capture filter as an expression of libpcap; `None` if there is none, or if it is stored
    /// as a program.
    pub fn filter(&self) -> Option<String> {
        let (&kind, text) = self.get(IF_FILTER)?.split_first()?;
        (kind == 0).then(|| lossy(text))
    }

    /// Operating system of the host that has the interface (`if_os`).
    pub fn interface_os(&self) -> Option<String> {
        self.text(IF_OS)
    }

    /// Description of the interface's hardware (`if_hardware`).
    pub fn interface_hardware(&self) -> Option<String> {
        self.text(IF_HARDWARE)
    }

    /// Size in bytes of the frame check sequence at the end of each packet.
    pub fn fcs_length(&self) -> Option<u8> {
        self.get(IF_FCSLEN)?.first().copied()
    }
}
