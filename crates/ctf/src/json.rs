//! The metadata language of CTF 2: a sequence of JSON texts → [`Schema`](crate::types::Schema).
//!
//! One front end among others: nothing outside this folder knows the syntax. The JSON is read by our own reader, since every value needs
//! its place for the errors, integers must be exact beyond 64 bits, and the depth of nesting bounded.

mod class;
mod fragment;
pub(crate) mod syntax;
mod value;

use crate::error::{MetadataError, SpanError};
use crate::types::Schema;

/// The character that begins each text of a sequence.
pub(crate) const RECORD_SEPARATOR: char = '\u{1e}';

/// Whether metadata is in this language; none of CTF 1.8 begins so.
pub(crate) fn is_text_sequence(text: &str) -> bool {
    text.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']).starts_with([RECORD_SEPARATOR, '{', '['])
}

/// Parses metadata text.
pub(crate) fn parse(text: &str) -> Result<Schema, MetadataError> {
    let read = || -> Result<Schema, SpanError> { fragment::schema(&syntax::sequence(text)?, text) };
    read().map_err(|e| MetadataError::at(text, e.span, e.message))
}
