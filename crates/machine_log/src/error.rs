//! Errors of reading a log, with their place.

use crate::line::LONGEST_LINE;
use std::fmt;
use std::io;

/// Reason why a log cannot be read further. After an error the reader returns no more lines.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A line is not a line of a machine log.
    #[error(transparent)]
    Line(#[from] LineError),
    /// Reading the input failed.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// A line that is refused, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineError {
    /// Number of the line in the input, from 1.
    pub line: u64,
    /// Byte of the line at which the error was found, from 1; 0 if the error concerns the line as a
    /// whole.
    pub column: u64,
    /// Offset of that byte in the input, from 0; the offset of the line if the error concerns the
    /// line as a whole.
    pub byte: u64,
    /// Kind of the error.
    pub kind: LineErrorKind,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.kind)?;
        match self.column {
            0 => Ok(()),
            column => write!(f, ", at column {column}"),
        }
    }
}

impl std::error::Error for LineError {}

/// Kind of an error, and its column; 0 if the error concerns the line as a whole.
#[derive(Debug)]
pub(crate) struct Fault {
    pub kind: LineErrorKind,
    pub column: u64,
}

impl From<LineErrorKind> for Fault {
    fn from(kind: LineErrorKind) -> Fault {
        Fault { kind, column: 0 }
    }
}

/// Kind of error in a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineErrorKind {
    /// The line has more than [`LONGEST_LINE`](crate::LONGEST_LINE) bytes.
    #[error("longer than {} bytes", LONGEST_LINE)]
    TooLong,
    /// The line is no JSON object; the text describes what was expected.
    #[error("{0}")]
    Json(String),
    /// A value does not have the type of its key.
    #[error("`{key}`: {what}")]
    Value {
        /// The key.
        key: &'static str,
        /// Description of the value and of what was expected.
        what: String,
    },
    /// A key is not in [`KEYS`](crate::KEYS) and does not begin with `x_`.
    #[error("unknown key `{}` (own keys begin with x_)", .0.escape_debug())]
    UnknownKey(String),
    /// A key occurs twice.
    #[error("key `{0}` twice")]
    KeyTwice(&'static str),
    /// A line with `machine` or `end` has no time.
    #[error("`t` is missing: the time in ns")]
    NoTime,
    /// The time is before that of an earlier line.
    #[error("`t` is {t} after {before}: the time of lines never decreases")]
    TimeDecreases {
        /// The line's time.
        t: u64,
        /// The time of the line before.
        before: u64,
    },
    /// The line has none of `machine`, `queue` and `end`.
    #[error("the line has neither `machine`, `queue` nor `end`")]
    NoSubject,
    /// Two keys exclude each other.
    #[error("`{0}` does not go with {1}")]
    Conflict(&'static str, &'static str),
    /// The line has two actions.
    #[error("`{0}` and `{1}` in one line; write two lines of the same `t`")]
    TwoActions(&'static str, &'static str),
    /// The line has two causes, and `at` or `link` may belong to either.
    #[error("`at` or `link` with two causes in one line; write two lines of the same `t`")]
    TwoCauses,
    /// A key is missing that another key qualifies.
    #[error("`{0}` without {1}")]
    Alone(&'static str, &'static str),
    /// A text is none of the words that are allowed for its key.
    #[error("`{key}` is {}; {expected}", quoted(.word))]
    Word {
        /// The key.
        key: &'static str,
        /// The text of that key.
        word: String,
        /// The words that are allowed.
        expected: &'static str,
    },
    /// A put or reserve has the amount `"all"`.
    #[error("`n` is \"all\", which only a get or peek may say")]
    AllUnits,
    /// A queue has the capacity 0.
    #[error("`capacity` is 0: nothing could ever be put")]
    NoCapacity,
    /// A queue has more initial units than its capacity.
    #[error("`initial` is {initial}, beyond the capacity of {capacity}")]
    BeyondCapacity {
        /// Initial units.
        initial: u64,
        /// Capacity in units.
        capacity: u64,
    },
    /// A number in a line to be written is outside of the format's range.
    #[error("`{key}` is {number}, which no log can hold")]
    Range {
        /// The key.
        key: &'static str,
        /// The number.
        number: i128,
    },
}

fn quoted(word: &str) -> String {
    format!("\"{word}\"")
}
