#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod error;
mod fields;
mod json;
mod line;
mod parse;
mod quick;
mod reader;
mod repeats;
mod writer;

pub use error::{Error, LineError, LineErrorKind};
pub use fields::KEYS;
pub use line::{Action, Amount, Cause, Content, Declaration, Flow, Line, Machine, Order, Text, Unit, Wants, LONGEST_LINE};
pub use reader::{is_machine_log, Next, Reader, Slot};
pub use repeats::Repeats;
pub use writer::Writer;
