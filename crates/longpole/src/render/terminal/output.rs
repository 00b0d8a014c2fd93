//! The standard output of the verbs that answer: wrapped to the screen, coloured where that is
//! wanted, and shown by a pager if it is longer than the screen.
//!
//! Colours and line breaks are for people: [`text`] has them, [`raw`] has neither and is for JSON
//! and other formats. Both use the pager. A verb that writes lines while it waits for more must use
//! neither, because the pager shows nothing until a screen is full.

use crate::render::terminal::pager::Paged;
use crate::render::terminal::progress;
use crate::render::terminal::screen::{self, Wrap};
use anstream::{AutoStream, ColorChoice, StripStream};
use std::io::{self, BufWriter, IsTerminal, Write};

/// Returns the standard output for text: escape sequences for colours are removed if colours are
/// not wanted, and lines are wrapped to the screen.
pub fn text() -> Box<dyn Write> {
    let out = match AutoStream::choice(&io::stdout()) {
        ColorChoice::Never => Box::new(StripStream::new(raw())) as Box<dyn Write>,
        _ => raw(),
    };
    match screen::columns() {
        Some(columns) => Box::new(Wrap::new(out, columns)),
        None => out,
    }
}

/// Returns the standard output for anything else.
pub fn raw() -> Box<dyn Write> {
    match io::stdout().is_terminal() {
        true => {
            progress::end();
            Box::new(Paged::new())
        }
        false => Box::new(BufWriter::new(io::stdout().lock())),
    }
}

/// Returns a file for text, without colours.
pub fn file(file: std::fs::File) -> Box<dyn Write> {
    Box::new(StripStream::new(Box::new(BufWriter::new(file)) as Box<dyn Write>))
}
