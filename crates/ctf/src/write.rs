//! Writing: a [`Schema`](crate::types::Schema) to metadata text of either version, a schema of one version to one of the other, and values
//! to packets.
//!
//! ```
//! use std::sync::Arc;
//! use longpole_ctf::write::{self, Layout, StreamWriter};
//! use longpole_ctf::{Metadata, OwnedValue};
//!
//! let metadata = Arc::new(Metadata::from_text(
//!     "trace { major = 1; minor = 8; byte_order = be; };
//!      event { name = said; fields := struct { integer { size = 8; } n; integer { size = 16; } list[n]; }; };",
//! )?);
//! let mut writer = StreamWriter::new(Arc::new(Layout::new(metadata)?), 0);
//! let list = OwnedValue::List(vec![OwnedValue::U64(1), OwnedValue::U64(258)]);
//! writer.event(0, 0, &[OwnedValue::U64(2), list.clone()])?;
//! // What does not fit is an error, and leaves no trace.
//! let error = writer.event(0, 0, &[OwnedValue::U64(3), list]).unwrap_err();
//! assert_eq!(error.to_string(), "field `list`: 2 elements where the length is 3");
//! writer.end()?;
//! assert_eq!(writer.take(), [2, 0, 1, 1, 2]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The texts are made fragment by fragment ([`tsdl`] for CTF 1.8, [`json`] for CTF 2), so that a recorder can append what a new event class
//! needs. Everything here is pure: what comes out is text and bytes, and whoever has a file puts them there.

mod datum;
mod error;
mod fields;
pub mod json;
mod keywords;
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
pub use shape::{EventLayout, Layout};

use crate::types::{Schema, Version};

/// All of a schema, in the language of its version.
pub fn metadata(schema: &Schema) -> String {
    match schema.version {
        Version::V1_8 => tsdl::metadata(schema),
        Version::V2 => json::metadata(schema),
    }
}
