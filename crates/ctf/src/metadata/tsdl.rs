//! Parser for the metadata language of CTF 1.8 (TSDL): text → tokens → syntax tree →
//! [`Schema`](crate::types::Schema).
//!
//! The syntax is known only in this module. The lexer, the parser, the syntax tree and the
//! resolution of names belong here; the rules that hold for both versions of CTF do not.

mod attribute;
mod lexer;
mod parser;
mod resolve;
pub(crate) mod syntax;

use crate::error::{MetadataError, SpanError};
use crate::types::Schema;

/// Parses plain metadata text.
pub(crate) fn parse(text: &str) -> Result<Schema, MetadataError> {
    let read = || -> Result<Schema, SpanError> {
        let tokens = lexer::tokens(text)?;
        let items = parser::parse(&tokens, text.len())?;
        resolve::schema(&items)
    };
    read().map_err(|e| MetadataError::at(text, e.span, e.message))
}
