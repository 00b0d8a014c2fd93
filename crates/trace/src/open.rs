//! Opens inputs: finds out what a path holds (`recognise` for directories, `format` for single
//! files), and why a trace has no event (`no_event`).
//!
//! Access to bytes belongs in `files/`, decoding of a format in `formats/`, ordering of events
//! into `merge/`. Nothing here decodes an event.

pub(crate) mod format;
pub(crate) mod no_event;
pub(crate) mod recognise;
