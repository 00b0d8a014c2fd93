//! Why a value cannot be written, and to which field.

use std::fmt;

use crate::error::word;
use crate::types::ByteOrder;

/// A value that does not fit the field that it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteError {
    /// The field, nested ones with dotted names; empty where it is none.
    pub field: String,
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

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteErrorKind {
    #[error("expected {expected}, found {found}")]
    WrongKind { expected: &'static str, found: &'static str },
    #[error("{value} does not fit {} of {bits} bits", if *.signed { "a signed integer" } else { "an unsigned integer" })]
    OutOfRange { value: i128, bits: u32, signed: bool },
    #[error("{found} elements where the length is {length}")]
    WrongLength { length: u64, found: u64 },
    #[error("a NUL within a text that ends with one")]
    NulInText,
    #[error("no option of the variant is selected by the tag value {tag}")]
    NoOption { tag: i128 },
    #[error("the option is `{found}` where the tag selects `{selected}`")]
    WrongOption { selected: String, found: String },
    #[error("the variant has no option `{name}`")]
    UnknownOption { name: String },
    #[error("{}", if *.there { "nothing where the selector tells of a value" } else { "a value where the selector tells of none" })]
    WrongPresence { there: bool },
    #[error("`{found}` stands where this field is due")]
    WrongField { found: String },
    #[error("there is no value for this")]
    MissingValue,
    #[error("there are more values than fields")]
    TooManyValues,
    #[error("the stream class has no event class with the index {index}")]
    UnknownClass { index: usize },
    #[error("the trace has no stream class with the index {index}")]
    UnknownStream { index: usize },
    #[error("the event's header cannot tell its id {id}")]
    UntoldId { id: u64 },
    #[error("the fields for times cannot tell {cycles} after {last}")]
    UntoldTime { last: u64, cycles: u64 },
    #[error("byte order changes from {} to {} endian within a byte", word(.from), word(.to))]
    MixedByteOrder { from: ByteOrder, to: ByteOrder },
    #[error("an event of no bits")]
    EmptyEvent,
    #[error("the packet would have more than {limit} bytes")]
    TooLarge { limit: u64 },
    #[error("{length} elements of no bits")]
    UnbackedLength { length: u64 },
    #[error("no field tells where this packet ends, and something comes after it")]
    UntoldEnd,
    #[error("this tells something of the packet's end, and something else depends on it")]
    LateValue,
}
