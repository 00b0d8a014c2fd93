#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod byte_order;
pub mod dat;
mod error;
pub mod format;
pub mod instance;
pub mod page;
pub mod printk;
mod raw;
pub mod stream;
pub mod text;
pub mod tracefs;

pub use byte_order::ByteOrder;
pub use dat::{perf_formats, Dat, ReadAt};
pub use error::{DatError, DatErrorKind, FieldError, FormatError, FormatErrorKind, PageError, PageErrorKind, TraceFsError};
pub use format::{EventFormat, Field, Formats};
pub use instance::{CpuStats, DeadInstance, Instance};
pub use page::{Loss, Page, PageLayout, Record};
pub use raw::RawReader;
pub use stream::{Item, PageStream};
pub use tracefs::{EventName, TraceFs};
