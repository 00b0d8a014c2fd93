//! Errors and their positions. Every error has a position: a line of the metadata, or a packet and
//! a bit of a stream.

use std::fmt;
use std::ops::Range;

use crate::byte_order::ByteOrder;

/// A range of bytes of the metadata text. All spans compare equal, so that types can be compared by
/// meaning.
#[derive(Clone, Copy, Debug, Default)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// First byte behind the range.
    pub end: usize,
}

impl PartialEq for Span {
    fn eq(&self, _: &Span) -> bool {
        true
    }
}

/// Metadata that cannot be parsed, or that is contradictory.
#[derive(Clone, Debug)]
pub struct MetadataError {
    /// Line, from 1; 0 if the error has no position in the text.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Range of the text, in bytes.
    pub span: Span,
    /// The line with the error, without its line end; of a long line only the part around the
    /// error.
    pub text: String,
    /// Range of `text` to underline, in characters.
    pub marked: Range<usize>,
    /// Description of the error.
    pub message: String,
    /// True if the text ends within an unfinished construct: with more text, it may become valid.
    pub cut: bool,
}

impl fmt::Display for MetadataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.in_file("metadata").fmt(f)
    }
}

/// A [`MetadataError`] with the name of its file.
struct InFile<'a, F>(&'a MetadataError, F);

impl<F: fmt::Display> fmt::Display for InFile<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let InFile(error, file) = self;
        if error.line == 0 {
            return write!(f, "{file}: {}", error.message);
        }
        writeln!(f, "{file}:{}:{}: {}", error.line, error.column, error.message)?;
        writeln!(f, "  {}", error.text)?;
        write!(f, "  {:begin$}^{:~<rest$}", "", "", begin = error.marked.start, rest = error.marked.len().saturating_sub(1))
    }
}

impl std::error::Error for MetadataError {}

/// Maximum number of characters of a line that are shown, and, below, the number of them before the
/// error.
const MAX_LINE: usize = 160;
const BYTES_BEFORE: usize = 60;

impl MetadataError {
    /// The error as text, with this file name, the position, and the line with the error
    /// underlined.
    pub fn in_file<F: fmt::Display>(&self, file: F) -> impl fmt::Display + use<'_, F> {
        InFile(self, file)
    }

    /// Creates an error that has no position in the text.
    pub(crate) fn whole(message: impl Into<String>) -> MetadataError {
        let span = Span::default();
        MetadataError { line: 0, column: 0, span, text: String::new(), marked: 0..0, message: message.into(), cut: false }
    }

    pub(crate) fn at(source: &str, span: Span, message: impl Into<String>) -> MetadataError {
        let start = span.start.min(source.len());
        let before = &source.as_bytes()[..start];
        let line_start = before.iter().rposition(|&b| b == b'\n').map_or(0, |i| i + 1);
        let rest = &source.as_bytes()[line_start..];
        let line_end = rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
        let line: Vec<char> = String::from_utf8_lossy(&rest[..line_end]).chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let column = String::from_utf8_lossy(&before[line_start..]).chars().count();
        let shown = if line.len() <= MAX_LINE { 0 } else { column.saturating_sub(BYTES_BEFORE).min(line.len() - MAX_LINE) };
        let text: String = line[shown..].iter().take(MAX_LINE).collect();
        let text = text.trim_end();
        // If the span continues on later lines, it is marked up to the end of this line.
        let end = span.end.clamp(start, line_start + line_end);
        let marked = String::from_utf8_lossy(&source.as_bytes()[start..end]).trim_end().chars().count().max(1);
        let begin = column - shown;
        let trimmed = source.trim_end();
        MetadataError {
            line: before.iter().filter(|&&b| b == b'\n').count() + 1,
            column: column + 1,
            span,
            text: text.to_owned(),
            marked: begin..(begin + marked).min(text.chars().count().max(begin + 1)),
            message: message.into(),
            cut: span.end >= trimmed.len() && (start >= trimmed.len() || !trimmed.ends_with(';')),
        }
    }
}

/// An error whose position is still a span. The parts of the metadata parsers pass it among
/// themselves.
#[derive(Clone, Debug)]
pub(crate) struct SpanError {
    pub span: Span,
    pub message: String,
}

impl SpanError {
    pub(crate) fn new(span: Span, message: impl Into<String>) -> SpanError {
        SpanError { span, message: message.into() }
    }
}

