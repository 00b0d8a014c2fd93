//! What can be wrong with an input, and where.

use std::io;

/// An error of the [`Reader`](crate::Reader) and its place.
#[derive(Debug, thiserror::Error)]
#[error("at byte {offset}: {kind}")]
pub struct Error {
    /// Offset from the input's first byte: of the block, or of the part of it that is wrong.
    pub offset: u64,
    /// What is wrong.
    pub kind: ErrorKind,
}

/// What can be wrong with an input.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The input cannot be read.
    #[error("cannot read: {0}")]
    Io(#[source] io::Error),
    /// The file is of another format.
    #[error("neither pcapng nor pcap: the file begins with {magic:#010x}")]
    NotACapture {
        /// Its first four bytes.
        magic: u32,
    },
    /// The input ends inside a block.
    #[error("the file ends inside a block: {have} of {need} bytes are there")]
    Truncated {
        /// Bytes of the block.
        need: u64,
        /// Bytes that are there.
        have: u64,
    },
    /// A length that no block can have.
    #[error("a block cannot be {length} bytes long (at least {least}, a multiple of 4)")]
    BlockLength {
        /// The length.
        length: u32,
        /// The least that this block can have.
        least: u32,
    },
    /// The block is longer than the reader accepts.
    #[error("a block of {length} bytes is longer than the {limit} that are accepted")]
    BlockTooLong {
        /// Its length.
        length: u32,
        /// Most that is accepted.
        limit: u32,
    },
    /// The two lengths of a block differ.
    #[error("the block's length is {leading} at its begin and {trailing} at its end")]
    LengthMismatch {
        /// The one at its begin.
        leading: u32,
        /// The one at its end.
        trailing: u32,
    },
    /// A section begins without a byte-order magic.
    #[error("{magic:#010x} is no byte-order magic")]
    ByteOrder {
        /// What is there instead.
        magic: u32,
    },
    /// The version of the section is not known.
    #[error("version {major}.{minor} of the format is not known")]
    Version {
        /// Major version.
        major: u16,
        /// Minor version.
        minor: u16,
    },
    /// A packet is longer than its block.
    #[error("the packet's {captured} bytes do not fit into the {room} of its block")]
    CapturedLength {
        /// Bytes of the packet.
        captured: u32,
        /// Bytes of room in the block.
        room: u32,
    },
    /// A block names an interface that is not declared.
    #[error("interface {interface} is not declared in this section, which has {declared}")]
    UnknownInterface {
        /// Index of the interface.
        interface: u32,
        /// Interfaces of the section so far.
        declared: u32,
    },
    /// A block names an interface whose declaration is damaged.
    #[error("interface {interface} was declared by a damaged block, so its time stamps cannot be understood")]
    DamagedInterface {
        /// Index of the interface.
        interface: u32,
    },
    /// The section declares more interfaces, or longer names, than the reader accepts.
    #[error("this section declares more interfaces (or longer names) than are accepted; this one is left out")]
    TooManyInterfaces,
    /// An option is longer than the rest of its block.
    #[error("option {code} of {length} bytes does not fit into the {room} left in its block")]
    OptionLength {
        /// Code of the option.
        code: u16,
        /// Its length.
        length: u16,
        /// Bytes left in the block.
        room: usize,
    },
    /// An option has the wrong size.
    #[error("option {code} has {length} bytes instead of {expected}")]
    OptionSize {
        /// Code of the option.
        code: u16,
        /// Its length.
        length: u16,
        /// The length of such options.
        expected: u16,
    },
    /// A name record is longer than the rest of its block.
    #[error("a name record of {length} bytes does not fit into the {room} left in its block")]
    NameRecord {
        /// Its length.
        length: u16,
        /// Bytes left in the block.
        room: usize,
    },
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
