//! The contract of probe and recorder: the shared memory's layout and the encoding of events.
//!
//! `include/longpole/abi.h` is the one definition; this crate is its view from Rust, and a test compiles the header and compares
//! every offset. The crate has no dependency and touches no file. Whatever is read through these types was written by a program
//! that nobody trusts: a reader validates, copies, and only then believes.

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
