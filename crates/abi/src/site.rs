//! Entries of the site table, copied and validated. Any program of the user may have overwritten
//! parts of the table.

use crate::fields::{self, Field};
use crate::Kind;
use crate::SiteEntry;
use crate::FIELDS_MAXIMUM;
use crate::NAME_MAXIMUM;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::mem::size_of;

/// A call site or a handle: the description that all its events share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    pub kind: Kind,
    pub name: String,
    pub fields: Vec<Field>,
    pub file: String,
    pub line: u32,
    /// Further properties, as `key=value&…`.
    pub attributes: String,
}

/// Reasons why an entry of the table is not a valid site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiteError {
    /// The entry is not entirely within the arena.
    Outside,
    UnknownKind(u16),
    /// A text is longer than the format allows, or the sizes do not add up.
    Sizes,
    Fields,
}

impl fmt::Display for SiteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SiteError::Outside => write!(f, "the entry does not lie within the table"),
            SiteError::UnknownKind(kind) => write!(f, "unknown kind {kind}"),
            SiteError::Sizes => write!(f, "the sizes of its texts do not add up"),
            SiteError::Fields => write!(f, "malformed description of its fields"),
        }
    }
}

impl core::error::Error for SiteError {}

impl Site {
    /// Decodes the entry at byte `offset` of `arena`, which is a private copy of the arena. Invalid
    /// UTF-8 and control characters are replaced.
    pub fn decode(arena: &[u8], offset: usize) -> Result<Site, SiteError> {
        const FIXED: usize = size_of::<SiteEntry>();
        let entry = arena.get(offset..).ok_or(SiteError::Outside)?;
        let fixed = entry.get(..FIXED).ok_or(SiteError::Outside)?;
        let half = |at: usize| u16::from_ne_bytes([fixed[at], fixed[at + 1]]);
        let word = |at: usize| u32::from_ne_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
        let size = word(0) as usize;
        let number = half(4);
        let sizes = [half(6), half(8), half(10), half(12)].map(usize::from);
        let kind = Kind::from_number(number).ok_or(SiteError::UnknownKind(number))?;
        let [name, field, file, attributes] = sizes;
        if name > NAME_MAXIMUM || field > FIELDS_MAXIMUM || file > NAME_MAXIMUM || attributes > NAME_MAXIMUM {
            return Err(SiteError::Sizes);
        }
        if size != (FIXED + sizes.iter().sum::<usize>()).next_multiple_of(8) {
            return Err(SiteError::Sizes);
        }
        let texts = entry.get(FIXED..size).ok_or(SiteError::Outside)?;
        let mut at = 0;
        let mut text = |length: usize| {
            let bytes = &texts[at..at + length];
            at += length;
            printable(bytes)
        };
        let name = text(name);
        let fields = fields::parse(&text(field)).ok_or(SiteError::Fields)?;
        Ok(Site { kind, name, fields, file: text(file), line: word(16), attributes: text(attributes) })
    }

    /// The name of the event in the trace: `KIND:NAME`.
    pub fn event_name(&self) -> String {
        format!("{}:{}", self.kind.name(), self.name)
    }
}

fn printable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
