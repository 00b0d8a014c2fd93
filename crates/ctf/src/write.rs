//! Writing: a [`Schema`](crate::types::Schema) to metadata text of either version, a schema of one version to one of the other, and values
//! to packets.
//!
//! The texts are made fragment by fragment ([`tsdl`] for CTF 1.8, [`json`] for CTF 2), so that a recorder can append what a new event class
//! needs. Everything here is pure: what comes out is text and bytes, and whoever has a file puts them there.

mod datum;
mod error;
mod fields;
pub mod json;
mod lower;
mod packet;
mod put;
mod raise;
mod shape;
pub mod tsdl;

pub use datum::Datum;
pub use error::{WriteError, WriteErrorKind};
pub use packet::StreamWriter;
pub use raise::to_ctf2;
pub use shape::Layout;

use crate::types::{Schema, Version};

/// All of a schema, in the language of its version.
pub fn metadata(schema: &Schema) -> String {
    match schema.version {
        Version::V1_8 => tsdl::metadata(schema),
        Version::V2 => json::metadata(schema),
    }
}
