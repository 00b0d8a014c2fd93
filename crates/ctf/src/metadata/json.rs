//! Parser for the metadata language of CTF 2: a sequence of JSON texts →
//! [`Schema`](crate::types::Schema).
//!
//! The syntax is known only in this module. The JSON is read by a parser of our own for three
//! reasons: every value needs its position for error messages, integers must be exact beyond 64
//! bits, and the depth of nesting must be bounded.
//!
//! Parsers of JSON text (`syntax`), of properties (`value`), of field classes (`class`) and of
//! whole fragments (`fragment`), and what drafts of CTF 2 wrote differently (`draft`) belong here;
//! the rules that hold for both versions of CTF do not.

mod class;
mod draft;
mod fragment;
pub(crate) mod syntax;
mod value;

pub(crate) use draft::Draft;

use crate::error::{MetadataError, SpanError};
use crate::types::Schema;

/// The character that begins each text of a sequence.
pub(crate) const RECORD_SEPARATOR: char = '\u{1e}';

/// Returns true if metadata is in this language. No metadata of CTF 1.8 begins with these
/// characters.
pub(crate) fn is_text_sequence(text: &str) -> bool {
    text.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']).starts_with([RECORD_SEPARATOR, '{', '['])
}

/// Parses metadata text. Also returns the places that are of a draft of the language.
pub(crate) fn parse(text: &str) -> Result<(Schema, Vec<Draft>), MetadataError> {
    let read = || -> Result<(Schema, Vec<Draft>), SpanError> {
        let mut fragments = syntax::sequence(text)?;
        let drafts = draft::rewrite(&mut fragments);
        Ok((fragment::schema(&fragments, text)?, drafts))
    };
    read().map_err(|e| MetadataError::at(text, e.span, e.message))
}
