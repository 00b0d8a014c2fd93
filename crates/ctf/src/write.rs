//! Writing of CTF: a [`Schema`](crate::types::Schema) as metadata text of either version, the
//! conversion of a schema between the two versions, and values as packets.
//!
//! ```
//! use std::sync::Arc;
//! use longpole_ctf::write::{self, Layout, StreamWriter};
//! use longpole_ctf::{Metadata, OwnedValue};
//!
//! let metadata = Arc::new(Metadata::from_text(
//!     "trace { major = 1; minor = 8; byte_order = be; };
//!      event {
//!          name = said;
//!          fields := struct { integer { size = 8; } n; integer { size = 16; } list[n]; };
//!      };",
//! )?);
//! let mut writer = StreamWriter::new(Arc::new(Layout::new(metadata)?), 0);
//! let list = OwnedValue::List(vec![OwnedValue::U64(1), OwnedValue::U64(258)]);
//! writer.event(0, 0, &[OwnedValue::U64(2), list.clone()])?;
//! // A value that does not fit its field is an error, and nothing of its event is written.
//! let error = writer.event(0, 0, &[OwnedValue::U64(3), list]).unwrap_err();
//! assert_eq!(error.to_string(), "field `list`: 2 elements where the length is 3");
//! writer.end()?;
//! assert_eq!(writer.take(), [2, 0, 1, 1, 2]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Metadata is made fragment by fragment ([`tsdl`] for CTF 1.8, [`json`] for CTF 2), so that a
//! recorder can append the fragment of a new event class. Everything here is pure: the results are
//! text and bytes, and the caller writes them to files.

mod bit_buffer;
mod datum;
mod error;
mod fields;
pub mod json;
mod keywords;
mod packet;
mod shape;
mod to_ctf1;
mod to_ctf2;
pub mod tsdl;

pub use datum::Datum;
pub use error::{WriteError, WriteErrorKind};
pub use packet::StreamWriter;
pub use shape::{EventLayout, Layout};
pub use to_ctf2::to_ctf2;

use crate::types::{Schema, Version};

/// The metadata text of a whole schema, in the language of its version.
pub fn metadata(schema: &Schema) -> String {
    match schema.version {
        Version::V1_8 => tsdl::metadata(schema),
        Version::V2 => json::metadata(schema),
    }
}
