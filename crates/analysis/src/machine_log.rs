//! Machine logs as interactions, and back: the seam between the format (`longpole_machine_log`) and
//! the model.
//!
//! The format has names; the model has ids and kinds. [`Reader`] interns the names of each line and
//! yields what it says as [`Interaction`](longpole_model::interaction::Interaction)s, [`Writer`]
//! does the reverse. Neither judges: what is well-formed but cannot have happened (a get of what is
//! not there) is counted by the analyses.

mod reader;
mod replies;
mod writer;

pub use longpole_machine_log::is_machine_log;
pub use reader::{LogError, Reader, MOST_NAMES};
pub use writer::Writer;

/// Before the digits of a flow that is a number, and once more before a text that begins so itself:
/// `7` and `"7"` are two flows.
const NUMBERED: &str = "\u{0}";
