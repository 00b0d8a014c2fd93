#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod batch;
mod bits;
mod byte_order;
mod clock;
mod decoder;
mod diagnostic;
mod error;
mod event;
mod event_header;
mod exec;
mod fixed_layout;
mod header_batch;
mod identity;
mod json;
mod mappings;
mod metadata;
mod metadata_text;
mod packet;
mod packet_signature;
mod plan;
mod refs;
mod source;
mod tsdl;
mod type_limits;
pub mod types;
mod value;
pub mod write;

pub use batch::{Batch, Bytes, Column, Table};
pub use clock::{Clock, Origin};
pub use decoder::{Step, StreamDecoder};
pub use diagnostic::{Diagnostic, DiagnosticKind};
pub use error::{DecodeError, DecodeErrorKind, MetadataError, Span};
pub use event::{EventRef, Item};
pub use header_batch::Headers;
pub use metadata::Metadata;
pub use packet::{Loss, Packet};
pub use plan::Field;
pub use source::{BytesSource, FileBuffer, FileSource, Source};
pub use types::{EnvValue, Schema};
pub use value::{Array, Compound, CompoundKind, OwnedValue, Value, Values, WideText};
