//! Capture files: pcapng in both directions, classic pcap as input.
//!
//! This crate is a pure format crate. It turns bytes into blocks and blocks into bytes; it opens no files, reads no clock,
//! and knows nothing of the program that uses it.
//!
//! Three properties shape it:
//!
//! * *Whole blocks.* The [`Writer`] hands every block to its output in one `write_all`, so that whatever was written when the
//!   process died is a valid file. After a failed write it refuses to write more, because what follows half a block cannot be read.
//! * *Nothing is believed.* The [`Reader`] takes files of any origin. A length is used only once the bytes behind it were seen, so
//!   memory follows the input and not what the input claims; each error says where it is and whether reading can go on.
//! * *Time is exact.* Every resolution that the format can express becomes nanoseconds by integer arithmetic.
//!
//! Layouts: the pcapng specification (draft-ietf-opsawg-pcapng) and the classic format (draft-ietf-opsawg-pcap).

mod block;
mod classic;
mod content;
mod error;
mod names;
mod options;
mod reader;
mod time;
mod writer;

pub use block::{
    Block, ByteOrder, CustomBlock, Direction, InterfaceBlock, InterfaceInfo, JournalBlock, LinkType, NamesBlock, PacketBlock, PacketForm,
    RawBlock, SecretsBlock, SectionBlock, StatisticsBlock,
};
pub use content::{MAX_INTERFACES, MAX_INTERFACE_TEXT};
pub use error::{Error, ErrorKind};
pub use names::{NameRecord, NameRecords};
pub use options::{Address, Opt, Options};
pub use reader::{Reader, MAX_BLOCK_LEN};
pub use time::Resolution;
pub use writer::{Interface, InterfaceId, Packet, Section, Statistics, WriteError, Writer, MAX_CAPTURED_LEN, MAX_TEXT_LEN};
