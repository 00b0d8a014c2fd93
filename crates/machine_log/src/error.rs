//! Why a log cannot be read further, with the place.

use std::fmt;
use std::io;

/// Why a log cannot be read further. After an error the reader has no more lines.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A line is no line of a machine log.
    #[error(transparent)]
    Line(#[from] LineError),
    /// The input failed.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// A line that is refused, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineError {
    /// Number of the line in the input, from 1.
    pub line: u64,
    /// Byte of the line at which the error was found, from 1; 0 if the error concerns the line as a
    /// whole.
    pub column: u64,
    /// The same byte as an offset in the input, from 0; the first byte of the line if the error
    /// concerns the line as a whole.
    pub byte: u64,
    /// What is wrong.
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

/// What is wrong with a line, and at which column (0: the line as a whole).
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

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineErrorKind {
    /// The line has more than [`LONGEST_LINE`](crate::LONGEST_LINE) bytes.
    #[error("longer than {} bytes", crate::LONGEST_LINE)]
    TooLong,
    /// The line is no object of JSON; the text says what was expected.
    #[error("{0}")]
    Json(String),
    /// A value is not of the type of its key.
    #[error("`{key}`: {what}")]
    Value {
        /// The key.
        key: &'static str,
        /// What the value is, and what was expected.
        what: String,
    },
    /// A key is not in [`KEYS`](crate::KEYS) and does not begin with `x_`.
    #[error("unknown key `{}` (own keys begin with x_)", .0.escape_debug())]
    UnknownKey(String),
    /// A key occurs twice.
    #[error("key `{0}` twice")]
    KeyTwice(&'static str),
    /// A line of a machine, or with `end`, has no time.
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
    /// The line is of no machine, queue or end.
    #[error("neither `machine`, `queue` nor `end`: whose line is this?")]
    NoSubject,
    /// Two keys exclude each other.
    #[error("`{0}` does not go with {1}")]
    Conflict(&'static str, &'static str),
    /// A line has two actions.
    #[error("`{0}` and `{1}` in one line; write two lines of the same `t`")]
    TwoActions(&'static str, &'static str),
    /// `at` or `link` may belong to either of two causes.
    #[error("`at` or `link` with two causes in one line; write two lines of the same `t`")]
    TwoCauses,
    /// A key qualifies another one, which is not there.
    #[error("`{0}` without {1}")]
    Alone(&'static str, &'static str),
    /// A text is none of the words that its key may have.
    #[error("`{key}` is {}; {expected}", quoted(.word))]
    Word {
        /// The key.
        key: &'static str,
        /// Its text.
        word: String,
        /// The words that are allowed.
        expected: &'static str,
    },
    /// A put or reserve of `"all"`.
    #[error("`n` is \"all\", which only a get or peek may say")]
    AllUnits,
    /// A queue of no capacity.
    #[error("`capacity` is 0: nothing could ever be put")]
    NoCapacity,
    /// More initial units than there is room for.
    #[error("`initial` is {initial}, beyond the capacity of {capacity}")]
    BeyondCapacity {
        /// Initial units.
        initial: u64,
        /// Units of room.
        capacity: u64,
    },
    /// A number that a line to be written has is outside of the format's range.
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
