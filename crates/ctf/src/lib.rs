//! Common Trace Format: bytes in, values out, and back.
//!
//! The constraints under which this crate is built:
//!
//! - *Pure.* Metadata is a byte slice, a stream is a [`Source`]; the crate opens no files and knows no product.
//! - *Compiled once.* Metadata, the text of CTF 1.8 or the JSON of CTF 2, becomes an immutable [`Schema`], that a plan per event class, and a small executor
//!   runs plans over packets. Events of fixed layout cost one bounds check, and their fields are decoded when looked at.
//! - *Constant memory.* One packet's facts and one event's marks; nothing grows with the stream.
//! - *Errors have a place.* Line and column in metadata, packet and bit in streams. Whatever the bytes are, nothing
//!   panics, hangs, or allocates in proportion to a length that no bytes back.
//!
//! ```
//! use std::sync::Arc;
//! use longpole_ctf::{BytesSource, Item, Metadata, StreamDecoder};
//!
//! let metadata = Arc::new(Metadata::from_text(
//!     "trace { major = 1; minor = 8; byte_order = le; };
//!      event { name = tick; fields := struct { integer { size = 16; } n; }; };",
//! )?);
//! let mut stream = StreamDecoder::new(metadata, BytesSource([1, 0, 2, 0]));
//! let mut sum = 0;
//! while let Some(item) = stream.next()? {
//!     if let Item::Event(event) = item {
//!         sum += event.get("n").and_then(|v| v.as_u64()).unwrap_or(0);
//!     }
//! }
//! assert_eq!(sum, 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Who computes over many events takes them by columns, which is faster and yields the same values:
//!
//! ```
//! use std::sync::Arc;
//! use longpole_ctf::{Batch, BytesSource, Column, Metadata, Step, StreamDecoder};
//!
//! let metadata = Arc::new(Metadata::from_text(
//!     "trace { major = 1; minor = 8; byte_order = le; };
//!      event { name = tick; fields := struct { integer { size = 16; } n; }; };",
//! )?);
//! let mut stream = StreamDecoder::new(metadata, BytesSource([1, 0, 2, 0]));
//! let mut batch = Batch::new();
//! let mut sum = 0;
//! while let Some(step) = stream.advance_batch(&mut batch)? {
//!     if step == Step::Event {
//!         for table in batch.tables() {
//!             if let Some(Column::U64(values)) = table.columns().first() {
//!                 sum += values.iter().sum::<u64>();
//!             }
//!         }
//!     }
//! }
//! assert_eq!(sum, 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What is read can be [written](write) again, also in the other version of the format; values go from the reader to the writer as they are:
//!
//! ```
//! use std::sync::Arc;
//! use longpole_ctf::write::{self, Layout, StreamWriter};
//! use longpole_ctf::{BytesSource, Item, Metadata, StreamDecoder};
//!
//! let metadata = Arc::new(Metadata::from_text(
//!     "trace { major = 1; minor = 8; byte_order = le; };
//!      event { name = said; fields := struct { string text; integer { size = 8; } volume; }; };",
//! )?);
//! let layout = Arc::new(Layout::to_ctf2(&metadata)?);
//! let text = write::metadata(layout.metadata());
//! assert!(text.contains(r#"{"type": "preamble", "version": 2}"#));
//!
//! let mut stream = StreamDecoder::new(metadata, BytesSource(b"hello\0\x05bye\0\x01"));
//! let mut writer = StreamWriter::new(layout, 0);
//! while let Some(item) = stream.next()? {
//!     match item {
//!         Item::PacketBegin(packet) => writer.begin(packet)?,
//!         Item::Event(event) => writer.event(event.class_index(), event.cycles(), event.values())?,
//!         Item::PacketEnd(_) => writer.end()?,
//!         Item::DiscardedEvents(_) | Item::DiscardedPackets(_) => {}
//!     }
//! }
//! assert_eq!(writer.take(), b"hello\0\x05bye\0\x01");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod batch;
mod bits;
mod bounds;
mod clock;
mod decoder;
mod error;
mod event;
mod exec;
mod header;
mod json;
mod mappings;
mod metadata;
mod packet;
mod plan;
mod refs;
mod rigid;
mod sign;
mod source;
mod tsdl;
pub mod types;
mod value;
pub mod write;

pub use batch::{Batch, Bytes, Column, Table, Times};
pub use clock::{Clock, Origin};
pub use decoder::{Step, StreamDecoder};
pub use error::{DecodeError, DecodeErrorKind, MetadataError, Span};
pub use event::{EventRef, Item};
pub use metadata::Metadata;
pub use packet::{Loss, Packet};
pub use plan::Field;
pub use source::{BytesSource, FileBuffer, FileSource, Source};
pub use types::{EnvValue, Schema};
pub use value::{Array, Compound, CompoundKind, OwnedValue, Value, Values, WideText};
