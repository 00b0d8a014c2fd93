//! Reasons why a value cannot be written, and the field concerned.

use std::fmt;

use crate::error::word;
use crate::types::ByteOrder;

/// A value that does not fit the field that it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteError {
    /// Name of the field, nested ones with dots; empty if the error concerns no field.
    pub field: String,
    /// The reason.
    pub kind: WriteErrorKind,
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field.is_empty() {
            true => write!(f, "{}", self.kind),
            false => write!(f, "field `{}`: {}", self.field, self.kind),
        }
    }
}

impl std::error::Error for WriteError {}

impl WriteError {
    /// Adds the name of the outer field to the error.
    #[cold]
    pub(super) fn within(mut self: Box<Self>, outer: &str) -> Box<Self> {
        if self.field.is_empty() {
            self.field.push_str(outer);
        } else if !outer.is_empty() {
            self.field.insert(0, '.');
            self.field.insert_str(0, outer);
        }
        self
    }
}

impl From<WriteErrorKind> for Box<WriteError> {
    #[cold]
    fn from(kind: WriteErrorKind) -> Box<WriteError> {
        Box::new(WriteError { field: String::new(), kind })
    }
}

/// The kinds of errors in a value, a packet or an event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteErrorKind {
    /// The value has a kind that the field does not accept.
    #[error("expected {expected}, found {found}")]
    WrongKind {
        /// Kind that the field takes.
        expected: &'static str,
        /// Kind of the value.
        found: &'static str,
    },
    /// The integer needs more bits than the field has.
    #[error("{value} does not fit {} of {bits} bits", if *.signed { "a signed integer" } else { "an unsigned integer" })]
    OutOfRange {
        /// The integer.
        value: i128,
        /// Bits of the field.
        bits: u32,
        /// The field has a sign.
        signed: bool,
    },
    /// The array has another length than its length field.
    #[error("{found} elements where the length is {length}")]
    WrongLength {
        /// Elements that the length field states.
        length: u64,
        /// Elements of the value.
        found: u64,
    },
    /// A text that is ended by a NUL contains a NUL.
    #[error("a NUL within a text that ends with one")]
    NulInText,
    /// The tag selects no option.
    #[error("no option of the variant is selected by the tag value {tag}")]
    NoOption {
        /// Value of the tag.
        tag: i128,
    },
    /// The value belongs to another option than the one that the tag selects.
    #[error("the option is `{found}` where the tag selects `{selected}`")]
    WrongOption {
        /// Option that the tag selects.
        selected: String,
        /// Option of the value.
        found: String,
    },
    /// The value belongs to an option that the variant does not have.
    #[error("the variant has no option `{name}`")]
    UnknownOption {
        /// Name of the option.
        name: String,
    },
    /// The selector contradicts the value.
    #[error("{}", if *.there { "no value, although the selector selects one" } else { "a value, although the selector selects none" })]
    WrongPresence {
        /// True if the selector states that there is a value.
        there: bool,
    },
    /// The value belongs to another field.
    #[error("`{found}` is at the position of this field")]
    WrongField {
        /// Name of the field to which the value belongs.
        found: String,
    },
    /// There is no value for a field.
    #[error("there is no value for this")]
    MissingValue,
    /// Values are left over.
    #[error("there are more values than fields")]
    TooManyValues,
    /// The stream class has no such event class.
    #[error("the stream class has no event class with the index {index}")]
    UnknownClass {
        /// Index of the event class.
        index: usize,
    },
    /// The trace has no such stream class.
    #[error("the trace has no stream class with the index {index}")]
    UnknownStream {
        /// Index of the stream class.
        index: usize,
    },
    /// The header's fields cannot hold the id of the event class.
    #[error("the event's header cannot represent the id {id}")]
    IdTooLarge {
        /// The id.
        id: u64,
    },
    /// The header's fields cannot hold the time.
    #[error("the fields for times cannot represent {cycles} after {last}")]
    TimeTooLarge {
        /// Time of the event before, in cycles.
        last: u64,
        /// Time of the event, in cycles.
        cycles: u64,
    },
    /// A field would begin within a byte of the other byte order.
    #[error("byte order changes from {} to {} endian within a byte", word(.from), word(.to))]
    MixedByteOrder {
        /// Byte order of the bits before.
        from: ByteOrder,
        /// Byte order of the field.
        to: ByteOrder,
    },
    /// The event has no bits, so a reader would never advance.
    #[error("an event of no bits")]
    EmptyEvent,
    /// The packet is too large.
    #[error("the packet would have more than {limit} bytes")]
    TooLarge {
        /// Maximum size of a packet in bytes.
        limit: u64,
    },
    /// An array of too many elements without any bits.
    #[error("{length} elements of no bits")]
    UnbackedLength {
        /// Number of elements.
        length: u64,
    },
    /// No field holds the packet's size, and something follows the packet.
    #[error("the packet has no field for its size, but other data follow it")]
    NoPacketSize,
    /// Another field depends on a field whose value is known only at the end of the packet.
    #[error("this tells something of the packet's end, and something else depends on it")]
    LateValue,
}
