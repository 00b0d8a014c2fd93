//! The metadata language of CTF 1.8 (TSDL): text → tokens → syntax tree → [`Schema`](crate::types::Schema).
//!
//! One front end among others: nothing outside this folder knows the syntax.

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
