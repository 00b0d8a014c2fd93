//! Why a value cannot be written, and to which field.

use std::fmt;

use crate::error::word;
use crate::types::ByteOrder;

/// A value that does not fit the field that it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteError {
    /// The field, nested ones with dotted names; empty where it is none.
    pub field: String,
    /// What does not fit.
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
    /// What failed is part of `outer`.
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

/// What can be wrong with a value, a packet or an event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteErrorKind {
    /// The value is of another kind.
    #[error("expected {expected}, found {found}")]
    WrongKind {
        /// Kind that the field takes.
        expected: &'static str,
        /// Kind of the value.
        found: &'static str,
    },
    /// The integer needs more bits.
    #[error("{value} does not fit {} of {bits} bits", if *.signed { "a signed integer" } else { "an unsigned integer" })]
    OutOfRange {
        /// The integer.
        value: i128,
        /// Bits of the field.
        bits: u32,
        /// The field has a sign.
        signed: bool,
    },
    /// The array has another length.
    #[error("{found} elements where the length is {length}")]
    WrongLength {
        /// Elements that the length field states.
        length: u64,
        /// Elements of the value.
        found: u64,
    },
    /// The text contains its own end.
    #[error("a NUL within a text that ends with one")]
    NulInText,
    /// The tag selects no option.
    #[error("no option of the variant is selected by the tag value {tag}")]
    NoOption {
        /// Value of the tag.
        tag: i128,
    },
    /// The value is of another option than the tag selects.
    #[error("the option is `{found}` where the tag selects `{selected}`")]
    WrongOption {
        /// Option that the tag selects.
        selected: String,
        /// Option of the value.
        found: String,
    },
    /// The value is of an option that the variant has not.
    #[error("the variant has no option `{name}`")]
    UnknownOption {
        /// Name of the option.
        name: String,
    },
    /// The selector contradicts the value.
    #[error("{}", if *.there { "nothing where the selector tells of a value" } else { "a value where the selector tells of none" })]
    WrongPresence {
        /// The selector states a value.
        there: bool,
    },
    /// The value is of another field.
    #[error("`{found}` stands where this field is due")]
    WrongField {
        /// Name of the field that the value is of.
        found: String,
    },
    /// A field has no value.
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
    #[error("the event's header cannot tell its id {id}")]
    UntoldId {
        /// The id.
        id: u64,
    },
    /// The header's fields cannot hold the time.
    #[error("the fields for times cannot tell {cycles} after {last}")]
    UntoldTime {
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
    /// The event has no bits, so no reader would find its end.
    #[error("an event of no bits")]
    EmptyEvent,
    /// The packet is too large.
    #[error("the packet would have more than {limit} bytes")]
    TooLarge {
        /// Most bytes of a packet.
        limit: u64,
    },
    /// An array of elements without bits.
    #[error("{length} elements of no bits")]
    UnbackedLength {
        /// Number of elements.
        length: u64,
    },
    /// No field holds the packet's size, and something follows the packet.
    #[error("no field tells where this packet ends, and something comes after it")]
    UntoldEnd,
    /// A field that is known only at the packet's end decides about other fields.
    #[error("this tells something of the packet's end, and something else depends on it")]
    LateValue,
}