/// An error at a position of a stream, beyond which its packet cannot be decoded.
#[derive(Clone, Debug, thiserror::Error)]
#[error("packet {packet} at byte {packet_offset}, bit {bit_offset}{}: {kind}", event_note(.event))]
pub struct DecodeError {
    /// Index of the packet in its stream file, from 0.
    pub packet: u64,
    /// Byte of the file at which the packet begins.
    pub packet_offset: u64,
    /// Position in the packet, in bits from its start.
    pub bit_offset: u64,
    /// Index in its packet of the event that was decoded; `None` if the error is not in an event.
    pub event: Option<u64>,
    /// Kind of the error.
    pub kind: DecodeErrorKind,
}

pub(crate) fn word(order: &ByteOrder) -> &'static str {
    match order {
        ByteOrder::Little => "little",
        ByteOrder::Big => "big",
    }
}

/// A number of bits with its verb. Sums of lengths saturate, and no file has that many bits; then
/// the number is not shown.
fn counted_bits(bits: u64, one: &str, many: &str) -> String {
    const NONE_HAS: u64 = 1 << 62;
    match bits {
        1 => format!("1 bit{one}"),
        NONE_HAS.. => format!("more bits than any file has{}", many.trim_start_matches(" more")),
        bits => format!("{bits} bits{many}"),
    }
}

fn event_note(event: &Option<u64>) -> String {
    event.map_or(String::new(), |e| format!(", event {e}"))
}

/// The kinds of errors in a stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// The file ends within the packet: the recorder was interrupted, or is still writing the file.
    #[error("the data ends here, {} needed", counted_bits(*.bits, " more is", " more are"))]
    Truncated {
        /// Bits that are missing.
        bits: u64,
    },
    /// A field is longer than the rest of the packet's content.
    #[error("{} beyond the end of the packet's content ({})", counted_bits(*.bits, " goes", " go"), counted_bits(*.remaining, " remains", " remain"))]
    BeyondContent {
        /// Bits of the field.
        bits: u64,
        /// Bits that remain.
        remaining: u64,
    },
    /// The packet begins with a wrong magic number.
    #[error("wrong magic number {found:#x}")]
    BadMagic {
        /// The number.
        found: u64,
    },
    /// The packet belongs to another trace. Only a [strict](crate::StreamDecoder::strict) decoder
    /// returns this error.
    #[error("the packet's uuid is not that of the metadata")]
    WrongUuid,
    /// The metadata has no such stream class.
    #[error("no stream class has the id {id}")]
    UnknownStream {
        /// Id in the packet's header.
        id: u64,
    },
    /// The metadata has no such event class.
    #[error("stream class {stream} has no event class with the id {id}")]
    UnknownEvent {
        /// Id of the stream class.
        stream: u64,
        /// Id in the event's header.
        id: u64,
    },
    /// The packet does not end at a byte boundary.
    #[error("packet size of {bits} bits is not a multiple of 8")]
    UnalignedPacketSize {
        /// Size of the packet in bits.
        bits: u64,
    },
    /// The sizes of a packet contradict each other.
    #[error("content size of {content} bits is greater than the packet size of {packet} bits")]
    ContentBeyondPacket {
        /// Size of the content in bits.
        content: u64,
        /// Size of the packet in bits.
        packet: u64,
    },
    /// The packet is smaller than its own header and context.
    #[error("size of {bits} bits is smaller than the packet's header and context")]
    PacketTooSmall {
        /// Size in bits that the packet states.
        bits: u64,
    },
    /// A variant has no option for the value of its tag.
    #[error("no option of the variant is selected by the tag value {tag}")]
    NoOption {
        /// The value.
        tag: i128,
    },
    /// A field begins within a byte whose earlier bits have the other byte order.
    #[error("byte order changes from {} to {} endian within a byte", word(.from), word(.to))]
    MixedByteOrder {
        /// Byte order of the bits before.
        from: ByteOrder,
        /// Byte order of the field.
        to: ByteOrder,
    },
    /// A huge array of elements without any bits: the data does not bound its length.
    #[error("an array of {length} elements that may be empty is not backed by data")]
    UnbackedLength {
        /// Number of elements.
        length: u64,
    },
    /// A text ends within a code unit.
    #[error("the text ends within a code unit of {unit} bytes")]
    CutUnit {
        /// Bytes of a code unit.
        unit: u64,
    },
    /// A variable-length integer does not fit into 64 bits.
    #[error("a variable-length integer needs more than 64 bits")]
    OversizedInteger,
    /// An event without any bits: decoding would never advance.
    #[error("an event of no bits never ends")]
    EmptyEvent,
    /// The event has more tree nodes than the decoder accepts.
    #[error("more than four million parts in one event")]
    TooManyParts,
    /// The stream cannot be read.
    #[error("reading failed: {0}")]
    Io(String),
}
