//! Errors of an input, with their positions.

use std::io;

/// An error of the [`Reader`](crate::Reader) with its position.
#[derive(Debug, thiserror::Error)]
#[error("at byte {offset}: {kind}")]
pub struct Error {
    /// Byte of the input at which the block begins, or the part of it that is wrong.
    pub offset: u64,
    /// Kind of the error.
    pub kind: ErrorKind,
}

/// The kinds of errors in an input.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The input cannot be read.
    #[error("cannot read: {0}")]
    Io(#[source] io::Error),
    /// The file is of another format.
    #[error("neither pcapng nor pcap: the file begins with {magic:#010x}")]
    NotACapture {
        /// First four bytes of the file.
        magic: u32,
    },
    /// The input ends within a block.
    #[error("the file ends inside a block: {have} of {need} bytes are there")]
    Truncated {
        /// Size of the block in bytes.
        need: u64,
        /// Number of bytes available.
        have: u64,
    },
    /// The length of a block is impossible.
    #[error("a block cannot be {length} bytes long (at least {least}, a multiple of 4)")]
    BlockLength {
        /// The length.
        length: u32,
        /// Minimum length of such a block.
        least: u32,
    },
    /// The block is longer than the reader accepts.
    #[error("a block of {length} bytes is longer than the {limit} that are accepted")]
    BlockTooLong {
        /// Length of the block.
        length: u32,
        /// Maximum length that is accepted.
        limit: u32,
    },
    /// The two lengths of a block differ.
    #[error("the block's length is {leading} at its begin and {trailing} at its end")]
    LengthMismatch {
        /// Length at the start of the block.
        leading: u32,
        /// Length at the end of the block.
        trailing: u32,
    },
    /// A section begins without a byte-order magic.
    #[error("{magic:#010x} is no byte-order magic")]
    ByteOrder {
        /// Number that was found instead.
        magic: u32,
    },
    /// The version of the section is unknown.
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
        /// Size of the packet in bytes.
        captured: u32,
        /// Number of bytes available in the block.
        room: u32,
    },
    /// A block refers to an interface that is not declared.
    #[error("interface {interface} is not declared in this section, which has {declared}")]
    UnknownInterface {
        /// Index of the interface.
        interface: u32,
        /// Number of interfaces declared in the section before this block.
        declared: u32,
    },
    /// A block refers to an interface whose declaration is damaged.
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
        /// Length of the option in bytes.
        length: u16,
        /// Number of bytes left in the block.
        room: usize,
    },
    /// An option has the wrong size.
    #[error("option {code} has {length} bytes instead of {expected}")]
    OptionSize {
        /// Code of the option.
        code: u16,
        /// Length of the option in bytes.
        length: u16,
        /// Expected length in bytes.
        expected: u16,
    },
    /// A name record is longer than the rest of its block.
    #[error("a name record of {length} bytes does not fit into the {room} left in its block")]
    NameRecord {
        /// Length of the record in bytes.
        length: u16,
        /// Number of bytes left in the block.
        room: usize,
    },
}

impl Error {
    pub(crate) fn new(offset: u64, kind: ErrorKind) -> Error {
        Error { offset, kind }
    }

    /// Returns `true` if the input ends before its last block is complete: the file is still being
    /// written, or its writer was killed. All blocks before were read.
    pub fn is_truncation(&self) -> bool {
        matches!(self.kind, ErrorKind::Truncated { .. })
    }

    /// Returns `true` if the next block can still be found. Then the next call of the reader
    /// continues after the damaged block.
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
