#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod bits;
mod byte_order;
mod clock;
mod decoder;
mod diagnostic;
mod error;
mod identity;
mod metadata;
mod packet;
mod plan;
pub mod types;
mod value;
pub mod write;

pub use clock::{Clock, Origin};
pub use decoder::batch::{Batch, Bytes, Column, Table};
pub use decoder::event::{EventRef, Item};
pub use decoder::header_batch::Headers;
pub use decoder::source::{BytesSource, FileBuffer, FileSource, Source};
pub use decoder::{Step, StreamDecoder};
pub use diagnostic::{Diagnostic, DiagnosticKind};
pub use error::{DecodeError, DecodeErrorKind, MetadataError, Span};
pub use metadata::Metadata;
pub use packet::{Loss, Packet};
pub use plan::Field;
pub use types::{EnvValue, Schema};
pub use value::{Array, Compound, CompoundKind, OwnedValue, Value, Values, WideText};
