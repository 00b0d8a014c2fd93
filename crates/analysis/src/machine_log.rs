//! Conversion between machine logs and interactions. This module connects the format
//! (`longpole_machine_log`) with the model.
//!
//! The format has names; the model has ids and kinds. [`Reader`] interns the names of each line and
//! yields its content as [`Interaction`](longpole_model::interaction::Interaction)s; [`Writer`]
//! does the reverse. Neither judges: well-formed content that is impossible (a get of an item that
//! is not in the queue) is counted by the analyses.

mod reader;
mod replies;
mod writer;

pub use longpole_machine_log::is_machine_log;
pub use reader::{LogError, Reader, MAX_NAMES};
pub use writer::Writer;

/// Prefix of the digits of a numeric flow. A text that itself begins with this prefix gets it once
/// more, so that `7` and `"7"` are two flows.
const NUMBERED: &str = "\u{0}";
