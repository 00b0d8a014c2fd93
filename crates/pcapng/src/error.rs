//! What can be wrong with an input, and where.

use std::io;

/// An error of the [`Reader`](crate::Reader) and its place.
#[derive(Debug, thiserror::Error)]
#[error("at byte {offset}: {kind}")]
pub struct Error {
    /// Offset from the input's first byte: of the block, or of the part of it that is wrong.
    pub offset: u64,
    pub kind: ErrorKind,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    #[error("cannot read: {0}")]
    Io(#[source] io::Error),
    #[error("neither pcapng nor pcap: the file begins with {magic:#010x}")]
    NotACapture { magic: u32 },
    #[error("the file ends inside a block: {have} of {need} bytes are there")]
    Truncated { need: u64, have: u64 },
    #[error("a block cannot be {length} bytes long (at least {least}, a multiple of 4)")]
    BlockLength { length: u32, least: u32 },
    #[error("a block of {length} bytes is longer than the {limit} that are accepted")]
    BlockTooLong { length: u32, limit: u32 },
    #[error("the block's length is {leading} at its begin and {trailing} at its end")]
    LengthMismatch { leading: u32, trailing: u32 },
    #[error("{magic:#010x} is no byte-order magic")]
    ByteOrder { magic: u32 },
    #[error("version {major}.{minor} of the format is not known")]
    Version { major: u16, minor: u16 },
    #[error("the packet's {captured} bytes do not fit into the {room} of its block")]
    CapturedLength { captured: u32, room: u32 },
    #[error("interface {interface} is not declared in this section, which has {declared}")]
    UnknownInterface { interface: u32, declared: u32 },
    #[error("interface {interface} was declared by a damaged block, so its time stamps cannot be understood")]
    DamagedInterface { interface: u32 },
    #[error("this section declares more interfaces (or longer names) than are accepted; this one is left out")]
    TooManyInterfaces,
    #[error("option {code} of {length} bytes does not fit into the {room} left in its block")]
    OptionLength { code: u16, length: u16, room: usize },
    #[error("option {code} has {length} bytes instead of {expected}")]
    OptionSize { code: u16, length: u16, expected: u16 },
    #[error("a name record of {length} bytes does not fit into the {room} left in its block")]
    NameRecord { length: u16, room: usize },
}

impl Error {
    pub(crate) fn new(offset: u64, kind: ErrorKind) -> Error {
        Error { offset, kind }
    }

    /// The input simply stops before its last block is complete: a file still being written, or a writer that was killed.
    /// Everything before it was read.
    pub fn is_truncation(&self) -> bool {
        matches!(self.kind, ErrorKind::Truncated { .. })
    }

    /// Whether the next block can still be found. If so, calling the reader again goes on behind the damaged block.
    pub fn is_recoverable(&self) -> bool {
        matches!(
            self.kind,
            ErrorKind::CapturedLength { .. }
                | ErrorKind::UnknownInterface { .. }
                | ErrorKind::DamagedInterface { .. }
                | ErrorKind::TooManyInterfaces
                | ErrorKind::OptionLength { .. }
                | ErrorKind::OptionSize { .. }
                | ErrorKind::NameRecord { .. }
        )
    }
}
