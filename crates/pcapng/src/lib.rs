#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod block;
mod byte_order;
mod classic;
mod content;
mod error;
mod names;
mod options;
mod reader;
mod time;
mod writer;

pub use block::{
    Block, CustomBlock, Direction, InterfaceBlock, InterfaceInfo, JournalBlock, LinkType, NamesBlock, PacketBlock, PacketForm, RawBlock,
    SecretsBlock, SectionBlock, StatisticsBlock,
};
pub use byte_order::ByteOrder;
pub use content::{MAX_INTERFACES, MAX_INTERFACE_TEXT};
pub use error::{Error, ErrorKind};
pub use names::{NameRecord, NameRecords};
pub use options::{Address, Opt, Options};
pub use reader::{Reader, MAX_BLOCK_LEN};
pub use time::Resolution;
pub use writer::{Interface, InterfaceId, Packet, Section, Statistics, WriteError, Writer, MAX_CAPTURED_LEN, MAX_TEXT_LEN};
