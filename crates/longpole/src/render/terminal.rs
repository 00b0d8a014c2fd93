//! How output reaches a terminal: its size, the pager, and progress below the output.

pub(crate) mod conversion;
pub(crate) mod output;
pub(crate) mod pager;
pub(crate) mod progress;
pub(crate) mod screen;
