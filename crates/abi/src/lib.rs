//! The interface between probes and recorder: the layout of their shared memory and the encoding of
//! events.
//!
//! `include/longpole/abi.h` is the definition; this crate is its view from Rust, and a test
//! compiles the header and compares every offset. The crate has no dependencies and accesses no
//! files.
//!
//! Everything that is read through these types was written by an untrusted program. A reader must
//! copy the data first, validate the copy, and use only the copy.

#![no_std]

#[cfg(feature = "alloc")]
extern crate alloc;

#[cfg(feature = "alloc")]
pub mod fields;
pub mod kind;
pub mod layout;
#[cfg(feature = "alloc")]
pub mod site;

#[cfg(feature = "alloc")]
pub use fields::{Element, Field, FieldType, Width};
pub use kind::Kind;
pub use layout::*;
#[cfg(feature = "alloc")]
pub use site::{Site, SiteError};
