//! Opens inputs: finds out what a path holds and gives access to its bytes.
//!
//! This folder holds the detection of formats (`recognise` for directories, `format` for single
//! files), windows on stream files (`file`), temporary files (`scratch`), and the descriptions that
//! come with a trace (`recording` for `longpole.json`, `part` for CTF metadata), including why a
//! trace has no event (`no_event`).
//!
//! Decoding of a format belongs into `formats/`, ordering of events into `merge/`. Nothing here
//! decodes an event.

pub(crate) mod file;
pub(crate) mod format;
pub(crate) mod no_event;
pub(crate) mod part;
pub(crate) mod recognise;
pub(crate) mod recording;
pub(crate) mod scratch;
