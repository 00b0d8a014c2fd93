//! The contract of probe and recorder: the shared memory's layout and the encoding of events.
//!
//! `include/longpole/abi.h` is the one definition; this crate is its view from Rust, and a test compiles the header and compares
//! every offset. The crate has no dependency and touches no file. Whatever is read through these types was written by a program
//! that nobody trusts: a reader validates, copies, and only then believes.

pub mod fields;
pub mod kind;
pub mod layout;
pub mod site;

pub use fields::{Field, FieldType};
pub use kind::Kind;
pub use layout::*;
pub use site::{Site, SiteError};
