//! Parser for the metadata language of CTF 2: a sequence of JSON texts →
//! [`Schema`](crate::types::Schema).
//!
//! The syntax is known only in this module. The JSON is read by a parser of our own for three
//! reasons: every value needs its position for error messages, integers must be exact beyond 64
//! bits, and the depth of nesting must be bounded.
//!
//! Parsers of JSON text (`syntax`), of properties (`value`), of field classes (`class`) and of
//! whole fragments (`fragment`) belong here; the rules that hold for both versions of CTF do not.

mod class;
mod fragment;
pub(crate) mod syntax;
mod value;

use crate::error::{MetadataError, SpanError};
use crate::types::Schema;

/// The character that begins each text of a sequence.
pub(crate) const RECORD_SEPARATOR: char = '\u{1e}';

/// Returns `true` if metadata is in this language. No metadata of CTF 1.8 begins with these
/// characters.
pub(crate) fn is_text_sequence(text: &str) -> bool {
    text.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']).starts_with([RECORD_SEPARATOR, '{', '['])
}

/// Parses metadata text.
pub(crate) fn parse(text: &str) -> Result<Schema, MetadataError> {
    let read = || -> Result<Schema, SpanError> { fragment::schema(&syntax::sequence(text)?, text) };
    read().map_err(|e| MetadataError::at(text, e.span, e.message))
}
